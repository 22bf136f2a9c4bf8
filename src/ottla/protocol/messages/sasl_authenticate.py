"""SaslAuthenticate, API key 36.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field


class SaslAuthenticateRequest(ApiMessage):
    __slots__ = ("auth_bytes",)

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The SASL authentication bytes from the client, as defined by the SASL mechanism.
        Field("auth_bytes", "bytes", (0, 2), default=b""),
    )

    def __init__(self, *, auth_bytes: bytes = b"") -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(ApiMessage):
    __slots__ = ("auth_bytes", "error_code", "error_message", "session_lifetime_ms")

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 2), default=0),
        # The error message, or null if there was no error.
        Field("error_message", "string", (0, 2), nullable_versions=(0, 2), default=""),
        # The SASL authentication bytes from the server, as defined by the SASL mechanism.
        Field("auth_bytes", "bytes", (0, 2), default=b""),
        # Number of milliseconds after which only re-authentication over the existing connection to create a new
        # session can occur.
        Field("session_lifetime_ms", "int64", (1, 2), default=0),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
