"""DescribeGroups 0-6: state, protocol and members of groups."""

from ottla.broker.api import RequestContext
from ottla.broker.handlers.authorized_operations import ALL_GROUP_OPERATIONS
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


class DescribeGroupsHandler:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        described = [self._describe(group_id, context.version) for group_id in request.groups]
        if request.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = ALL_GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=described)

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        shard = self._coordinator.shard_for(group_id)
        if isinstance(shard, ErrorCode):
            return DescribedGroup(group_id=group_id, error_code=shard)
        return shard.groups.describe(group_id, version)
