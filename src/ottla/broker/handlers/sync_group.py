"""SyncGroup 0-5: the leader brings the assignments of a generation, each member takes its own."""

from typing import Any

from ottla.broker.api import RequestContext
from ottla.broker.handlers.group_answers import PendingResponse, caller_of
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class SyncGroupHandler:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, request: SyncGroupRequest, context: RequestContext) -> Any:
        if not request.group_id:
            return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        shard = self._coordinator.shard_for(request.group_id)
        if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # As Kafka: the assignment that this generation had been waiting for is lost, so its members join again.
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        if isinstance(shard, ErrorCode):
            return SyncGroupResponse(error_code=shard)
        response = PendingResponse(context)
        self._coordinator.execute(shard, shard.groups.sync(request, caller_of(context), response.send))
        return response.result()
