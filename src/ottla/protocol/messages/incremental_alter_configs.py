"""IncrementalAlterConfigs, API key 44.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class AlterableConfig(Message):
    __slots__ = ("config_operation", "name", "value")

    FIELDS = (
        # The configuration key name.
        Field("name", "string", (0, 1), default=""),
        # The type (Set, Delete, Append, Subtract) of operation.
        Field("config_operation", "int8", (0, 1), default=0),
        # The value to set for the configuration key.
        Field("value", "string", (0, 1), nullable_versions=(0, 1), default=""),
    )

    def __init__(self, *, name: str = "", config_operation: int = 0, value: str | None = "") -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class AlterConfigsResource(Message):
    __slots__ = ("configs", "resource_name", "resource_type")

    FIELDS = (
        # The resource type.
        Field("resource_type", "int8", (0, 1), default=0),
        # The resource name.
        Field("resource_name", "string", (0, 1), default=""),
        # The configurations.
        Field("configs", "[]struct", (0, 1), struct=AlterableConfig),
    )

    def __init__(
        self, *, resource_type: int = 0, resource_name: str = "", configs: list[AlterableConfig] | None = None
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is None else configs


class IncrementalAlterConfigsRequest(ApiMessage):
    __slots__ = ("resources", "validate_only")

    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        # The incremental updates for each resource.
        Field("resources", "[]struct", (0, 1), struct=AlterConfigsResource),
        # True if we should validate the request, but not change the configurations.
        Field("validate_only", "bool", (0, 1), default=False),
    )

    def __init__(self, *, resources: list[AlterConfigsResource] | None = None, validate_only: bool = False) -> None:
        self.resources = [] if resources is None else resources
        self.validate_only = validate_only


class AlterConfigsResourceResponse(Message):
    __slots__ = ("error_code", "error_message", "resource_name", "resource_type")

    FIELDS = (
        # The resource error code.
        Field("error_code", "int16", (0, 1), default=0),
        # The resource error message, or null if there was no error.
        Field("error_message", "string", (0, 1), nullable_versions=(0, 1), default=""),
        # The resource type.
        Field("resource_type", "int8", (0, 1), default=0),
        # The resource name.
        Field("resource_name", "string", (0, 1), default=""),
    )

    def __init__(
        self, *, error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = ""
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class IncrementalAlterConfigsResponse(ApiMessage):
    __slots__ = ("responses", "throttle_time_ms")

    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
        # request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 1), default=0),
        # The responses for each resource.
        Field("responses", "[]struct", (0, 1), struct=AlterConfigsResourceResponse),
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, responses: list[AlterConfigsResourceResponse] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is None else responses
