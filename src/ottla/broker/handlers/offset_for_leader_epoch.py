"""OffsetForLeaderEpoch 2-4: where a leader epoch ends in this log (KIP-101, KIP-320).

Consumers find out by it whether what they have read was cut off. Our own followers don't ask: a fetch says it.
"""

from ottla.broker.api import RequestContext
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.replication.replicas import Replicas


class OffsetForLeaderEpochHandler:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def handle(self, request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic, partitions=[self._find(topic.topic, wanted) for wanted in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _find(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        number = wanted.partition
        partition = self._replicas.find(topic, number)
        if isinstance(partition, ErrorCode):
            return EpochEndOffset(partition=number, error_code=partition)
        error_code = partition.check_leader_epoch(wanted.current_leader_epoch)
        if error_code:
            return EpochEndOffset(partition=number, error_code=error_code)
        epoch, end_offset = partition.end_of_epoch(wanted.leader_epoch)
        return EpochEndOffset(partition=number, leader_epoch=epoch, end_offset=end_offset)
