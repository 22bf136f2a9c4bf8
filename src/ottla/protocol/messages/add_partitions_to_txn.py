"""AddPartitionsToTxn, API key 24.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class AddPartitionsToTxnTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The name of the topic.
        Field("name", "string", (0, 5), default=""),
        # The partition indexes to add to the transaction.
        Field("partitions", "[]int32", (0, 5)),
    )

    def __init__(self, *, name: str = "", partitions: list[int] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AddPartitionsToTxnTransaction(Message):
    __slots__ = ("producer_epoch", "producer_id", "topics", "transactional_id", "verify_only")

    FIELDS = (
        # The transactional id corresponding to the transaction.
        Field("transactional_id", "string", (4, 5), default=""),
        # Current producer id in use by the transactional id.
        Field("producer_id", "int64", (4, 5), default=0),
        # Current epoch associated with the producer id.
        Field("producer_epoch", "int16", (4, 5), default=0),
        # Boolean to signify if we want to check if the partition is in the transaction rather than add it.
        Field("verify_only", "bool", (4, 5), default=False),
        # The partitions to add to the transaction.
        Field("topics", "[]struct", (4, 5), struct=AddPartitionsToTxnTopic),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is None else topics


class AddPartitionsToTxnRequest(ApiMessage):
    __slots__ = (
        "transactions",
        "v3_and_below_producer_epoch",
        "v3_and_below_producer_id",
        "v3_and_below_topics",
        "v3_and_below_transactional_id",
    )

    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # List of transactions to add partitions to.
        Field("transactions", "[]struct", (4, 5), struct=AddPartitionsToTxnTransaction),
        # The transactional id corresponding to the transaction.
        Field("v3_and_below_transactional_id", "string", (0, 3), default=""),
        # Current producer id in use by the transactional id.
        Field("v3_and_below_producer_id", "int64", (0, 3), default=0),
        # Current epoch associated with the producer id.
        Field("v3_and_below_producer_epoch", "int16", (0, 3), default=0),
        # The partitions to add to the transaction.
        Field("v3_and_below_topics", "[]struct", (0, 3), struct=AddPartitionsToTxnTopic),
    )

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] | None = None,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] | None = None,
    ) -> None:
        self.transactions = [] if transactions is None else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is None else v3_and_below_topics


class AddPartitionsToTxnPartitionResult(Message):
    __slots__ = ("partition_error_code", "partition_index")

    FIELDS = (
        # The partition indexes.
        Field("partition_index", "int32", (0, 5), default=0),
        # The response error code.
        Field("partition_error_code", "int16", (0, 5), default=0),
    )

    def __init__(self, *, partition_index: int = 0, partition_error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(Message):
    __slots__ = ("name", "results_by_partition")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 5), default=""),
        # The results for each partition.
        Field("results_by_partition", "[]struct", (0, 5), struct=AddPartitionsToTxnPartitionResult),
    )

    def __init__(
        self, *, name: str = "", results_by_partition: list[AddPartitionsToTxnPartitionResult] | None = None
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is None else results_by_partition


class AddPartitionsToTxnResult(Message):
    __slots__ = ("topic_results", "transactional_id")

    FIELDS = (
        # The transactional id corresponding to the transaction.
        Field("transactional_id", "string", (4, 5), default=""),
        # The results for each topic.
        Field("topic_results", "[]struct", (4, 5), struct=AddPartitionsToTxnTopicResult),
    )

    def __init__(
        self, *, transactional_id: str = "", topic_results: list[AddPartitionsToTxnTopicResult] | None = None
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is None else topic_results


class AddPartitionsToTxnResponse(ApiMessage):
    __slots__ = ("error_code", "results_by_topic_v3_and_below", "results_by_transaction", "throttle_time_ms")

    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
        # request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 5), default=0),
        # The response top level error code.
        Field("error_code", "int16", (4, 5), default=0),
        # Results categorized by transactional ID.
        Field("results_by_transaction", "[]struct", (4, 5), struct=AddPartitionsToTxnResult),
        # The results for each topic.
        Field("results_by_topic_v3_and_below", "[]struct", (0, 3), struct=AddPartitionsToTxnTopicResult),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] | None = None,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is None else results_by_transaction
        self.results_by_topic_v3_and_below = (
            [] if results_by_topic_v3_and_below is None else results_by_topic_v3_and_below
        )
