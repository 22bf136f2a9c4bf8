"""DescribeClientQuotas, API key 48.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class ComponentData(Message):
    __slots__ = ("entity_type", "match", "match_type")

    FIELDS = (
        # The entity type that the filter component applies to.
        Field("entity_type", "string", (0, 1), default=""),
        # How to match the entity {0 = exact name, 1 = default name, 2 = any specified name}.
        Field("match_type", "int8", (0, 1), default=0),
        # The string to match against, or null if unused for the match type.
        Field("match", "string", (0, 1), nullable_versions=(0, 1), default=""),
    )

    def __init__(self, *, entity_type: str = "", match_type: int = 0, match: str | None = "") -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(ApiMessage):
    __slots__ = ("components", "strict")

    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        # Filter components to apply to quota entities.
        Field("components", "[]struct", (0, 1), struct=ComponentData),
        # Whether the match is strict, i.e.
        Field("strict", "bool", (0, 1), default=False),
    )

    def __init__(self, *, components: list[ComponentData] | None = None, strict: bool = False) -> None:
        self.components = [] if components is None else components
        self.strict = strict


class EntityData(Message):
    __slots__ = ("entity_name", "entity_type")

    FIELDS = (
        # The entity type.
        Field("entity_type", "string", (0, 1), default=""),
        # The entity name, or null if the default.
        Field("entity_name", "string", (0, 1), nullable_versions=(0, 1), default=""),
    )

    def __init__(self, *, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Message):
    __slots__ = ("key", "value")

    FIELDS = (
        # The quota configuration key.
        Field("key", "string", (0, 1), default=""),
        # The quota configuration value.
        Field("value", "float64", (0, 1), default=0.0),
    )

    def __init__(self, *, key: str = "", value: float = 0.0) -> None:
        self.key = key
        self.value = value


class EntryData(Message):
    __slots__ = ("entity", "values")

    FIELDS = (
        # The quota entity description.
        Field("entity", "[]struct", (0, 1), struct=EntityData),
        # The quota values for the entity.
        Field("values", "[]struct", (0, 1), struct=ValueData),
    )

    def __init__(self, *, entity: list[EntityData] | None = None, values: list[ValueData] | None = None) -> None:
        self.entity = [] if entity is None else entity
        self.values = [] if values is None else values


class DescribeClientQuotasResponse(ApiMessage):
    __slots__ = ("entries", "error_code", "error_message", "throttle_time_ms")

    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 1), default=0),
        # The error code, or `0` if the quota description succeeded.
        Field("error_code", "int16", (0, 1), default=0),
        # The error message, or `null` if the quota description succeeded.
        Field("error_message", "string", (0, 1), nullable_versions=(0, 1), default=""),
        # A result entry.
        Field("entries", "[]struct", (0, 1), nullable_versions=(0, 1), struct=EntryData),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries
