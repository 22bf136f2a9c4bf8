"""CreateTopics 2-7: new topics by counts, by an assignment of replicas, with configs, or only validated."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from ottla.broker.api import Reply, RequestContext
from ottla.broker.handlers.controller_only import NOT_CONTROLLER
from ottla.broker.topic_changes import TIMED_OUT, TIMED_OUT_MESSAGE, TopicChanges
from ottla.controller.new_topics import NewTopic
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import Topics
from ottla.core.cluster import TopicImage
from ottla.core.config.config import TopicConfig
from ottla.core.config.definition import DynamicMode
from ottla.core.errors import ErrorCode
from ottla.protocol.codec import encode_struct
from ottla.protocol.message import EncodedStruct
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.replication.replicas import Waiting


class CreateTopicsHandler:
    def __init__(self, topics: Topics, waiting: Waiting) -> None:
        self._topics = topics
        self._waiting = waiting

    def handle(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse | Reply:
        names = [topic.name for topic in request.topics]
        times = Counter(names)
        results = {
            name: _refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name in times
            if times[name] > 1
        }
        todo = []
        for topic in request.topics:
            if topic.name in results:
                continue
            indexes = [entry.partition_index for entry in topic.assignments]
            if len(set(indexes)) < len(indexes):
                twice = Counter(indexes).most_common(1)[0][0]
                message = f"Found multiple manual partition assignments for partition {twice}"
                results[topic.name] = _refused(topic.name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
            else:
                todo.append(topic)
        if not todo:
            return CreateTopicsResponse(topics=[results[name] for name in times])
        reply = context.defer()
        describe = _Describing(self._topics.config_of, context.version)

        def send() -> None:
            ordered = [results.get(name) or _refused(name, TIMED_OUT, TIMED_OUT_MESSAGE) for name in times]
            reply.send(CreateTopicsResponse(topics=ordered))

        def on_created(name: str, outcome: TopicImage | TopicFault) -> None:
            if isinstance(outcome, TopicFault):
                results[name] = _refused(name, outcome.error_code, outcome.message)
            else:
                results[name] = describe.result_of(outcome)
            changes.settle()

        changes = TopicChanges(len(todo), send)
        for topic in todo:
            self._topics.create(_new_topic(topic), partial(on_created, topic.name), validate_only=request.validate_only)
        return changes.wait(self._waiting, reply, timeout_ms=request.timeout_ms)


class _Describing:
    """Results for the topics of one request, many of which have the same configs."""

    def __init__(self, config_of: Callable[[TopicImage], TopicConfig], version: int) -> None:
        self._config_of = config_of
        self._version = version
        self._described: dict[tuple[tuple[str, str], ...], list[EncodedStruct]] = {}

    def result_of(self, outcome: TopicImage) -> CreatableTopicResult:
        own = tuple(outcome.configs.items())
        configs = self._described.get(own)
        if configs is None:
            configs = self._described[own] = [
                encode_struct(entry, self._version, within=CreateTopicsResponse)
                for entry in _describe(self._config_of(outcome))
            ]
        return CreatableTopicResult(
            name=outcome.name,
            topic_id=outcome.topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=len(outcome.partitions),
            replication_factor=len(outcome.partitions[0].replicas),
            configs=configs,  # type: ignore[arg-type]  # the codec takes structs that are encoded, too
        )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    assignments = {entry.partition_index: tuple(entry.broker_ids) for entry in topic.assignments}
    return NewTopic(
        topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment=assignments or None,
        configs={entry.name: entry.value for entry in topic.configs},
    )


def _describe(config: TopicConfig) -> list[CreatableTopicConfigs]:
    entries = (config.entry(name) for name in config.definition.keys)
    return [
        CreatableTopicConfigs(
            name=entry.key.name,
            value=None if entry.key.is_sensitive else entry.value,
            read_only=entry.key.dynamic is DynamicMode.READ_ONLY,
            config_source=entry.source,
            is_sensitive=entry.key.is_sensitive,
        )
        for entry in entries
    ]


def _refused(name: str, error_code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error_code, error_message=message)


def refuse_create_topics(request: CreateTopicsRequest) -> CreateTopicsResponse:
    """The answer of a broker that is not the controller."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=[_refused(name, *NOT_CONTROLLER) for name in names])
