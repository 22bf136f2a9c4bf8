"""DeleteTopics 1-6: by name, from version 6 on also by id."""

from functools import partial

from ottla.broker.api import Reply, RequestContext
from ottla.broker.handlers.controller_only import NOT_CONTROLLER
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.topic_changes import TIMED_OUT, TIMED_OUT_MESSAGE, TopicChanges
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import Topics
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.replication.replicas import Waiting

_NO_ID = bytes(16)


class DeleteTopicsHandler:
    def __init__(self, cache: MetadataCache, topics: Topics, waiting: Waiting) -> None:
        self._cache = cache
        self._topics = topics
        self._waiting = waiting

    def handle(self, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse | Reply:
        wanted = [(topic.name, topic.topic_id) for topic in request.topics]
        wanted += [(name, _NO_ID) for name in request.topic_names]
        response = DeleteTopicsResponse()
        todo: list[tuple[str, DeletableTopicResult]] = []
        for name, topic_id in wanted:
            result = DeletableTopicResult(name=name, topic_id=topic_id)
            response.responses.append(result)
            if name is None:
                result.name = self._cache.name_of(topic_id)
                if result.name is None:
                    result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
                    continue
            elif topic_id != _NO_ID:
                result.error_code = ErrorCode.INVALID_REQUEST
                result.error_message = "You may not specify both topic name and topic id."
                continue
            todo.append((result.name or "", result))
        if not todo:
            return response
        reply = context.defer()
        changes = TopicChanges(len(todo), lambda: reply.send(response))

        def on_deleted(result: DeletableTopicResult, fault: TopicFault | None) -> None:
            if fault is not None:
                result.error_code, result.error_message = fault
            else:
                result.error_code, result.error_message = ErrorCode.NONE, None
            changes.settle()

        for name, result in todo:
            image = self._cache.topics.get(name)
            if image is not None:
                result.topic_id = image.topic_id
            result.error_code, result.error_message = TIMED_OUT, TIMED_OUT_MESSAGE  # until it is done
            self._topics.delete(name, partial(on_deleted, result))
        return changes.wait(self._waiting, reply, timeout_ms=request.timeout_ms)


def refuse_delete_topics(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """The answer of a broker that is not the controller."""
    code, message = NOT_CONTROLLER
    named = [(topic.name, topic.topic_id) for topic in request.topics]
    named += [(name, _NO_ID) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)
            for name, topic_id in named
        ]
    )
