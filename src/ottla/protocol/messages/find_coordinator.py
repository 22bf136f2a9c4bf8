"""FindCoordinator, API key 10.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class FindCoordinatorRequest(ApiMessage):
    __slots__ = ("coordinator_keys", "key", "key_type")

    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The coordinator key.
        Field("key", "string", (0, 3), default=""),
        # The coordinator key type.
        Field("key_type", "int8", (1, 6), default=0),
        # The coordinator keys.
        Field("coordinator_keys", "[]string", (4, 6)),
    )

    def __init__(self, *, key: str = "", key_type: int = 0, coordinator_keys: list[str] | None = None) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is None else coordinator_keys


class Coordinator(Message):
    __slots__ = ("error_code", "error_message", "host", "key", "node_id", "port")

    FIELDS = (
        # The coordinator key.
        Field("key", "string", (4, 6), default=""),
        # The node id.
        Field("node_id", "int32", (4, 6), default=0),
        # The host name.
        Field("host", "string", (4, 6), default=""),
        # The port.
        Field("port", "int32", (4, 6), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (4, 6), default=0),
        # The error message, or null if there was no error.
        Field("error_message", "string", (4, 6), nullable_versions=(4, 6), default=""),
    )

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(ApiMessage):
    __slots__ = ("coordinators", "error_code", "error_message", "host", "node_id", "port", "throttle_time_ms")

    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 6), default=0),
        # Each coordinator result in the response.
        Field("coordinators", "[]struct", (4, 6), struct=Coordinator),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 3), default=0),
        # The error message, or null if there was no error.
        Field("error_message", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The node id.
        Field("node_id", "int32", (0, 3), default=0),
        # The host name.
        Field("host", "string", (0, 3), default=""),
        # The port.
        Field("port", "int32", (0, 3), default=0),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        coordinators: list[Coordinator] | None = None,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.coordinators = [] if coordinators is None else coordinators
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
