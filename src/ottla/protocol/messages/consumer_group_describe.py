"""ConsumerGroupDescribe, API key 69.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class ConsumerGroupDescribeRequest(ApiMessage):
    __slots__ = ("group_ids", "include_authorized_operations")

    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The ids of the groups to describe.
        Field("group_ids", "[]string", (0, 1)),
        # Whether to include authorized operations.
        Field("include_authorized_operations", "bool", (0, 1), default=False),
    )

    def __init__(self, *, group_ids: list[str] | None = None, include_authorized_operations: bool = False) -> None:
        self.group_ids = [] if group_ids is None else group_ids
        self.include_authorized_operations = include_authorized_operations


class TopicPartitions(Message):
    __slots__ = ("partitions", "topic_id", "topic_name")

    FIELDS = (
        # The topic ID.
        Field("topic_id", "uuid", (0, 1), default=ZERO_UUID),
        # The topic name.
        Field("topic_name", "string", (0, 1), default=""),
        # The partitions.
        Field("partitions", "[]int32", (0, 1)),
    )

    def __init__(
        self, *, topic_id: bytes = ZERO_UUID, topic_name: str = "", partitions: list[int] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class Assignment(Message):
    __slots__ = ("topic_partitions",)

    FIELDS = (
        # The assigned topic-partitions to the member.
        Field("topic_partitions", "[]struct", (0, 1), struct=TopicPartitions),
    )

    def __init__(self, *, topic_partitions: list[TopicPartitions] | None = None) -> None:
        self.topic_partitions = [] if topic_partitions is None else topic_partitions


class Member(Message):
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "member_epoch",
        "member_id",
        "member_type",
        "rack_id",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "target_assignment",
    )

    FIELDS = (
        # The member ID.
        Field("member_id", "string", (0, 1), default=""),
        # The member instance ID.
        Field("instance_id", "string", (0, 1), nullable_versions=(0, 1)),
        # The member rack ID.
        Field("rack_id", "string", (0, 1), nullable_versions=(0, 1)),
        # The current member epoch.
        Field("member_epoch", "int32", (0, 1), default=0),
        # The client ID.
        Field("client_id", "string", (0, 1), default=""),
        # The client host.
        Field("client_host", "string", (0, 1), default=""),
        # The subscribed topic names.
        Field("subscribed_topic_names", "[]string", (0, 1)),
        # the subscribed topic regex otherwise or null of not provided.
        Field("subscribed_topic_regex", "string", (0, 1), nullable_versions=(0, 1)),
        # The current assignment.
        Field("assignment", "struct", (0, 1), struct=Assignment),
        # The target assignment.
        Field("target_assignment", "struct", (0, 1), struct=Assignment),
        # -1 for unknown.
        Field("member_type", "int8", (1, 1), default=-1),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is None else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = Assignment() if assignment is None else assignment
        self.target_assignment = Assignment() if target_assignment is None else target_assignment
        self.member_type = member_type


class DescribedGroup(Message):
    __slots__ = (
        "assignment_epoch",
        "assignor_name",
        "authorized_operations",
        "error_code",
        "error_message",
        "group_epoch",
        "group_id",
        "group_state",
        "members",
    )

    FIELDS = (
        # The describe error, or 0 if there was no error.
        Field("error_code", "int16", (0, 1), default=0),
        # The top-level error message, or null if there was no error.
        Field("error_message", "string", (0, 1), nullable_versions=(0, 1)),
        # The group ID string.
        Field("group_id", "string", (0, 1), default=""),
        # The group state string, or the empty string.
        Field("group_state", "string", (0, 1), default=""),
        # The group epoch.
        Field("group_epoch", "int32", (0, 1), default=0),
        # The assignment epoch.
        Field("assignment_epoch", "int32", (0, 1), default=0),
        # The selected assignor.
        Field("assignor_name", "string", (0, 1), default=""),
        # The members.
        Field("members", "[]struct", (0, 1), struct=Member),
        # 32-bit bitfield to represent authorized operations for this group.
        Field("authorized_operations", "int32", (0, 1), default=-2147483648),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is None else members
        self.authorized_operations = authorized_operations


class ConsumerGroupDescribeResponse(ApiMessage):
    __slots__ = ("groups", "throttle_time_ms")

    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 1), default=0),
        # Each described group.
        Field("groups", "[]struct", (0, 1), struct=DescribedGroup),
    )

    def __init__(self, *, throttle_time_ms: int = 0, groups: list[DescribedGroup] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups
