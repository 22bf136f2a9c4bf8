"""AddOffsetsToTxn, API key 25.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field


class AddOffsetsToTxnRequest(ApiMessage):
    __slots__ = ("group_id", "producer_epoch", "producer_id", "transactional_id")

    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The transactional id corresponding to the transaction.
        Field("transactional_id", "string", (0, 4), default=""),
        # Current producer id in use by the transactional id.
        Field("producer_id", "int64", (0, 4), default=0),
        # Current epoch associated with the producer id.
        Field("producer_epoch", "int16", (0, 4), default=0),
        # The unique group identifier.
        Field("group_id", "string", (0, 4), default=""),
    )

    def __init__(
        self, *, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, group_id: str = ""
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(ApiMessage):
    __slots__ = ("error_code", "throttle_time_ms")

    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
        # request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 4), default=0),
        # The response error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 4), default=0),
    )

    def __init__(self, *, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
