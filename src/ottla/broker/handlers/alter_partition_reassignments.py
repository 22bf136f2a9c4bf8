"""AlterPartitionReassignments 0-1: which brokers shall hold a partition, or that a move shall be given up."""

from ottla.broker.api import RequestContext
from ottla.broker.handlers.controller_only import NOT_CONTROLLER
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.reassignments import decide_reassignment
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)


class AlterPartitionReassignmentsHandler:
    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def handle(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        may_change = request.allow_replication_factor_change
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_change,
            error_message=None,
            responses=[self._reassign(topic, allow_replication_factor_change=may_change) for topic in request.topics],
        )

    def _reassign(
        self, topic: ReassignableTopic, *, allow_replication_factor_change: bool
    ) -> ReassignableTopicResponse:
        name = topic.name
        image = self._cache.topics.get(name)
        response = ReassignableTopicResponse(name=name)
        for partition in topic.partitions:
            fault = decide_reassignment(
                image,
                name,
                partition.partition_index,
                partition.replicas,
                live=self._cache.brokers,
                allow_replication_factor_change=allow_replication_factor_change,
            )
            code, message = (ErrorCode.NONE, None) if fault is None else fault
            response.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index, error_code=code, error_message=message
                )
            )
        return response


def refuse_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    """The answer of a broker that is not the controller."""
    code, message = NOT_CONTROLLER
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)
