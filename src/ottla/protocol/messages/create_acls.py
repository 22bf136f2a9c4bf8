"""CreateAcls, API key 30.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class AclCreation(Message):
    __slots__ = (
        "host",
        "operation",
        "permission_type",
        "principal",
        "resource_name",
        "resource_pattern_type",
        "resource_type",
    )

    FIELDS = (
        # The type of the resource.
        Field("resource_type", "int8", (1, 3), default=0),
        # The resource name for the ACL.
        Field("resource_name", "string", (1, 3), default=""),
        # The pattern type for the ACL.
        Field("resource_pattern_type", "int8", (1, 3), default=3),
        # The principal for the ACL.
        Field("principal", "string", (1, 3), default=""),
        # The host for the ACL.
        Field("host", "string", (1, 3), default=""),
        # The operation type for the ACL (read, write, etc.).
        Field("operation", "int8", (1, 3), default=0),
        # The permission type for the ACL (allow, deny, etc.).
        Field("permission_type", "int8", (1, 3), default=0),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(ApiMessage):
    __slots__ = ("creations",)

    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The ACLs that we want to create.
        Field("creations", "[]struct", (1, 3), struct=AclCreation),
    )

    def __init__(self, *, creations: list[AclCreation] | None = None) -> None:
        self.creations = [] if creations is None else creations


class AclCreationResult(Message):
    __slots__ = ("error_code", "error_message")

    FIELDS = (
        # The result error, or zero if there was no error.
        Field("error_code", "int16", (1, 3), default=0),
        # The result message, or null if there was no error.
        Field("error_message", "string", (1, 3), nullable_versions=(1, 3), default=""),
    )

    def __init__(self, *, error_code: int = 0, error_message: str | None = "") -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(ApiMessage):
    __slots__ = ("results", "throttle_time_ms")

    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 3), default=0),
        # The results for each ACL creation.
        Field("results", "[]struct", (1, 3), struct=AclCreationResult),
    )

    def __init__(self, *, throttle_time_ms: int = 0, results: list[AclCreationResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
