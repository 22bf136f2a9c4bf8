"""StopReplica 0: the controller ends replicas of this broker, and deletes their logs where it says so."""

from ottla.broker.api import Reply, RequestContext
from ottla.broker.local_topics import LocalTopics
from ottla.protocol.apis import ApiKey
from ottla.protocol.control_codec import request_of, response_of
from ottla.protocol.control_messages import StopReplicaRequest


class StopReplicaHandler:
    def __init__(self, local_topics: LocalTopics) -> None:
        self._local_topics = local_topics

    def handle(self, request: StopReplicaRequest, context: RequestContext) -> Reply:
        reply = context.defer()
        self._local_topics.handle(
            request_of(request), lambda answer: reply.send(response_of(ApiKey.STOP_REPLICA, answer))
        )
        return reply
