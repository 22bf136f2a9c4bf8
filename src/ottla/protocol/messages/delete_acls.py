"""DeleteAcls, API key 31.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DeleteAclsFilter(Message):
    __slots__ = (
        "host_filter",
        "operation",
        "pattern_type_filter",
        "permission_type",
        "principal_filter",
        "resource_name_filter",
        "resource_type_filter",
    )

    FIELDS = (
        # The resource type.
        Field("resource_type_filter", "int8", (1, 3), default=0),
        # The resource name, or null to match any resource name.
        Field("resource_name_filter", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The pattern type.
        Field("pattern_type_filter", "int8", (1, 3), default=3),
        # The principal filter, or null to accept all principals.
        Field("principal_filter", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The host filter, or null to accept all hosts.
        Field("host_filter", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The ACL operation.
        Field("operation", "int8", (1, 3), default=0),
        # The permission type.
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


class DeleteAclsRequest(ApiMessage):
    __slots__ = ("filters",)

    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The filters to use when deleting ACLs.
        Field("filters", "[]struct", (1, 3), struct=DeleteAclsFilter),
    )

    def __init__(self, *, filters: list[DeleteAclsFilter] | None = None) -> None:
        self.filters = [] if filters is None else filters


class DeleteAclsMatchingAcl(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "host",
        "operation",
        "pattern_type",
        "permission_type",
        "principal",
        "resource_name",
        "resource_type",
    )

    FIELDS = (
        # The deletion error code, or 0 if the deletion succeeded.
        Field("error_code", "int16", (1, 3), default=0),
        # The deletion error message, or null if the deletion succeeded.
        Field("error_message", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The ACL resource type.
        Field("resource_type", "int8", (1, 3), default=0),
        # The ACL resource name.
        Field("resource_name", "string", (1, 3), default=""),
        # The ACL resource pattern type.
        Field("pattern_type", "int8", (1, 3), default=3),
        # The ACL principal.
        Field("principal", "string", (1, 3), default=""),
        # The ACL host.
        Field("host", "string", (1, 3), default=""),
        # The ACL operation.
        Field("operation", "int8", (1, 3), default=0),
        # The ACL permission type.
        Field("permission_type", "int8", (1, 3), default=0),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(Message):
    __slots__ = ("error_code", "error_message", "matching_acls")

    FIELDS = (
        # The error code, or 0 if the filter succeeded.
        Field("error_code", "int16", (1, 3), default=0),
        # The error message, or null if the filter succeeded.
        Field("error_message", "string", (1, 3), nullable_versions=(1, 3), default=""),
        # The ACLs which matched this filter.
        Field("matching_acls", "[]struct", (1, 3), struct=DeleteAclsMatchingAcl),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: list[DeleteAclsMatchingAcl] | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = [] if matching_acls is None else matching_acls


class DeleteAclsResponse(ApiMessage):
    __slots__ = ("filter_results", "throttle_time_ms")

    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 3), default=0),
        # The results for each filter.
        Field("filter_results", "[]struct", (1, 3), struct=DeleteAclsFilterResult),
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, filter_results: list[DeleteAclsFilterResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is None else filter_results
