"""DeleteGroups, API key 42.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DeleteGroupsRequest(ApiMessage):
    __slots__ = ("groups_names",)

    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The group names to delete.
        Field("groups_names", "[]string", (0, 2)),
    )

    def __init__(self, *, groups_names: list[str] | None = None) -> None:
        self.groups_names = [] if groups_names is None else groups_names


class DeletableGroupResult(Message):
    __slots__ = ("error_code", "group_id")

    FIELDS = (
        # The group id.
        Field("group_id", "string", (0, 2), default=""),
        # The deletion error, or 0 if the deletion succeeded.
        Field("error_code", "int16", (0, 2), default=0),
    )

    def __init__(self, *, group_id: str = "", error_code: int = 0) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(ApiMessage):
    __slots__ = ("results", "throttle_time_ms")

    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 2), default=0),
        # The deletion results.
        Field("results", "[]struct", (0, 2), struct=DeletableGroupResult),
    )

    def __init__(self, *, throttle_time_ms: int = 0, results: list[DeletableGroupResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
