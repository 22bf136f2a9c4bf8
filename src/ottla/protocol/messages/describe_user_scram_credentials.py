"""DescribeUserScramCredentials, API key 50.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class UserName(Message):
    __slots__ = ("name",)

    FIELDS = (
        # The user name.
        Field("name", "string", (0, 0), default=""),
    )

    def __init__(self, *, name: str = "") -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(ApiMessage):
    __slots__ = ("users",)

    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The users to describe, or null/empty to describe all users.
        Field("users", "[]struct", (0, 0), nullable_versions=(0, 0), struct=UserName),
    )

    def __init__(self, *, users: list[UserName] | None = None) -> None:
        self.users = users


class CredentialInfo(Message):
    __slots__ = ("iterations", "mechanism")

    FIELDS = (
        # The SCRAM mechanism.
        Field("mechanism", "int8", (0, 0), default=0),
        # The number of iterations used in the SCRAM credential.
        Field("iterations", "int32", (0, 0), default=0),
    )

    def __init__(self, *, mechanism: int = 0, iterations: int = 0) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(Message):
    __slots__ = ("credential_infos", "error_code", "error_message", "user")

    FIELDS = (
        # The user name.
        Field("user", "string", (0, 0), default=""),
        # The user-level error code.
        Field("error_code", "int16", (0, 0), default=0),
        # The user-level error message, if any.
        Field("error_message", "string", (0, 0), nullable_versions=(0, 0), default=""),
        # The mechanism and related information associated with the user's SCRAM credentials.
        Field("credential_infos", "[]struct", (0, 0), struct=CredentialInfo),
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[CredentialInfo] | None = None,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is None else credential_infos


class DescribeUserScramCredentialsResponse(ApiMessage):
    __slots__ = ("error_code", "error_message", "results", "throttle_time_ms")

    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 0), default=0),
        # The message-level error code, 0 except for user authorization or infrastructure issues.
        Field("error_code", "int16", (0, 0), default=0),
        # The message-level error message, if any.
        Field("error_message", "string", (0, 0), nullable_versions=(0, 0), default=""),
        # The results for descriptions, one per user.
        Field("results", "[]struct", (0, 0), struct=DescribeUserScramCredentialsResult),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is None else results
