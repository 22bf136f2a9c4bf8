"""DeleteRecords 0-2: moves the start of partitions up; -1 means up to the high watermark."""

from ottla.broker.api import Reply, RequestContext
from ottla.core.cluster import INTERNAL_TOPICS
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.replication.delayed_delete_records import DeleteRecordsWait
from ottla.replication.replicas import Replicas

_UP_TO_HIGH_WATERMARK = -1


class DeleteRecordsHandler:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def handle(self, request: DeleteRecordsRequest, context: RequestContext) -> Reply:
        response = DeleteRecordsResponse()
        waits: list[tuple[DeleteRecordsWait, DeleteRecordsPartitionResult]] = []
        for topic in request.topics:
            result = DeleteRecordsTopicResult(name=topic.name)
            response.topics.append(result)
            for wanted in topic.partitions:
                outcome = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
                result.partitions.append(outcome)
                started = self._start(topic.name, wanted.partition_index, wanted.offset)
                if isinstance(started, ErrorCode):
                    outcome.error_code = started
                else:
                    waits.append((started, outcome))
        reply = context.defer()

        def on_done() -> None:
            for wait, outcome in waits:
                outcome.error_code = wait.error_code
                if wait.error_code == ErrorCode.NONE:
                    outcome.low_watermark = wait.partition.low_watermark
            reply.send(response)

        operation = self._replicas.await_deletion(
            [wait for wait, _ in waits], timeout_ms=request.timeout_ms, on_done=on_done
        )
        reply.deferred.on_abandon = operation.abandon
        return reply

    def _start(self, topic: str, number: int, offset: int) -> DeleteRecordsWait | ErrorCode:
        if topic in INTERNAL_TOPICS:
            return ErrorCode.INVALID_TOPIC_EXCEPTION  # groups live in there, whatever its cleanup.policy is
        partition = self._replicas.find(topic, number)
        if isinstance(partition, ErrorCode):
            return partition
        if not partition.log.config.delete:
            return ErrorCode.POLICY_VIOLATION
        if offset == _UP_TO_HIGH_WATERMARK:
            offset = partition.high_watermark
        error_code = self._replicas.delete_records_before(partition, offset)
        if error_code != ErrorCode.NONE:
            return error_code
        return DeleteRecordsWait(partition, offset=offset)
