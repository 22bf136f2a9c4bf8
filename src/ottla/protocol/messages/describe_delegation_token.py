"""DescribeDelegationToken, API key 41.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DescribeDelegationTokenOwner(Message):
    __slots__ = ("principal_name", "principal_type")

    FIELDS = (
        # The owner principal type.
        Field("principal_type", "string", (1, 3), default=""),
        # The owner principal name.
        Field("principal_name", "string", (1, 3), default=""),
    )

    def __init__(self, *, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribeDelegationTokenRequest(ApiMessage):
    __slots__ = ("owners",)

    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # Each owner that we want to describe delegation tokens for, or null to describe all tokens.
        Field("owners", "[]struct", (1, 3), nullable_versions=(1, 3), struct=DescribeDelegationTokenOwner),
    )

    def __init__(self, *, owners: list[DescribeDelegationTokenOwner] | None = None) -> None:
        self.owners = owners


class DescribedDelegationTokenRenewer(Message):
    __slots__ = ("principal_name", "principal_type")

    FIELDS = (
        # The renewer principal type.
        Field("principal_type", "string", (1, 3), default=""),
        # The renewer principal name.
        Field("principal_name", "string", (1, 3), default=""),
    )

    def __init__(self, *, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribedDelegationToken(Message):
    __slots__ = (
        "expiry_timestamp",
        "hmac",
        "issue_timestamp",
        "max_timestamp",
        "principal_name",
        "principal_type",
        "renewers",
        "token_id",
        "token_requester_principal_name",
        "token_requester_principal_type",
    )

    FIELDS = (
        # The token principal type.
        Field("principal_type", "string", (1, 3), default=""),
        # The token principal name.
        Field("principal_name", "string", (1, 3), default=""),
        # The principal type of the requester of the token.
        Field("token_requester_principal_type", "string", (3, 3), default=""),
        # The principal type of the requester of the token.
        Field("token_requester_principal_name", "string", (3, 3), default=""),
        # The token issue timestamp in milliseconds.
        Field("issue_timestamp", "int64", (1, 3), default=0),
        # The token expiry timestamp in milliseconds.
        Field("expiry_timestamp", "int64", (1, 3), default=0),
        # The token maximum timestamp length in milliseconds.
        Field("max_timestamp", "int64", (1, 3), default=0),
        # The token ID.
        Field("token_id", "string", (1, 3), default=""),
        # The token HMAC.
        Field("hmac", "bytes", (1, 3), default=b""),
        # Those who are able to renew this token before it expires.
        Field("renewers", "[]struct", (1, 3), struct=DescribedDelegationTokenRenewer),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribedDelegationTokenRenewer] | None = None,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is None else renewers


class DescribeDelegationTokenResponse(ApiMessage):
    __slots__ = ("error_code", "throttle_time_ms", "tokens")

    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (1, 3), default=0),
        # The tokens.
        Field("tokens", "[]struct", (1, 3), struct=DescribedDelegationToken),
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 3), default=0),
    )

    def __init__(
        self, *, error_code: int = 0, tokens: list[DescribedDelegationToken] | None = None, throttle_time_ms: int = 0
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is None else tokens
        self.throttle_time_ms = throttle_time_ms
