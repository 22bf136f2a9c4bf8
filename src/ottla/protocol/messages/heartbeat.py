"""Heartbeat, API key 12.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field


class HeartbeatRequest(ApiMessage):
    __slots__ = ("generation_id", "group_id", "group_instance_id", "member_id")

    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The group id.
        Field("group_id", "string", (0, 4), default=""),
        # The generation of the group.
        Field("generation_id", "int32", (0, 4), default=0),
        # The member ID.
        Field("member_id", "string", (0, 4), default=""),
        # The unique identifier of the consumer instance provided by end user.
        Field("group_instance_id", "string", (3, 4), nullable_versions=(3, 4)),
    )

    def __init__(
        self, *, group_id: str = "", generation_id: int = 0, member_id: str = "", group_instance_id: str | None = None
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(ApiMessage):
    __slots__ = ("error_code", "throttle_time_ms")

    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 4), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 4), default=0),
    )

    def __init__(self, *, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
