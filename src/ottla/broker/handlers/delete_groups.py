"""DeleteGroups 0-2: groups without members go, with their offsets."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from ottla.broker.api import RequestContext
from ottla.broker.handlers.group_answers import PendingResponse
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


class DeleteGroupsHandler:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, request: DeleteGroupsRequest, context: RequestContext) -> Any:
        response = PendingResponse(context)
        deletion = _Deletion(dict.fromkeys(request.groups_names), response)
        for result in deletion.results:
            shard = self._coordinator.shard_for(result.group_id)
            if isinstance(shard, ErrorCode):
                deletion.settle(result, shard)
            else:
                outcome = shard.delete_group(result.group_id, partial(deletion.settle, result))
                self._coordinator.execute(shard, outcome)
        deletion.settle_one()  # the one count more, so that nothing was answered before all were begun
        return response.result()


class _Deletion:
    """The groups of one request, until the last of them is settled."""

    def __init__(self, group_ids: Iterable[str], response: PendingResponse) -> None:
        self.results = [DeletableGroupResult(group_id=group_id) for group_id in group_ids]
        self._unsettled = len(self.results) + 1
        self._response = response

    def settle(self, result: DeletableGroupResult, error_code: ErrorCode) -> None:
        result.error_code = error_code
        self.settle_one()

    def settle_one(self) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            self._response.send(DeleteGroupsResponse(results=self.results))
