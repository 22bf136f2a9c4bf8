"""ListPartitionReassignments 0: the moves of replicas that are under way, of all topics or of named partitions.

`controller/reassignments.py` settles each at once, so there are none; a name that does not exist has none either.
"""

from ottla.broker.api import RequestContext
from ottla.broker.handlers.controller_only import NOT_CONTROLLER
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)


def refuse_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse:
    """The answer of a broker that is not the controller."""
    code, message = NOT_CONTROLLER
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
