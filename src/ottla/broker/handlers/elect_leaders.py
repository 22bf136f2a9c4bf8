"""ElectLeaders 0-2: the preferred leader, or from version 1 on any at all, for named partitions or all of them."""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.api import Reply, RequestContext
from ottla.broker.handlers.controller_only import NOT_CONTROLLER
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.topic_changes import TIMED_OUT, TIMED_OUT_MESSAGE, TopicChanges
from ottla.controller.leader_elections import ElectionType, decide_election
from ottla.controller.topic_faults import TopicFault
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from ottla.replication.replicas import Replicas

if TYPE_CHECKING:
    from ottla.controller.leader_requests import ElectionOutcomes
    from ottla.controller.partition_decisions import Strategy

# `Controller.elect_leaders`
ElectLeaders: TypeAlias = (
    "Callable[[Strategy, list[TopicPartition] | None, Callable[[ElectionOutcomes | TopicFault], None]], None]"
)
_ELECTED: Final = TopicFault(ErrorCode.NONE, "")


class ElectLeadersHandler:
    def __init__(self, cache: MetadataCache, replicas: Replicas, elect: "ElectLeaders | None") -> None:
        """`elect` has the controller elect; None: this broker is alone, and no leadership can change hands."""
        self._cache = cache
        self._replicas = replicas
        self._elect_in_cluster = elect

    def handle(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse | Reply:
        named = request.topic_partitions
        if named is not None and not named:
            return ElectLeadersResponse()  # whatever its type: it names no partition
        try:
            election_type = ElectionType(request.election_type)
        except ValueError:
            message = f"there is no election type {request.election_type}"
            return _refuse(request, TopicFault(ErrorCode.INVALID_REQUEST, message))
        if self._elect_in_cluster is not None:
            return self._elect_by_controller(request, election_type, self._elect_in_cluster, context)
        if named is None:
            return ElectLeadersResponse(replica_election_results=self._elect_all(election_type))
        results = [
            _result_of(
                topic.topic,
                [(partition, self._elect(topic.topic, partition, election_type)) for partition in topic.partitions],
            )
            for topic in named
        ]
        return ElectLeadersResponse(replica_election_results=results)

    def _elect_by_controller(
        self, request: ElectLeadersRequest, election_type: ElectionType, elect: "ElectLeaders", context: RequestContext
    ) -> Reply:
        from ottla.controller.partition_decisions import Strategy

        named = request.topic_partitions
        partitions = None
        if named is not None:
            partitions = [TopicPartition(topic.topic, partition) for topic in named for partition in topic.partitions]
        reply = context.defer()
        response = _refuse(request, TopicFault(TIMED_OUT, TIMED_OUT_MESSAGE))
        changes = TopicChanges(1, lambda: reply.send(response))

        def on_elected(outcomes: "ElectionOutcomes | TopicFault") -> None:
            nonlocal response
            if isinstance(outcomes, TopicFault):
                response = _refuse(request, outcomes)
            else:
                # As Kafka: where all are asked for, every topic is named.
                names = self._cache.topics if named is None else [topic.topic for topic in named]
                response = _response_of(names, outcomes)
            changes.settle()

        strategy = Strategy.UNCLEAN if election_type == ElectionType.UNCLEAN else Strategy.PREFERRED
        elect(strategy, partitions, on_elected)
        return changes.wait(self._replicas.waiting, reply, timeout_ms=request.timeout_ms)

    def _elect_all(self, election_type: ElectionType) -> list[ReplicaElectionResult]:
        """Every topic is named, as Kafka does, but of its partitions only those where there was something to do."""
        results = []
        for name, image in self._cache.topics.items():
            outcomes = [(partition, self._elect(name, partition, election_type)) for partition in image.partitions]
            shown = [outcome for outcome in outcomes if outcome[1].error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(_result_of(name, shown))
        return results

    def _elect(self, name: str, partition: int, election_type: ElectionType) -> TopicFault:
        image = self._cache.topics.get(name)
        return decide_election(image, name, partition, election_type, able=self._able_brokers(name, partition))

    def _able_brokers(self, name: str, partition: int) -> Collection[BrokerId]:
        live = self._cache.brokers
        if self._replicas.find(name, partition) == ErrorCode.KAFKA_STORAGE_ERROR:  # its directory is offline here
            return [broker_id for broker_id in live if broker_id != self._replicas.broker_id]
        return live


def _response_of(names: Iterable[str], outcomes: "ElectionOutcomes") -> ElectLeadersResponse:
    by_topic: dict[str, list[tuple[int, TopicFault]]] = {name: [] for name in names}
    for (name, partition), fault in outcomes.items():
        by_topic.setdefault(name, []).append((partition, fault or _ELECTED))
    return ElectLeadersResponse(
        replica_election_results=[_result_of(name, results) for name, results in by_topic.items()]
    )


def _result_of(name: str, outcomes: list[tuple[int, TopicFault]]) -> ReplicaElectionResult:
    return ReplicaElectionResult(
        topic=name,
        partition_result=[
            PartitionResult(partition_id=partition, error_code=code, error_message=message or None)
            for partition, (code, message) in outcomes
        ],
    )


def refuse_elect_leaders(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """The answer of a broker that is not the controller."""
    return _refuse(request, NOT_CONTROLLER)


def _refuse(request: ElectLeadersRequest, fault: TopicFault) -> ElectLeadersResponse:
    """The whole request, and each partition that it names: the answer has no message of its own."""
    topics: list[TopicPartitions] = request.topic_partitions or []
    return ElectLeadersResponse(
        error_code=fault.error_code,
        replica_election_results=[
            _result_of(topic.topic, [(partition, fault) for partition in topic.partitions]) for topic in topics
        ],
    )
