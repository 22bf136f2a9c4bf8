"""CreateDelegationToken, API key 38.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class CreatableRenewers(Message):
    __slots__ = ("principal_name", "principal_type")

    FIELDS = (
        # The type of the Kafka principal.
        Field("principal_type", "string", (1, 3), default=""),
        # The name of the Kafka principal.
        Field("principal_name", "string", (1, 3), default=""),
    )

    def __init__(self, *, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class CreateDelegationTokenRequest(ApiMessage):
    __slots__ = ("max_lifetime_ms", "owner_principal_name", "owner_principal_type", "renewers")

    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The principal type of the owner of the token.
        Field("owner_principal_type", "string", (3, 3), nullable_versions=(3, 3), default=""),
        # The principal name of the owner of the token.
        Field("owner_principal_name", "string", (3, 3), nullable_versions=(3, 3), default=""),
        # A list of those who are allowed to renew this token before it expires.
        Field("renewers", "[]struct", (1, 3), struct=CreatableRenewers),
        # The maximum lifetime of the token in milliseconds, or -1 to use the server side default.
        Field("max_lifetime_ms", "int64", (1, 3), default=0),
    )

    def __init__(
        self,
        *,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] | None = None,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is None else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreateDelegationTokenResponse(ApiMessage):
    __slots__ = (
        "error_code",
        "expiry_timestamp_ms",
        "hmac",
        "issue_timestamp_ms",
        "max_timestamp_ms",
        "principal_name",
        "principal_type",
        "throttle_time_ms",
        "token_id",
        "token_requester_principal_name",
        "token_requester_principal_type",
    )

    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The top-level error, or zero if there was no error.
        Field("error_code", "int16", (1, 3), default=0),
        # The principal type of the token owner.
        Field("principal_type", "string", (1, 3), default=""),
        # The name of the token owner.
        Field("principal_name", "string", (1, 3), default=""),
        # The principal type of the requester of the token.
        Field("token_requester_principal_type", "string", (3, 3), default=""),
        # The principal type of the requester of the token.
        Field("token_requester_principal_name", "string", (3, 3), default=""),
        # When this token was generated.
        Field("issue_timestamp_ms", "int64", (1, 3), default=0),
        # When this token expires.
        Field("expiry_timestamp_ms", "int64", (1, 3), default=0),
        # The maximum lifetime of this token.
        Field("max_timestamp_ms", "int64", (1, 3), default=0),
        # The token UUID.
        Field("token_id", "string", (1, 3), default=""),
        # HMAC of the delegation token.
        Field("hmac", "bytes", (1, 3), default=b""),
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 3), default=0),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms
