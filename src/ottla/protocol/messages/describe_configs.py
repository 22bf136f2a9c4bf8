"""DescribeConfigs, API key 32.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DescribeConfigsResource(Message):
    __slots__ = ("configuration_keys", "resource_name", "resource_type")

    FIELDS = (
        # The resource type.
        Field("resource_type", "int8", (1, 4), default=0),
        # The resource name.
        Field("resource_name", "string", (1, 4), default=""),
        # The configuration keys to list, or null to list all configuration keys.
        Field("configuration_keys", "[]string", (1, 4), nullable_versions=(1, 4)),
    )

    def __init__(
        self, *, resource_type: int = 0, resource_name: str = "", configuration_keys: list[str] | None = None
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = configuration_keys


class DescribeConfigsRequest(ApiMessage):
    __slots__ = ("include_documentation", "include_synonyms", "resources")

    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The resources whose configurations we want to describe.
        Field("resources", "[]struct", (1, 4), struct=DescribeConfigsResource),
        # True if we should include all synonyms.
        Field("include_synonyms", "bool", (1, 4), default=False),
        # True if we should include configuration documentation.
        Field("include_documentation", "bool", (3, 4), default=False),
    )

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is None else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(Message):
    __slots__ = ("name", "source", "value")

    FIELDS = (
        # The synonym name.
        Field("name", "string", (1, 4), default=""),
        # The synonym value.
        Field("value", "string", (1, 4), nullable_versions=(1, 4), default=""),
        # The synonym source.
        Field("source", "int8", (1, 4), default=0),
    )

    def __init__(self, *, name: str = "", value: str | None = "", source: int = 0) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(Message):
    __slots__ = (
        "config_source",
        "config_type",
        "documentation",
        "is_sensitive",
        "name",
        "read_only",
        "synonyms",
        "value",
    )

    FIELDS = (
        # The configuration name.
        Field("name", "string", (1, 4), default=""),
        # The configuration value.
        Field("value", "string", (1, 4), nullable_versions=(1, 4), default=""),
        # True if the configuration is read-only.
        Field("read_only", "bool", (1, 4), default=False),
        # The configuration source.
        Field("config_source", "int8", (1, 4), default=-1),
        # True if this configuration is sensitive.
        Field("is_sensitive", "bool", (1, 4), default=False),
        # The synonyms for this configuration key.
        Field("synonyms", "[]struct", (1, 4), struct=DescribeConfigsSynonym),
        # The configuration data type.
        Field("config_type", "int8", (3, 4), default=0),
        # The configuration documentation.
        Field("documentation", "string", (3, 4), nullable_versions=(3, 4), default=""),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] | None = None,
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is None else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(Message):
    __slots__ = ("configs", "error_code", "error_message", "resource_name", "resource_type")

    FIELDS = (
        # The error code, or 0 if we were able to successfully describe the configurations.
        Field("error_code", "int16", (1, 4), default=0),
        # The error message, or null if we were able to successfully describe the configurations.
        Field("error_message", "string", (1, 4), nullable_versions=(1, 4), default=""),
        # The resource type.
        Field("resource_type", "int8", (1, 4), default=0),
        # The resource name.
        Field("resource_name", "string", (1, 4), default=""),
        # Each listed configuration.
        Field("configs", "[]struct", (1, 4), struct=DescribeConfigsResourceResult),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is None else configs


class DescribeConfigsResponse(ApiMessage):
    __slots__ = ("results", "throttle_time_ms")

    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 4), default=0),
        # The results for each resource.
        Field("results", "[]struct", (1, 4), struct=DescribeConfigsResult),
    )

    def __init__(self, *, throttle_time_ms: int = 0, results: list[DescribeConfigsResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
