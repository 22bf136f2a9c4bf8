"""InitProducerId, API key 22.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field


class InitProducerIdRequest(ApiMessage):
    __slots__ = (
        "enable2_pc",
        "keep_prepared_txn",
        "producer_epoch",
        "producer_id",
        "transaction_timeout_ms",
        "transactional_id",
    )

    API_KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The transactional id, or null if the producer is not transactional.
        Field("transactional_id", "string", (0, 6), nullable_versions=(0, 6), default=""),
        # The time in ms to wait before aborting idle transactions sent by this producer.
        Field("transaction_timeout_ms", "int32", (0, 6), default=0),
        # The producer id.
        Field("producer_id", "int64", (3, 6), default=-1),
        # The producer's current epoch.
        Field("producer_epoch", "int16", (3, 6), default=-1),
        # True if the client wants to enable two-phase commit (2PC) protocol for transactions.
        Field("enable2_pc", "bool", (6, 6), default=False),
        # True if the client wants to keep the currently ongoing transaction instead of aborting it.
        Field("keep_prepared_txn", "bool", (6, 6), default=False),
    )

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(ApiMessage):
    __slots__ = (
        "error_code",
        "ongoing_txn_producer_epoch",
        "ongoing_txn_producer_id",
        "producer_epoch",
        "producer_id",
        "throttle_time_ms",
    )

    API_KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 6), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 6), default=0),
        # The current producer id.
        Field("producer_id", "int64", (0, 6), default=-1),
        # The current epoch associated with the producer id.
        Field("producer_epoch", "int16", (0, 6), default=0),
        # The producer id for ongoing transaction when KeepPreparedTxn is used, -1 if there is no transaction
        # ongoing.
        Field("ongoing_txn_producer_id", "int64", (6, 6), default=-1),
        # The epoch associated with the producer id for ongoing transaction when KeepPreparedTxn is used, -1 if
        # there is no transaction ongoing.
        Field("ongoing_txn_producer_epoch", "int16", (6, 6), default=-1),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
