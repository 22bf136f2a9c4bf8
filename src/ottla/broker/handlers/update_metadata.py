"""UpdateMetadata 0: the controller says what clients see of the cluster: its brokers, its topics, who leads."""

from ottla.broker.api import Reply, RequestContext
from ottla.broker.local_topics import LocalTopics
from ottla.protocol.apis import ApiKey
from ottla.protocol.control_codec import request_of, response_of
from ottla.protocol.control_messages import UpdateMetadataRequest


class UpdateMetadataHandler:
    def __init__(self, local_topics: LocalTopics) -> None:
        self._local_topics = local_topics

    def handle(self, request: UpdateMetadataRequest, context: RequestContext) -> Reply:
        reply = context.defer()
        self._local_topics.handle(
            request_of(request), lambda answer: reply.send(response_of(ApiKey.UPDATE_METADATA, answer))
        )
        return reply
