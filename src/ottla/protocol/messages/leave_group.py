"""LeaveGroup, API key 13.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class MemberIdentity(Message):
    __slots__ = ("group_instance_id", "member_id", "reason")

    FIELDS = (
        # The member ID to remove from the group.
        Field("member_id", "string", (3, 5), default=""),
        # The group instance ID to remove from the group.
        Field("group_instance_id", "string", (3, 5), nullable_versions=(3, 5)),
        # The reason why the member left the group.
        Field("reason", "string", (5, 5), nullable_versions=(5, 5)),
    )

    def __init__(self, *, member_id: str = "", group_instance_id: str | None = None, reason: str | None = None) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(ApiMessage):
    __slots__ = ("group_id", "member_id", "members")

    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The ID of the group to leave.
        Field("group_id", "string", (0, 5), default=""),
        # List of leaving member identities.
        Field("members", "[]struct", (3, 5), struct=MemberIdentity),
        # The member ID to remove from the group.
        Field("member_id", "string", (0, 2), default=""),
    )

    def __init__(self, *, group_id: str = "", members: list[MemberIdentity] | None = None, member_id: str = "") -> None:
        self.group_id = group_id
        self.members = [] if members is None else members
        self.member_id = member_id


class MemberResponse(Message):
    __slots__ = ("error_code", "group_instance_id", "member_id")

    FIELDS = (
        # The member ID to remove from the group.
        Field("member_id", "string", (3, 5), default=""),
        # The group instance ID to remove from the group.
        Field("group_instance_id", "string", (3, 5), nullable_versions=(3, 5), default=""),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (3, 5), default=0),
    )

    def __init__(self, *, member_id: str = "", group_instance_id: str | None = "", error_code: int = 0) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(ApiMessage):
    __slots__ = ("error_code", "members", "throttle_time_ms")

    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 5), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 5), default=0),
        # List of leaving member responses.
        Field("members", "[]struct", (3, 5), struct=MemberResponse),
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, members: list[MemberResponse] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is None else members
