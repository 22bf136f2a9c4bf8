"""ListGroups, API key 16.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class ListGroupsRequest(ApiMessage):
    __slots__ = ("states_filter", "types_filter")

    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The states of the groups we want to list.
        Field("states_filter", "[]string", (4, 5)),
        # The types of the groups we want to list.
        Field("types_filter", "[]string", (5, 5)),
    )

    def __init__(self, *, states_filter: list[str] | None = None, types_filter: list[str] | None = None) -> None:
        self.states_filter = [] if states_filter is None else states_filter
        self.types_filter = [] if types_filter is None else types_filter


class ListedGroup(Message):
    __slots__ = ("group_id", "group_state", "group_type", "protocol_type")

    FIELDS = (
        # The group ID.
        Field("group_id", "string", (0, 5), default=""),
        # The group protocol type.
        Field("protocol_type", "string", (0, 5), default=""),
        # The group state name.
        Field("group_state", "string", (4, 5), default=""),
        # The group type name.
        Field("group_type", "string", (5, 5), default=""),
    )

    def __init__(
        self, *, group_id: str = "", protocol_type: str = "", group_state: str = "", group_type: str = ""
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(ApiMessage):
    __slots__ = ("error_code", "groups", "throttle_time_ms")

    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 5), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 5), default=0),
        # Each group in the response.
        Field("groups", "[]struct", (0, 5), struct=ListedGroup),
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, groups: list[ListedGroup] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is None else groups
