"""ListOffsets, API key 2.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class ListOffsetsPartition(Message):
    __slots__ = ("current_leader_epoch", "partition_index", "timestamp")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (1, 11), default=0),
        # The current leader epoch.
        Field("current_leader_epoch", "int32", (4, 11), default=-1),
        # The current timestamp.
        Field("timestamp", "int64", (1, 11), default=0),
    )

    def __init__(self, *, partition_index: int = 0, current_leader_epoch: int = -1, timestamp: int = 0) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 11), default=""),
        # Each partition in the request.
        Field("partitions", "[]struct", (1, 11), struct=ListOffsetsPartition),
    )

    def __init__(self, *, name: str = "", partitions: list[ListOffsetsPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class ListOffsetsRequest(ApiMessage):
    __slots__ = ("isolation_level", "replica_id", "timeout_ms", "topics")

    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        # The broker ID of the requester, or -1 if this request is being made by a normal consumer.
        Field("replica_id", "int32", (1, 11), default=0),
        # This setting controls the visibility of transactional records.
        Field("isolation_level", "int8", (2, 11), default=0),
        # Each topic in the request.
        Field("topics", "[]struct", (1, 11), struct=ListOffsetsTopic),
        # The timeout to await a response in milliseconds for requests that require reading from remote storage
        # for topics enabled with tiered storage.
        Field("timeout_ms", "int32", (10, 11), default=0),
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms


class ListOffsetsPartitionResponse(Message):
    __slots__ = ("error_code", "leader_epoch", "offset", "partition_index", "timestamp")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (1, 11), default=0),
        # The partition error code, or 0 if there was no error.
        Field("error_code", "int16", (1, 11), default=0),
        # The timestamp associated with the returned offset.
        Field("timestamp", "int64", (1, 11), default=-1),
        # The returned offset.
        Field("offset", "int64", (1, 11), default=-1),
        # The leader epoch associated with the returned offset.
        Field("leader_epoch", "int32", (4, 11), default=-1),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 11), default=""),
        # Each partition in the response.
        Field("partitions", "[]struct", (1, 11), struct=ListOffsetsPartitionResponse),
    )

    def __init__(self, *, name: str = "", partitions: list[ListOffsetsPartitionResponse] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class ListOffsetsResponse(ApiMessage):
    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (2, 11), default=0),
        # Each topic in the response.
        Field("topics", "[]struct", (1, 11), struct=ListOffsetsTopicResponse),
    )

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[ListOffsetsTopicResponse] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
