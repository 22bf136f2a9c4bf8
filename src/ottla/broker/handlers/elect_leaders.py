"""ElectLeaders 0-2: the preferred leader, or from version 1 on any at all, for named partitions or all of them."""

from collections.abc import Collection

from ottla.broker.api import RequestContext
from ottla.broker.handlers.controller_only import NOT_CONTROLLER
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.leader_elections import ElectionType, decide_election
from ottla.controller.topic_faults import TopicFault
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from ottla.replication.replicas import Replicas


class ElectLeadersHandler:
    def __init__(self, cache: MetadataCache, replicas: Replicas) -> None:
        self._cache = cache
        self._replicas = replicas

    def handle(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
        named = request.topic_partitions
        if named is not None and not named:
            return ElectLeadersResponse()  # whatever its type: it names no partition
        try:
            election_type = ElectionType(request.election_type)
        except ValueError:
            message = f"there is no election type {request.election_type}"
            return _refuse(request, TopicFault(ErrorCode.INVALID_REQUEST, message))
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


def _result_of(name: str, outcomes: list[tuple[int, TopicFault]]) -> ReplicaElectionResult:
    return ReplicaElectionResult(
        topic=name,
        partition_result=[
            PartitionResult(partition_id=partition, error_code=code, error_message=message)
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
