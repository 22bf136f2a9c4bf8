"""ListGroups 0-5: the groups that this broker coordinates, by state and type since versions 4 and 5."""

from ottla.broker.api import RequestContext
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_TYPE = "classic"


class ListGroupsHandler:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        if self._coordinator.runtime.loading_count:
            # Half a list would look like a whole one.
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        types = _names(request.types_filter)
        if types and _TYPE not in types:
            return ListGroupsResponse()
        states = _names(request.states_filter)
        groups: list[ListedGroup] = []
        for shard in self._coordinator.shards():
            for group in shard.groups.listed():
                if not states or group.group_state.lower() in states:
                    group.group_type = _TYPE
                    groups.append(group)
        return ListGroupsResponse(groups=groups)


def _names(wanted: list[str]) -> set[str]:
    return {name.strip().lower() for name in wanted}
