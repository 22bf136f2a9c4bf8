"""DescribeAcls, API key 29.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DescribeAclsRequest(ApiMessage):
    __slots__ = (
        "host_filter",
        "operation",
        "pattern_type_filter",
        "permission_type",
        "principal_filter",
        "resource_name_filter",
        "resource_type_filter",
    )

    API_KEY = 29
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The resource type.
        Field("resource_type_filter", "int8", (1, 3), default=0),
        # The resource name, or null to match any resource name.
        Field("resource_name_filter", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The resource pattern to match.
        Field("pattern_type_filter", "int8", (1, 3), default=3),
        # The principal to match, or null to match any principal.
        Field("principal_filter", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The host to match, or null to match any host.
        Field("host_filter", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The operation to match.
        Field("operation", "int8", (1, 3), default=0),
        # The permission type to match.
        Field("permission_type", "int8", (1, 3), default=0),
    )

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class AclDescription(Message):
    __slots__ = ("host", "operation", "permission_type", "principal")

    FIELDS = (
        # The ACL principal.
        Field("principal", "string", (1, 3), default=""),
        # The ACL host.
        Field("host", "string", (1, 3), default=""),
        # The ACL operation.
        Field("operation", "int8", (1, 3), default=0),
        # The ACL permission type.
        Field("permission_type", "int8", (1, 3), default=0),
    )

    def __init__(self, *, principal: str = "", host: str = "", operation: int = 0, permission_type: int = 0) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(Message):
    __slots__ = ("acls", "pattern_type", "resource_name", "resource_type")

    FIELDS = (
        # The resource type.
        Field("resource_type", "int8", (1, 3), default=0),
        # The resource name.
        Field("resource_name", "string", (1, 3), default=""),
        # The resource pattern type.
        Field("pattern_type", "int8", (1, 3), default=3),
        # The ACLs.
        Field("acls", "[]struct", (1, 3), struct=AclDescription),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is None else acls


class DescribeAclsResponse(ApiMessage):
    __slots__ = ("error_code", "error_message", "resources", "throttle_time_ms")

    API_KEY = 29
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 3), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (1, 3), default=0),
        # The error message, or null if there was no error.
        Field("error_message", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # Each Resource that is referenced in an ACL.
        Field("resources", "[]struct", (1, 3), struct=DescribeAclsResource),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResource] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is None else resources
