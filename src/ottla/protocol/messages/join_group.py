"""JoinGroup, API key 11.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class JoinGroupRequestProtocol(Message):
    __slots__ = ("metadata", "name")

    FIELDS = (
        # The protocol name.
        Field("name", "string", (0, 9), default=""),
        # The protocol metadata.
        Field("metadata", "bytes", (0, 9), default=b""),
    )

    def __init__(self, *, name: str = "", metadata: bytes = b"") -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(ApiMessage):
    __slots__ = (
        "group_id",
        "group_instance_id",
        "member_id",
        "protocol_type",
        "protocols",
        "reason",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        # The group identifier.
        Field("group_id", "string", (0, 9), default=""),
        # The coordinator considers the consumer dead if it receives no heartbeat after this timeout in
        # milliseconds.
        Field("session_timeout_ms", "int32", (0, 9), default=0),
        # The maximum time in milliseconds that the coordinator will wait for each member to rejoin when
        # rebalancing the group.
        Field("rebalance_timeout_ms", "int32", (1, 9), default=-1),
        # The member id assigned by the group coordinator.
        Field("member_id", "string", (0, 9), default=""),
        # The unique identifier of the consumer instance provided by end user.
        Field("group_instance_id", "string", (5, 9), nullable_versions=(5, 9)),
        # The unique name the for class of protocols implemented by the group we want to join.
        Field("protocol_type", "string", (0, 9), default=""),
        # The list of protocols that the member supports.
        Field("protocols", "[]struct", (0, 9), struct=JoinGroupRequestProtocol),
        # The reason why the member (re-)joins the group.
        Field("reason", "string", (8, 9), nullable_versions=(8, 9)),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] | None = None,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is None else protocols
        self.reason = reason


class JoinGroupResponseMember(Message):
    __slots__ = ("group_instance_id", "member_id", "metadata")

    FIELDS = (
        # The group member ID.
        Field("member_id", "string", (0, 9), default=""),
        # The unique identifier of the consumer instance provided by end user.
        Field("group_instance_id", "string", (5, 9), nullable_versions=(5, 9)),
        # The group member metadata.
        Field("metadata", "bytes", (0, 9), default=b""),
    )

    def __init__(self, *, member_id: str = "", group_instance_id: str | None = None, metadata: bytes = b"") -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(ApiMessage):
    __slots__ = (
        "error_code",
        "generation_id",
        "leader",
        "member_id",
        "members",
        "protocol_name",
        "protocol_type",
        "skip_assignment",
        "throttle_time_ms",
    )

    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (2, 9), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 9), default=0),
        # The generation ID of the group.
        Field("generation_id", "int32", (0, 9), default=-1),
        # The group protocol name.
        Field("protocol_type", "string", (7, 9), nullable_versions=(7, 9)),
        # The group protocol selected by the coordinator.
        Field("protocol_name", "string", (0, 9), nullable_versions=(7, 9), default=""),
        # The leader of the group.
        Field("leader", "string", (0, 9), default=""),
        # True if the leader must skip running the assignment.
        Field("skip_assignment", "bool", (9, 9), default=False),
        # The member ID assigned by the group coordinator.
        Field("member_id", "string", (0, 9), default=""),
        # The group members.
        Field("members", "[]struct", (0, 9), struct=JoinGroupResponseMember),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is None else members
