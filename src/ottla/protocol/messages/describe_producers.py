"""DescribeProducers, API key 61.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class TopicRequest(Message):
    __slots__ = ("name", "partition_indexes")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 0), default=""),
        # The indexes of the partitions to list producers for.
        Field("partition_indexes", "[]int32", (0, 0)),
    )

    def __init__(self, *, name: str = "", partition_indexes: list[int] | None = None) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class DescribeProducersRequest(ApiMessage):
    __slots__ = ("topics",)

    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The topics to list producers for.
        Field("topics", "[]struct", (0, 0), struct=TopicRequest),
    )

    def __init__(self, *, topics: list[TopicRequest] | None = None) -> None:
        self.topics = [] if topics is None else topics


class ProducerState(Message):
    __slots__ = (
        "coordinator_epoch",
        "current_txn_start_offset",
        "last_sequence",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    FIELDS = (
        # The producer id.
        Field("producer_id", "int64", (0, 0), default=0),
        # The producer epoch.
        Field("producer_epoch", "int32", (0, 0), default=0),
        # The last sequence number sent by the producer.
        Field("last_sequence", "int32", (0, 0), default=-1),
        # The last timestamp sent by the producer.
        Field("last_timestamp", "int64", (0, 0), default=-1),
        # The current epoch of the producer group.
        Field("coordinator_epoch", "int32", (0, 0), default=0),
        # The current transaction start offset of the producer.
        Field("current_txn_start_offset", "int64", (0, 0), default=-1),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(Message):
    __slots__ = ("active_producers", "error_code", "error_message", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (0, 0), default=0),
        # The partition error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 0), default=0),
        # The partition error message, which may be null if no additional details are available.
        Field("error_message", "string", (0, 0), nullable_versions=(0, 0)),
        # The active producers for the partition.
        Field("active_producers", "[]struct", (0, 0), struct=ProducerState),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = [] if active_producers is None else active_producers


class TopicResponse(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 0), default=""),
        # Each partition in the response.
        Field("partitions", "[]struct", (0, 0), struct=PartitionResponse),
    )

    def __init__(self, *, name: str = "", partitions: list[PartitionResponse] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DescribeProducersResponse(ApiMessage):
    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 0), default=0),
        # Each topic in the response.
        Field("topics", "[]struct", (0, 0), struct=TopicResponse),
    )

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[TopicResponse] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
