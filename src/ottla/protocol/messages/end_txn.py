"""EndTxn, API key 26.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field


class EndTxnRequest(ApiMessage):
    __slots__ = ("committed", "producer_epoch", "producer_id", "transactional_id")

    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The ID of the transaction to end.
        Field("transactional_id", "string", (0, 5), default=""),
        # The producer ID.
        Field("producer_id", "int64", (0, 5), default=0),
        # The current epoch associated with the producer.
        Field("producer_epoch", "int16", (0, 5), default=0),
        # True if the transaction was committed, false if it was aborted.
        Field("committed", "bool", (0, 5), default=False),
    )

    def __init__(
        self, *, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, committed: bool = False
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(ApiMessage):
    __slots__ = ("error_code", "producer_epoch", "producer_id", "throttle_time_ms")

    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 5), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 5), default=0),
        # The producer ID.
        Field("producer_id", "int64", (5, 5), default=-1),
        # The current epoch associated with the producer.
        Field("producer_epoch", "int16", (5, 5), default=-1),
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
