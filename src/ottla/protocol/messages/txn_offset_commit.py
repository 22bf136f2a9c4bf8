"""TxnOffsetCommit, API key 28.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class TxnOffsetCommitRequestPartition(Message):
    __slots__ = ("committed_leader_epoch", "committed_metadata", "committed_offset", "partition_index")

    FIELDS = (
        # The index of the partition within the topic.
        Field("partition_index", "int32", (0, 5), default=0),
        # The message offset to be committed.
        Field("committed_offset", "int64", (0, 5), default=0),
        # The leader epoch of the last consumed record.
        Field("committed_leader_epoch", "int32", (2, 5), default=-1),
        # Any associated metadata the client wants to keep.
        Field("committed_metadata", "string", (0, 5), nullable_versions=(0, 5), default=""),
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


class TxnOffsetCommitRequestTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 5), default=""),
        # The partitions inside the topic that we want to commit offsets for.
        Field("partitions", "[]struct", (0, 5), struct=TxnOffsetCommitRequestPartition),
    )

    def __init__(self, *, name: str = "", partitions: list[TxnOffsetCommitRequestPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class TxnOffsetCommitRequest(ApiMessage):
    __slots__ = (
        "generation_id",
        "group_id",
        "group_instance_id",
        "member_id",
        "producer_epoch",
        "producer_id",
        "topics",
        "transactional_id",
    )

    API_KEY = 28
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The ID of the transaction.
        Field("transactional_id", "string", (0, 5), default=""),
        # The ID of the group.
        Field("group_id", "string", (0, 5), default=""),
        # The current producer ID in use by the transactional ID.
        Field("producer_id", "int64", (0, 5), default=0),
        # The current epoch associated with the producer ID.
        Field("producer_epoch", "int16", (0, 5), default=0),
        # The generation of the consumer.
        Field("generation_id", "int32", (3, 5), default=-1),
        # The member ID assigned by the group coordinator.
        Field("member_id", "string", (3, 5), default=""),
        # The unique identifier of the consumer instance provided by end user.
        Field("group_instance_id", "string", (3, 5), nullable_versions=(3, 5)),
        # Each topic that we want to commit offsets for.
        Field("topics", "[]struct", (0, 5), struct=TxnOffsetCommitRequestTopic),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is None else topics


class TxnOffsetCommitResponsePartition(Message):
    __slots__ = ("error_code", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (0, 5), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 5), default=0),
    )

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 5), default=""),
        # The responses for each partition in the topic.
        Field("partitions", "[]struct", (0, 5), struct=TxnOffsetCommitResponsePartition),
    )

    def __init__(self, *, name: str = "", partitions: list[TxnOffsetCommitResponsePartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class TxnOffsetCommitResponse(ApiMessage):
    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 28
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 5), default=0),
        # The responses for each topic.
        Field("topics", "[]struct", (0, 5), struct=TxnOffsetCommitResponseTopic),
    )

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[TxnOffsetCommitResponseTopic] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
