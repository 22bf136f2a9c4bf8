"""RenewDelegationToken, API key 39.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field


class RenewDelegationTokenRequest(ApiMessage):
    __slots__ = ("hmac", "renew_period_ms")

    API_KEY = 39
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The HMAC of the delegation token to be renewed.
        Field("hmac", "bytes", (1, 2), default=b""),
        # The renewal time period in milliseconds.
        Field("renew_period_ms", "int64", (1, 2), default=0),
    )

    def __init__(self, *, hmac: bytes = b"", renew_period_ms: int = 0) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms


class RenewDelegationTokenResponse(ApiMessage):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")

    API_KEY = 39
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (1, 2), default=0),
        # The timestamp in milliseconds at which this token expires.
        Field("expiry_timestamp_ms", "int64", (1, 2), default=0),
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 2), default=0),
    )

    def __init__(self, *, error_code: int = 0, expiry_timestamp_ms: int = 0, throttle_time_ms: int = 0) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
