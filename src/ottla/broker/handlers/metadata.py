"""Metadata 0-12: brokers, controller, topics with their leaders. Unknown topics are created where that is allowed.

Differs from Apache Kafka in one thing: the answer about a topic that is being created waits for it, so that the client
needs no second try.
"""

from functools import partial

from ottla.broker.api import Reply, RequestContext
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.topic_names import INTERNAL_TOPICS, problem_with
from ottla.controller.topics import NewTopic, TopicFault, Topics
from ottla.core.cluster import TopicImage
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NO_ID = bytes(16)
# Why a topic can't be made, where a second try would end the same way; for the others the client tries again.
_LASTING = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR)
_TOPIC_IDS_SINCE = 12
# By Kafka's numbers of operations: with no authorizer everybody may do all that a topic or a cluster knows.
_ALL_TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
_ALL_CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


class MetadataHandler:
    def __init__(self, cache: MetadataCache, topics: Topics, *, auto_create: bool) -> None:
        self._cache = cache
        self._topics = topics
        self._auto_create = auto_create

    def handle(self, request: MetadataRequest, context: RequestContext) -> MetadataResponse | Reply:
        wanted = request.topics
        if wanted is None or (context.version == 0 and not wanted):
            found = [self._describe(image, request) for image in self._cache.topics.values()]
            return self._respond(found, request, context)
        if context.version < _TOPIC_IDS_SINCE and any(
            topic.name is None or topic.topic_id != _NO_ID for topic in wanted
        ):
            # The fields are in versions 10 and 11, but their answer has no place for a topic without a name.
            refused = [
                MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "") for topic in wanted
            ]
            return self._respond(refused, request, context)
        may_create = self._auto_create and (context.version < 4 or request.allow_auto_topic_creation)
        missing = self._missing_names(wanted) if may_create else []
        if not missing:
            return self._respond([self._describe_wanted(topic, request) for topic in wanted], request, context)
        return self._create_then_respond(missing, wanted, request, context)

    def _missing_names(self, wanted: list[MetadataRequestTopic]) -> list[str]:
        names = dict.fromkeys(topic.name for topic in wanted if topic.name is not None)
        return [
            name
            for name in names
            if name not in self._cache.topics and problem_with(name) is None and name not in INTERNAL_TOPICS
        ]

    def _create_then_respond(
        self,
        missing: list[str],
        wanted: list[MetadataRequestTopic],
        request: MetadataRequest,
        context: RequestContext,
    ) -> Reply:
        reply = context.defer()
        left = len(missing)
        faults: dict[str, ErrorCode] = {}

        def on_created(name: str, outcome: TopicImage | TopicFault) -> None:
            nonlocal left
            left -= 1
            if isinstance(outcome, TopicFault) and outcome.error_code in _LASTING:
                faults[name] = outcome.error_code
            if left == 0:
                # A topic that another client made first shows in its description.
                found = [self._describe_wanted(topic, request) for topic in wanted]
                for topic in found:
                    if topic.error_code and topic.name in faults:
                        topic.error_code = faults[topic.name]
                reply.send(self._respond(found, request, context))

        for name in missing:
            self._topics.create(NewTopic(name), partial(on_created, name))
        return reply

    def _respond(
        self, topics: list[MetadataResponseTopic], request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse:
        cache = self._cache
        listener_name = context.peer.listener_name
        brokers = []
        for broker in cache.brokers.values():
            endpoint = broker.endpoint_for(listener_name)
            if endpoint is not None:
                brokers.append(
                    MetadataResponseBroker(
                        node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                    )
                )
        response = MetadataResponse(
            brokers=brokers, cluster_id=cache.cluster_id, controller_id=cache.controller_id, topics=topics
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = _ALL_CLUSTER_OPERATIONS
        return response

    def _describe_wanted(self, wanted: MetadataRequestTopic, request: MetadataRequest) -> MetadataResponseTopic:
        name = wanted.name
        if name is None:
            if wanted.topic_id == _NO_ID:
                return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=None)
            name = self._cache.name_of(wanted.topic_id)
            if name is None:
                return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        image = self._cache.topics.get(name)
        if image is not None:
            return self._describe(image, request)
        illegal = problem_with(name) is not None
        error_code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(error_code=error_code, name=name)

    def _describe(self, image: TopicImage, request: MetadataRequest) -> MetadataResponseTopic:
        live = self._cache.brokers
        partitions = [
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                offline_replicas=[broker_id for broker_id in state.replicas if broker_id not in live],
            )
            for index, state in image.partitions.items()
        ]
        topic = MetadataResponseTopic(
            name=image.name,
            topic_id=image.topic_id,
            is_internal=image.name in INTERNAL_TOPICS,
            partitions=partitions,
        )
        if request.include_topic_authorized_operations:
            topic.topic_authorized_operations = _ALL_TOPIC_OPERATIONS
        return topic
