"""OffsetCommit, API key 8.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class OffsetCommitRequestPartition(Message):
    __slots__ = ("committed_leader_epoch", "committed_metadata", "committed_offset", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (2, 10), default=0),
        # The message offset to be committed.
        Field("committed_offset", "int64", (2, 10), default=0),
        # The leader epoch of this partition.
        Field("committed_leader_epoch", "int32", (6, 10), default=-1),
        # Any associated metadata the client wants to keep.
        Field("committed_metadata", "string", (2, 10), nullable_versions=(2, 10), default=""),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(Message):
    __slots__ = ("name", "partitions", "topic_id")

    FIELDS = (
        # The topic ID.
        Field("topic_id", "uuid", (10, 10), default=ZERO_UUID),
        # The topic name.
        Field("name", "string", (2, 9), default=""),
        # Each partition to commit offsets for.
        Field("partitions", "[]struct", (2, 10), struct=OffsetCommitRequestPartition),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partitions: list[OffsetCommitRequestPartition] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetCommitRequest(ApiMessage):
    __slots__ = (
        "generation_id_or_member_epoch",
        "group_id",
        "group_instance_id",
        "member_id",
        "retention_time_ms",
        "topics",
    )

    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE_SINCE = 8
    FIELDS = (
        # The unique group identifier.
        Field("group_id", "string", (2, 10), default=""),
        # The generation of the group if using the classic group protocol or the member epoch if using the
        # consumer protocol.
        Field("generation_id_or_member_epoch", "int32", (2, 10), default=-1),
        # The member ID assigned by the group coordinator.
        Field("member_id", "string", (2, 10), default=""),
        # The unique identifier of the consumer instance provided by end user.
        Field("group_instance_id", "string", (7, 10), nullable_versions=(7, 10)),
        # The time period in ms to retain the offset.
        Field("retention_time_ms", "int64", (2, 4), default=-1),
        # The topics to commit offsets for.
        Field("topics", "[]struct", (2, 10), struct=OffsetCommitRequestTopic),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is None else topics


class OffsetCommitResponsePartition(Message):
    __slots__ = ("error_code", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (2, 10), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (2, 10), default=0),
    )

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(Message):
    __slots__ = ("name", "partitions", "topic_id")

    FIELDS = (
        # The topic ID.
        Field("topic_id", "uuid", (10, 10), default=ZERO_UUID),
        # The topic name.
        Field("name", "string", (2, 9), default=""),
        # The responses for each partition in the topic.
        Field("partitions", "[]struct", (2, 10), struct=OffsetCommitResponsePartition),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partitions: list[OffsetCommitResponsePartition] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetCommitResponse(ApiMessage):
    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE_SINCE = 8
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (3, 10), default=0),
        # The responses for each topic.
        Field("topics", "[]struct", (2, 10), struct=OffsetCommitResponseTopic),
    )

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[OffsetCommitResponseTopic] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
