"""SaslHandshake, API key 17.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import NEVER_FLEXIBLE, ApiMessage, Field


class SaslHandshakeRequest(ApiMessage):
    __slots__ = ("mechanism",)

    API_KEY = 17
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = NEVER_FLEXIBLE
    FIELDS = (
        # The SASL mechanism chosen by the client.
        Field("mechanism", "string", (0, 1), default=""),
    )

    def __init__(self, *, mechanism: str = "") -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(ApiMessage):
    __slots__ = ("error_code", "mechanisms")

    API_KEY = 17
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = NEVER_FLEXIBLE
    FIELDS = (
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 1), default=0),
        # The mechanisms enabled in the server.
        Field("mechanisms", "[]string", (0, 1)),
    )

    def __init__(self, *, error_code: int = 0, mechanisms: list[str] | None = None) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is None else mechanisms
