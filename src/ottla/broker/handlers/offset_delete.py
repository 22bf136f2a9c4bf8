"""OffsetDelete 0: forget committed offsets of topics that the group does not subscribe to."""

from collections.abc import Container
from typing import Any

from ottla.broker.api import RequestContext
from ottla.broker.handlers.group_answers import PendingResponse
from ottla.broker.metadata_cache import MetadataCache
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


class OffsetDeleteHandler:
    def __init__(self, coordinator: GroupCoordinator, cache: MetadataCache) -> None:
        self._coordinator = coordinator
        self._cache = cache

    def handle(self, request: OffsetDeleteRequest, context: RequestContext) -> Any:
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        shard = self._coordinator.shard_for(request.group_id)
        if isinstance(shard, ErrorCode):
            return OffsetDeleteResponse(error_code=shard)
        response = PendingResponse(context)
        outcome = shard.offsets.delete(request, partitions_of=self._partitions_of, answer=response.send)
        self._coordinator.execute(shard, outcome)
        return response.result()

    def _partitions_of(self, topic: str) -> Container[int]:
        image = self._cache.topics.get(topic)
        return () if image is None else image.partitions
