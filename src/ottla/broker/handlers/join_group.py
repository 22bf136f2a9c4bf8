"""JoinGroup 0-9: a member comes, or comes back; answered when the generation is known."""

from typing import Any

from ottla.broker.api import RequestContext
from ottla.broker.handlers.group_answers import PendingResponse, caller_of
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


class JoinGroupHandler:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, request: JoinGroupRequest, context: RequestContext) -> Any:
        if not request.group_id:
            return _refused(request, ErrorCode.INVALID_GROUP_ID)
        shard = self._coordinator.shard_for(request.group_id)
        if isinstance(shard, ErrorCode):
            return _refused(request, shard)
        response = PendingResponse(context)
        self._coordinator.execute(shard, shard.groups.join(request, caller_of(context), response.send))
        return response.result()


def _refused(request: JoinGroupRequest, error_code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, member_id=request.member_id)
