"""AlterClientQuotas, API key 49.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class EntityData(Message):
    __slots__ = ("entity_name", "entity_type")

    FIELDS = (
        # The entity type.
        Field("entity_type", "string", (0, 1), default=""),
        # The name of the entity, or null if the default.
        Field("entity_name", "string", (0, 1), nullable_versions=(0, 1), default=""),
    )

    def __init__(self, *, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class OpData(Message):
    __slots__ = ("key", "remove", "value")

    FIELDS = (
        # The quota configuration key.
        Field("key", "string", (0, 1), default=""),
        # The value to set, otherwise ignored if the value is to be removed.
        Field("value", "float64", (0, 1), default=0.0),
        # Whether the quota configuration value should be removed, otherwise set.
        Field("remove", "bool", (0, 1), default=False),
    )

    def __init__(self, *, key: str = "", value: float = 0.0, remove: bool = False) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class RequestEntryData(Message):
    __slots__ = ("entity", "ops")

    FIELDS = (
        # The quota entity to alter.
        Field("entity", "[]struct", (0, 1), struct=EntityData),
        # An individual quota configuration entry to alter.
        Field("ops", "[]struct", (0, 1), struct=OpData),
    )

    def __init__(self, *, entity: list[EntityData] | None = None, ops: list[OpData] | None = None) -> None:
        self.entity = [] if entity is None else entity
        self.ops = [] if ops is None else ops


class AlterClientQuotasRequest(ApiMessage):
    __slots__ = ("entries", "validate_only")

    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        # The quota configuration entries to alter.
        Field("entries", "[]struct", (0, 1), struct=RequestEntryData),
        # Whether the alteration should be validated, but not performed.
        Field("validate_only", "bool", (0, 1), default=False),
    )

    def __init__(self, *, entries: list[RequestEntryData] | None = None, validate_only: bool = False) -> None:
        self.entries = [] if entries is None else entries
        self.validate_only = validate_only


class ResponseEntryData(Message):
    __slots__ = ("entity", "error_code", "error_message")

    FIELDS = (
        # The error code, or `0` if the quota alteration succeeded.
        Field("error_code", "int16", (0, 1), default=0),
        # The error message, or `null` if the quota alteration succeeded.
        Field("error_message", "string", (0, 1), nullable_versions=(0, 1), default=""),
        # The quota entity to alter.
        Field("entity", "[]struct", (0, 1), struct=EntityData),
    )

    def __init__(
        self, *, error_code: int = 0, error_message: str | None = "", entity: list[EntityData] | None = None
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is None else entity


class AlterClientQuotasResponse(ApiMessage):
    __slots__ = ("entries", "throttle_time_ms")

    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 1), default=0),
        # The quota configuration entries to alter.
        Field("entries", "[]struct", (0, 1), struct=ResponseEntryData),
    )

    def __init__(self, *, throttle_time_ms: int = 0, entries: list[ResponseEntryData] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is None else entries
