"""OffsetFetch 1-9: what a group has committed; since version 8 of several groups at once.

`require_stable` asks for offsets that no open transaction could change: here there are no others.
"""

from collections.abc import Iterable, Mapping

from ottla.broker.api import RequestContext
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.coordinator.group.schemas import OffsetValue
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_SEVERAL_GROUPS_SINCE = 8
_GROUP_ERROR_SINCE = 2
_NOTHING_COMMITTED = OffsetValue(-1, -1, "", -1)
_NO_PARTITIONS: Mapping[int, OffsetValue] = {}


class OffsetFetchHandler:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        if context.version >= _SEVERAL_GROUPS_SINCE:
            return OffsetFetchResponse(groups=[self._fetch_group(group) for group in request.groups])
        found = self._find(request.group_id, request.topics)
        if not isinstance(found, ErrorCode):
            return OffsetFetchResponse(topics=[_old_topic(topic, partitions) for topic, partitions in found])
        if context.version >= _GROUP_ERROR_SINCE:
            return OffsetFetchResponse(error_code=found)
        return OffsetFetchResponse(topics=[_refused_topic(topic, found) for topic in request.topics or ()])

    def _fetch_group(self, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        found = self._find(group.group_id, group.topics)
        if isinstance(found, ErrorCode):
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=found)
        return OffsetFetchResponseGroup(
            group_id=group.group_id, topics=[_topic(topic, partitions) for topic, partitions in found]
        )

    def _find(
        self, group_id: str, topics: Iterable[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None
    ) -> list[tuple[str, list[tuple[int, OffsetValue]]]] | ErrorCode:
        """By topic and partition; without topics everything that is committed. A group that isn't there has nothing."""
        shard = self._coordinator.shard_for(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        offsets = shard.offsets.of_group(group_id)
        if topics is None:
            return [(topic, list(partitions.items())) for topic, partitions in offsets.items()]
        found = []
        for topic in topics:
            committed = offsets.get(topic.name, _NO_PARTITIONS)
            wanted = [
                (partition, committed.get(partition, _NOTHING_COMMITTED)) for partition in topic.partition_indexes
            ]
            found.append((topic.name, wanted))
        return found


def _topic(name: str, partitions: list[tuple[int, OffsetValue]]) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=partition,
                committed_offset=value.offset,
                committed_leader_epoch=value.leader_epoch,
                metadata=value.metadata,
            )
            for partition, value in partitions
        ],
    )


def _old_topic(name: str, partitions: list[tuple[int, OffsetValue]]) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=partition,
                committed_offset=value.offset,
                committed_leader_epoch=value.leader_epoch,
                metadata=value.metadata,
            )
            for partition, value in partitions
        ],
    )


def _refused_topic(topic: OffsetFetchRequestTopic, error_code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=partition, committed_offset=-1, error_code=error_code)
            for partition in topic.partition_indexes
        ],
    )
