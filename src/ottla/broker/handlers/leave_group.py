"""LeaveGroup 0-5: one member goes, or since version 3 several, static ones by their instance id."""

from typing import Any

from ottla.broker.api import RequestContext
from ottla.broker.handlers.group_answers import PendingResponse, caller_of
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


class LeaveGroupHandler:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, request: LeaveGroupRequest, context: RequestContext) -> Any:
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        shard = self._coordinator.shard_for(request.group_id)
        if isinstance(shard, ErrorCode):
            return LeaveGroupResponse(error_code=shard)
        response = PendingResponse(context)
        self._coordinator.execute(shard, shard.groups.leave(request, caller_of(context), response.send))
        return response.result()
