"""Metadata 0-12: brokers, controller, topics with their leaders. Unknown topics are created where that is allowed.

Differs from Apache Kafka in one thing: the answer about a topic that is being created waits for it, so that the client
needs no second try; on another broker than the controller only until it is written, then it gets error 5.
"""

from collections.abc import Callable, Container
from functools import partial
from typing import TypeAlias

from ottla.broker.api import Reply, RequestContext
from ottla.broker.handlers.authorized_operations import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.topic_creation import TopicCreator
from ottla.controller.new_topics import NewTopic
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topic_names import problem_with
from ottla.core.cluster import INTERNAL_TOPICS, NO_LEADER, TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import encode_struct
from ottla.protocol.message import EncodedStruct
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

# A topic that is there is encoded once for each version in use; one that isn't is a message with its error.
_Topic: TypeAlias = MetadataResponseTopic | EncodedStruct


class MetadataHandler:
    def __init__(self, cache: MetadataCache, topics: TopicCreator, *, auto_create: bool) -> None:
        self._cache = cache
        self._topics = topics
        self._auto_create = auto_create

    def handle(self, request: MetadataRequest, context: RequestContext) -> MetadataResponse | Reply:
        wanted = request.topics
        if wanted is None or (context.version == 0 and not wanted):
            describe = self._describer(request, context)
            return self._respond([describe(image) for image in self._cache.topics.values()], request, context)
        if context.version < _TOPIC_IDS_SINCE and any(
            topic.name is None or topic.topic_id != _NO_ID for topic in wanted
        ):
            # The fields are in versions 10 and 11, but their answer has no place for a topic without a name.
            refused: list[_Topic] = [
                MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "") for topic in wanted
            ]
            return self._respond(refused, request, context)
        may_create = self._auto_create and (context.version < 4 or request.allow_auto_topic_creation)
        missing = self._missing_names(wanted) if may_create else []
        if not missing:
            return self._respond(self._describe_wanted(wanted, request, context), request, context)
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
            if not isinstance(outcome, TopicFault):
                faults[name] = ErrorCode.LEADER_NOT_AVAILABLE  # if it is not here yet
            elif outcome.error_code in _LASTING:
                faults[name] = outcome.error_code
            if left == 0:
                # A topic that another client made first shows in its description.
                found = self._describe_wanted(wanted, request, context)
                for topic in found:
                    if isinstance(topic, MetadataResponseTopic) and topic.name in faults:
                        topic.error_code = faults[topic.name]
                reply.send(self._respond(found, request, context))

        for name in missing:
            self._topics.create(NewTopic(name), partial(on_created, name))
        return reply

    def _respond(self, topics: list[_Topic], request: MetadataRequest, context: RequestContext) -> MetadataResponse:
        cache = self._cache
        brokers = [
            MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in cache.brokers_on(context.peer.listener_name)
        ]
        response = MetadataResponse(
            brokers=brokers,
            cluster_id=cache.cluster_id,
            controller_id=cache.controller_id,
            topics=topics,  # type: ignore[arg-type]  # the codec takes structs that are encoded, too
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
        return response

    def _describe_wanted(
        self, wanted: list[MetadataRequestTopic], request: MetadataRequest, context: RequestContext
    ) -> list[_Topic]:
        cache = self._cache
        describe = self._describer(request, context)
        found: list[_Topic] = []
        for topic in wanted:
            name = topic.name if topic.name is not None else cache.name_of(topic.topic_id)
            image = None if name is None else cache.topics.get(name)
            found.append(_missing(topic) if image is None else describe(image))
        return found

    def _describer(self, request: MetadataRequest, context: RequestContext) -> Callable[[TopicImage], EncodedStruct]:
        version = context.version
        with_operations = request.include_topic_authorized_operations
        encoded = self._cache.encoded_topics(ApiKey.METADATA, version, with_operations)
        live = self._cache.brokers

        def describe(image: TopicImage) -> EncodedStruct:
            known = encoded.get(image.name)
            if known is None:
                topic = _topic_of(image, live)
                if with_operations:
                    topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS
                known = encoded[image.name] = encode_struct(topic, version, within=MetadataResponse)
            return known

        return describe


def _missing(wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    name = wanted.name
    if name is None:
        if wanted.topic_id == _NO_ID:
            return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=None)
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
    illegal = problem_with(name) is not None
    error_code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=error_code, name=name)


def _topic_of(image: TopicImage, live: Container[BrokerId]) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            error_code=ErrorCode.NONE if state.leader in live else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=state.leader if state.leader in live else NO_LEADER,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            offline_replicas=[broker_id for broker_id in state.replicas if broker_id not in live],
        )
        for index, state in image.partitions.items()
    ]
    return MetadataResponseTopic(
        name=image.name, topic_id=image.topic_id, is_internal=image.name in INTERNAL_TOPICS, partitions=partitions
    )
