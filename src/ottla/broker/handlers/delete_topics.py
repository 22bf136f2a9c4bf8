"""DeleteTopics 1-6: by name, from version 6 on also by id."""

from functools import partial

from ottla.broker.api import Reply, RequestContext
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.topics import TopicFault, Topics
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

_NO_ID = bytes(16)


class DeleteTopicsHandler:
    def __init__(self, cache: MetadataCache, topics: Topics) -> None:
        self._cache = cache
        self._topics = topics

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
                result.error_message = "name a topic or give its id, not both"
                continue
            todo.append((result.name or "", result))
        if not todo:
            return response
        reply = context.defer()
        left = len(todo)

        def on_deleted(result: DeletableTopicResult, fault: TopicFault | None) -> None:
            nonlocal left
            if fault is not None:
                result.error_code, result.error_message = fault
            left -= 1
            if left == 0:
                reply.send(response)

        for name, result in todo:
            image = self._cache.topics.get(name)
            if image is not None:
                result.topic_id = image.topic_id
            self._topics.delete(name, partial(on_deleted, result))
        return reply
