"""WriteTxnMarkers, API key 27.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class WritableTxnMarkerTopic(Message):
    __slots__ = ("name", "partition_indexes")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 2), default=""),
        # The indexes of the partitions to write transaction markers for.
        Field("partition_indexes", "[]int32", (1, 2)),
    )

    def __init__(self, *, name: str = "", partition_indexes: list[int] | None = None) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class WritableTxnMarker(Message):
    __slots__ = (
        "coordinator_epoch",
        "producer_epoch",
        "producer_id",
        "topics",
        "transaction_result",
        "transaction_version",
    )

    FIELDS = (
        # The current producer ID.
        Field("producer_id", "int64", (1, 2), default=0),
        # The current epoch associated with the producer ID.
        Field("producer_epoch", "int16", (1, 2), default=0),
        # The result of the transaction to write to the partitions (false = ABORT, true = COMMIT).
        Field("transaction_result", "bool", (1, 2), default=False),
        # Each topic that we want to write transaction marker(s) for.
        Field("topics", "[]struct", (1, 2), struct=WritableTxnMarkerTopic),
        # Epoch associated with the transaction state partition hosted by this transaction coordinator.
        Field("coordinator_epoch", "int32", (1, 2), default=0),
        # Transaction version of the marker.
        Field("transaction_version", "int8", (2, 2), default=0),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] | None = None,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is None else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(ApiMessage):
    __slots__ = ("markers",)

    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        # The transaction markers to be written.
        Field("markers", "[]struct", (1, 2), struct=WritableTxnMarker),
    )

    def __init__(self, *, markers: list[WritableTxnMarker] | None = None) -> None:
        self.markers = [] if markers is None else markers


class WritableTxnMarkerPartitionResult(Message):
    __slots__ = ("error_code", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (1, 2), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (1, 2), default=0),
    )

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 2), default=""),
        # The results by partition.
        Field("partitions", "[]struct", (1, 2), struct=WritableTxnMarkerPartitionResult),
    )

    def __init__(self, *, name: str = "", partitions: list[WritableTxnMarkerPartitionResult] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class WritableTxnMarkerResult(Message):
    __slots__ = ("producer_id", "topics")

    FIELDS = (
        # The current producer ID in use by the transactional ID.
        Field("producer_id", "int64", (1, 2), default=0),
        # The results by topic.
        Field("topics", "[]struct", (1, 2), struct=WritableTxnMarkerTopicResult),
    )

    def __init__(self, *, producer_id: int = 0, topics: list[WritableTxnMarkerTopicResult] | None = None) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is None else topics


class WriteTxnMarkersResponse(ApiMessage):
    __slots__ = ("markers",)

    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        # The results for writing makers.
        Field("markers", "[]struct", (1, 2), struct=WritableTxnMarkerResult),
    )

    def __init__(self, *, markers: list[WritableTxnMarkerResult] | None = None) -> None:
        self.markers = [] if markers is None else markers
