"""DescribeGroups, API key 15.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DescribeGroupsRequest(ApiMessage):
    __slots__ = ("groups", "include_authorized_operations")

    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 5
    FIELDS = (
        # The names of the groups to describe.
        Field("groups", "[]string", (0, 6)),
        # Whether to include authorized operations.
        Field("include_authorized_operations", "bool", (3, 6), default=False),
    )

    def __init__(self, *, groups: list[str] | None = None, include_authorized_operations: bool = False) -> None:
        self.groups = [] if groups is None else groups
        self.include_authorized_operations = include_authorized_operations


class DescribedGroupMember(Message):
    __slots__ = ("client_host", "client_id", "group_instance_id", "member_assignment", "member_id", "member_metadata")

    FIELDS = (
        # The member id.
        Field("member_id", "string", (0, 6), default=""),
        # The unique identifier of the consumer instance provided by end user.
        Field("group_instance_id", "string", (4, 6), nullable_versions=(4, 6)),
        # The client ID used in the member's latest join group request.
        Field("client_id", "string", (0, 6), default=""),
        # The client host.
        Field("client_host", "string", (0, 6), default=""),
        # The metadata corresponding to the current group protocol in use.
        Field("member_metadata", "bytes", (0, 6), default=b""),
        # The current assignment provided by the group leader.
        Field("member_assignment", "bytes", (0, 6), default=b""),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(Message):
    __slots__ = (
        "authorized_operations",
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "members",
        "protocol_data",
        "protocol_type",
    )

    FIELDS = (
        # The describe error, or 0 if there was no error.
        Field("error_code", "int16", (0, 6), default=0),
        # The describe error message, or null if there was no error.
        Field("error_message", "string", (6, 6), nullable_versions=(6, 6)),
        # The group ID string.
        Field("group_id", "string", (0, 6), default=""),
        # The group state string, or the empty string.
        Field("group_state", "string", (0, 6), default=""),
        # The group protocol type, or the empty string.
        Field("protocol_type", "string", (0, 6), default=""),
        # The group protocol data, or the empty string.
        Field("protocol_data", "string", (0, 6), default=""),
        # The group members.
        Field("members", "[]struct", (0, 6), struct=DescribedGroupMember),
        # 32-bit bitfield to represent authorized operations for this group.
        Field("authorized_operations", "int32", (3, 6), default=-2147483648),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is None else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(ApiMessage):
    __slots__ = ("groups", "throttle_time_ms")

    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 5
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 6), default=0),
        # Each described group.
        Field("groups", "[]struct", (0, 6), struct=DescribedGroup),
    )

    def __init__(self, *, throttle_time_ms: int = 0, groups: list[DescribedGroup] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups
