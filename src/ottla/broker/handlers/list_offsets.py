"""ListOffsets 1-8: the first, the last, the newest by timestamp (KIP-734), or the first at or after a time.

-4 (the first offset that is local) equals the first offset: all of a log is on this disk.
"""

from ottla.broker.api import RequestContext
from ottla.core.errors import ErrorCode, StorageError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas

_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_READ_COMMITTED = 1
_NO_TIME = -1
_SINCE_VERSION = {_LATEST: 1, _EARLIEST: 1, _MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8}
_NEVER = 1 << 15


class ListOffsetsHandler:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def handle(self, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        is_committed = request.isolation_level == _READ_COMMITTED
        version = context.version
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[self._answer(topic.name, wanted, is_committed, version) for wanted in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _answer(
        self, topic: str, wanted: ListOffsetsPartition, is_committed: bool, version: int
    ) -> ListOffsetsPartitionResponse:
        response = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
        if wanted.timestamp < 0 and version < _SINCE_VERSION.get(wanted.timestamp, _NEVER):
            response.error_code = ErrorCode.UNSUPPORTED_VERSION
            return response
        partition = self._replicas.find(topic, wanted.partition_index)
        if isinstance(partition, ErrorCode):
            response.error_code = partition
            return response
        response.error_code = partition.check_leader_epoch(wanted.current_leader_epoch)
        if response.error_code != ErrorCode.NONE:
            return response
        try:
            found = _look_up(partition, wanted.timestamp, is_committed)
        except StorageError as error:
            self._replicas.on_storage_error(partition, error)
            response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            response.timestamp, response.offset, response.leader_epoch = found
        return response


def _look_up(partition: Partition, timestamp: int, is_committed: bool) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); -1 in all three when no record is that new."""
    log = partition.log
    limit = partition.last_stable_offset if is_committed else partition.high_watermark
    if timestamp == _LATEST:
        return _NO_TIME, limit, partition.state.leader_epoch
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return _NO_TIME, log.log_start_offset, log.leader_epochs.epoch_of(log.log_start_offset)
    is_newest = timestamp == _MAX_TIMESTAMP
    found = log.offset_of_max_timestamp() if is_newest else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= limit:
        return _NO_TIME, -1, -1
    return found.timestamp_ms, found.offset, found.leader_epoch
