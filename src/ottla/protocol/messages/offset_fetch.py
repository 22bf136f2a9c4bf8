"""OffsetFetch, API key 9.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class OffsetFetchRequestTopic(Message):
    __slots__ = ("name", "partition_indexes")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 7), default=""),
        # The partition indexes we would like to fetch offsets for.
        Field("partition_indexes", "[]int32", (1, 7)),
    )

    def __init__(self, *, name: str = "", partition_indexes: list[int] | None = None) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class OffsetFetchRequestTopics(Message):
    __slots__ = ("name", "partition_indexes", "topic_id")

    FIELDS = (
        # The topic ID.
        Field("topic_id", "uuid", (10, 10), default=ZERO_UUID),
        # The topic name.
        Field("name", "string", (8, 9), default=""),
        # The partition indexes we would like to fetch offsets for.
        Field("partition_indexes", "[]int32", (8, 10)),
    )

    def __init__(
        self, *, topic_id: bytes = ZERO_UUID, name: str = "", partition_indexes: list[int] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class OffsetFetchRequestGroup(Message):
    __slots__ = ("group_id", "member_epoch", "member_id", "topics")

    FIELDS = (
        # The group ID.
        Field("group_id", "string", (8, 10), default=""),
        # The member id.
        Field("member_id", "string", (9, 10), nullable_versions=(9, 10)),
        # The member epoch if using the new consumer protocol (KIP-848).
        Field("member_epoch", "int32", (9, 10), default=-1),
        # Each topic we would like to fetch offsets for, or null to fetch offsets for all topics.
        Field("topics", "[]struct", (8, 10), nullable_versions=(8, 10), struct=OffsetFetchRequestTopics),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


class OffsetFetchRequest(ApiMessage):
    __slots__ = ("group_id", "groups", "require_stable", "topics")

    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        # Each group we would like to fetch offsets for.
        Field("groups", "[]struct", (8, 10), struct=OffsetFetchRequestGroup),
        # The group to fetch offsets for.
        Field("group_id", "string", (1, 7), default=""),
        # Each topic we would like to fetch offsets for, or null to fetch offsets for all topics.
        Field("topics", "[]struct", (1, 7), nullable_versions=(2, 7), struct=OffsetFetchRequestTopic),
        # Whether broker should hold on returning unstable offsets but set a retriable error code for the
        # partitions.
        Field("require_stable", "bool", (7, 10), default=False),
    )

    def __init__(
        self,
        *,
        groups: list[OffsetFetchRequestGroup] | None = None,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = None,
        require_stable: bool = False,
    ) -> None:
        self.groups = [] if groups is None else groups
        self.group_id = group_id
        self.topics = topics
        self.require_stable = require_stable


class OffsetFetchResponsePartition(Message):
    __slots__ = ("committed_leader_epoch", "committed_offset", "error_code", "metadata", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (1, 7), default=0),
        # The committed message offset.
        Field("committed_offset", "int64", (1, 7), default=0),
        # The leader epoch.
        Field("committed_leader_epoch", "int32", (5, 7), default=-1),
        # The partition metadata.
        Field("metadata", "string", (1, 7), nullable_versions=(1, 7), default=""),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (1, 7), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 7), default=""),
        # The responses per partition.
        Field("partitions", "[]struct", (1, 7), struct=OffsetFetchResponsePartition),
    )

    def __init__(self, *, name: str = "", partitions: list[OffsetFetchResponsePartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetFetchResponsePartitions(Message):
    __slots__ = ("committed_leader_epoch", "committed_offset", "error_code", "metadata", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (8, 10), default=0),
        # The committed message offset.
        Field("committed_offset", "int64", (8, 10), default=0),
        # The leader epoch.
        Field("committed_leader_epoch", "int32", (8, 10), default=-1),
        # The partition metadata.
        Field("metadata", "string", (8, 10), nullable_versions=(8, 10), default=""),
        # The partition-level error code, or 0 if there was no error.
        Field("error_code", "int16", (8, 10), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(Message):
    __slots__ = ("name", "partitions", "topic_id")

    FIELDS = (
        # The topic ID.
        Field("topic_id", "uuid", (10, 10), default=ZERO_UUID),
        # The topic name.
        Field("name", "string", (8, 9), default=""),
        # The responses per partition.
        Field("partitions", "[]struct", (8, 10), struct=OffsetFetchResponsePartitions),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partitions: list[OffsetFetchResponsePartitions] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetFetchResponseGroup(Message):
    __slots__ = ("error_code", "group_id", "topics")

    FIELDS = (
        # The group ID.
        Field("group_id", "string", (8, 10), default=""),
        # The responses per topic.
        Field("topics", "[]struct", (8, 10), struct=OffsetFetchResponseTopics),
        # The group-level error code, or 0 if there was no error.
        Field("error_code", "int16", (8, 10), default=0),
    )

    def __init__(
        self, *, group_id: str = "", topics: list[OffsetFetchResponseTopics] | None = None, error_code: int = 0
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics
        self.error_code = error_code


class OffsetFetchResponse(ApiMessage):
    __slots__ = ("error_code", "groups", "throttle_time_ms", "topics")

    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (3, 10), default=0),
        # The responses per group id.
        Field("groups", "[]struct", (8, 10), struct=OffsetFetchResponseGroup),
        # The responses per topic.
        Field("topics", "[]struct", (1, 7), struct=OffsetFetchResponseTopic),
        # The top-level error code, or 0 if there was no error.
        Field("error_code", "int16", (2, 7), default=0),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[OffsetFetchResponseGroup] | None = None,
        topics: list[OffsetFetchResponseTopic] | None = None,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups
        self.topics = [] if topics is None else topics
        self.error_code = error_code
