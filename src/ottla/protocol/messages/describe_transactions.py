"""DescribeTransactions, API key 65.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DescribeTransactionsRequest(ApiMessage):
    __slots__ = ("transactional_ids",)

    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # Array of transactionalIds to include in describe results.
        Field("transactional_ids", "[]string", (0, 0)),
    )

    def __init__(self, *, transactional_ids: list[str] | None = None) -> None:
        self.transactional_ids = [] if transactional_ids is None else transactional_ids


class TopicData(Message):
    __slots__ = ("partitions", "topic")

    FIELDS = (
        # The topic name.
        Field("topic", "string", (0, 0), default=""),
        # The partition ids included in the current transaction.
        Field("partitions", "[]int32", (0, 0)),
    )

    def __init__(self, *, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class TransactionState(Message):
    __slots__ = (
        "error_code",
        "producer_epoch",
        "producer_id",
        "topics",
        "transaction_start_time_ms",
        "transaction_state",
        "transaction_timeout_ms",
        "transactional_id",
    )

    FIELDS = (
        # The error code.
        Field("error_code", "int16", (0, 0), default=0),
        # The transactional id.
        Field("transactional_id", "string", (0, 0), default=""),
        # The current transaction state of the producer.
        Field("transaction_state", "string", (0, 0), default=""),
        # The timeout in milliseconds for the transaction.
        Field("transaction_timeout_ms", "int32", (0, 0), default=0),
        # The start time of the transaction in milliseconds.
        Field("transaction_start_time_ms", "int64", (0, 0), default=0),
        # The current producer id associated with the transaction.
        Field("producer_id", "int64", (0, 0), default=0),
        # The current epoch associated with the producer id.
        Field("producer_epoch", "int16", (0, 0), default=0),
        # The set of partitions included in the current transaction (if active).
        Field("topics", "[]struct", (0, 0), struct=TopicData),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] | None = None,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is None else topics


class DescribeTransactionsResponse(ApiMessage):
    __slots__ = ("throttle_time_ms", "transaction_states")

    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 0), default=0),
        # The current state of the transaction.
        Field("transaction_states", "[]struct", (0, 0), struct=TransactionState),
    )

    def __init__(self, *, throttle_time_ms: int = 0, transaction_states: list[TransactionState] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is None else transaction_states
