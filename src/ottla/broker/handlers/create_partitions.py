"""CreatePartitions 0-3: topics grow to a number of partitions, placed by the broker or by the request."""

from collections import Counter

from ottla.broker.api import Reply, RequestContext
from ottla.broker.handlers.controller_only import NOT_CONTROLLER
from ottla.broker.topic_changes import TIMED_OUT, TIMED_OUT_MESSAGE, TopicChanges
from ottla.controller.added_partitions import NewPartitions
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import Topics
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.replication.replicas import Waiting


class CreatePartitionsHandler:
    def __init__(self, topics: Topics, waiting: Waiting) -> None:
        self._topics = topics
        self._waiting = waiting

    def handle(self, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse | Reply:
        times = Counter(topic.name for topic in request.topics)
        results = {
            name: CreatePartitionsTopicResult(name=name, error_code=TIMED_OUT, error_message=TIMED_OUT_MESSAGE)
            for name in times
        }
        response = CreatePartitionsResponse(results=list(results.values()))
        todo: list[CreatePartitionsTopic] = []
        for topic in request.topics:
            if times[topic.name] == 1:
                todo.append(topic)
                continue
            result = results[topic.name]
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "Duplicate topic name."
        if not todo:
            return response
        reply = context.defer()
        changes = TopicChanges(len(todo), lambda: reply.send(response))
        for topic in todo:
            self._add(topic, results[topic.name], changes, validate_only=request.validate_only)
        return changes.wait(self._waiting, reply, timeout_ms=request.timeout_ms)

    def _add(
        self,
        topic: CreatePartitionsTopic,
        result: CreatePartitionsTopicResult,
        changes: TopicChanges,
        *,
        validate_only: bool,
    ) -> None:
        def on_added(fault: TopicFault | None) -> None:
            result.error_code, result.error_message = (ErrorCode.NONE, None) if fault is None else fault
            changes.settle()

        assignments = topic.assignments
        wanted = NewPartitions(
            topic.name,
            topic.count,
            None if assignments is None else [tuple(entry.broker_ids) for entry in assignments],
        )
        self._topics.add_partitions(wanted, on_added, validate_only=validate_only)


def refuse_create_partitions(request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """The answer of a broker that is not the controller."""
    code, message = NOT_CONTROLLER
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ]
    )
