"""LeaderAndIsr 0: the controller says who leads and who follows the partitions that this broker holds replicas of."""

from ottla.broker.api import Reply, RequestContext
from ottla.broker.local_topics import LocalTopics
from ottla.protocol.apis import ApiKey
from ottla.protocol.control_codec import request_of, response_of
from ottla.protocol.control_messages import LeaderAndIsrRequest


class LeaderAndIsrHandler:
    def __init__(self, local_topics: LocalTopics) -> None:
        self._local_topics = local_topics

    def handle(self, request: LeaderAndIsrRequest, context: RequestContext) -> Reply:
        reply = context.defer()  # it holds the connection: the controller's requests are carried out in their order
        self._local_topics.handle(
            request_of(request), lambda answer: reply.send(response_of(ApiKey.LEADER_AND_ISR, answer))
        )
        return reply
