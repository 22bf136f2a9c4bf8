"""OffsetForLeaderEpoch, API key 23.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class OffsetForLeaderPartition(Message):
    __slots__ = ("current_leader_epoch", "leader_epoch", "partition")

    FIELDS = (
        # The partition index.
        Field("partition", "int32", (2, 4), default=0),
        # An epoch used to fence consumers/replicas with old metadata.
        Field("current_leader_epoch", "int32", (2, 4), default=-1),
        # The epoch to look up an offset for.
        Field("leader_epoch", "int32", (2, 4), default=0),
    )

    def __init__(self, *, partition: int = 0, current_leader_epoch: int = -1, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(Message):
    __slots__ = ("partitions", "topic")

    FIELDS = (
        # The topic name.
        Field("topic", "string", (2, 4), default=""),
        # Each partition to get offsets for.
        Field("partitions", "[]struct", (2, 4), struct=OffsetForLeaderPartition),
    )

    def __init__(self, *, topic: str = "", partitions: list[OffsetForLeaderPartition] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class OffsetForLeaderEpochRequest(ApiMessage):
    __slots__ = ("replica_id", "topics")

    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The broker ID of the follower, of -1 if this request is from a consumer.
        Field("replica_id", "int32", (3, 4), default=-2),
        # Each topic to get offsets for.
        Field("topics", "[]struct", (2, 4), struct=OffsetForLeaderTopic),
    )

    def __init__(self, *, replica_id: int = -2, topics: list[OffsetForLeaderTopic] | None = None) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is None else topics


class EpochEndOffset(Message):
    __slots__ = ("end_offset", "error_code", "leader_epoch", "partition")

    FIELDS = (
        # The error code 0, or if there was no error.
        Field("error_code", "int16", (2, 4), default=0),
        # The partition index.
        Field("partition", "int32", (2, 4), default=0),
        # The leader epoch of the partition.
        Field("leader_epoch", "int32", (2, 4), default=-1),
        # The end offset of the epoch.
        Field("end_offset", "int64", (2, 4), default=-1),
    )

    def __init__(
        self, *, error_code: int = 0, partition: int = 0, leader_epoch: int = -1, end_offset: int = -1
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(Message):
    __slots__ = ("partitions", "topic")

    FIELDS = (
        # The topic name.
        Field("topic", "string", (2, 4), default=""),
        # Each partition in the topic we fetched offsets for.
        Field("partitions", "[]struct", (2, 4), struct=EpochEndOffset),
    )

    def __init__(self, *, topic: str = "", partitions: list[EpochEndOffset] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class OffsetForLeaderEpochResponse(ApiMessage):
    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (2, 4), default=0),
        # Each topic we fetched offsets for.
        Field("topics", "[]struct", (2, 4), struct=OffsetForLeaderTopicResult),
    )

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[OffsetForLeaderTopicResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
