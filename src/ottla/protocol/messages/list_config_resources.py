"""ListConfigResources, API key 74.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class ListConfigResourcesRequest(ApiMessage):
    __slots__ = ("resource_types",)

    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The list of resource type.
        Field("resource_types", "[]int8", (1, 1)),
    )

    def __init__(self, *, resource_types: list[int] | None = None) -> None:
        self.resource_types = [] if resource_types is None else resource_types


class ConfigResource(Message):
    __slots__ = ("resource_name", "resource_type")

    FIELDS = (
        # The resource name.
        Field("resource_name", "string", (0, 1), default=""),
        # The resource type.
        Field("resource_type", "int8", (1, 1), default=16),
    )

    def __init__(self, *, resource_name: str = "", resource_type: int = 16) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(ApiMessage):
    __slots__ = ("config_resources", "error_code", "throttle_time_ms")

    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 1), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 1), default=0),
        # Each config resource in the response.
        Field("config_resources", "[]struct", (0, 1), struct=ConfigResource),
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, config_resources: list[ConfigResource] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is None else config_resources
