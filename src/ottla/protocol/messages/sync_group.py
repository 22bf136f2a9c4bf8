"""SyncGroup, API key 14.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class SyncGroupRequestAssignment(Message):
    __slots__ = ("assignment", "member_id")

    FIELDS = (
        # The ID of the member to assign.
        Field("member_id", "string", (0, 5), default=""),
        # The member assignment.
        Field("assignment", "bytes", (0, 5), default=b""),
    )

    def __init__(self, *, member_id: str = "", assignment: bytes = b"") -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(ApiMessage):
    __slots__ = (
        "assignments",
        "generation_id",
        "group_id",
        "group_instance_id",
        "member_id",
        "protocol_name",
        "protocol_type",
    )

    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The unique group identifier.
        Field("group_id", "string", (0, 5), default=""),
        # The generation of the group.
        Field("generation_id", "int32", (0, 5), default=0),
        # The member ID assigned by the group.
        Field("member_id", "string", (0, 5), default=""),
        # The unique identifier of the consumer instance provided by end user.
        Field("group_instance_id", "string", (3, 5), nullable_versions=(3, 5)),
        # The group protocol type.
        Field("protocol_type", "string", (5, 5), nullable_versions=(5, 5)),
        # The group protocol name.
        Field("protocol_name", "string", (5, 5), nullable_versions=(5, 5)),
        # Each assignment.
        Field("assignments", "[]struct", (0, 5), struct=SyncGroupRequestAssignment),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is None else assignments


class SyncGroupResponse(ApiMessage):
    __slots__ = ("assignment", "error_code", "protocol_name", "protocol_type", "throttle_time_ms")

    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 5), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 5), default=0),
        # The group protocol type.
        Field("protocol_type", "string", (5, 5), nullable_versions=(5, 5)),
        # The group protocol name.
        Field("protocol_name", "string", (5, 5), nullable_versions=(5, 5)),
        # The member assignment.
        Field("assignment", "bytes", (0, 5), default=b""),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
