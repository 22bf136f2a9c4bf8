"""Administration of topics: create, list, delete, delete records.

Each function is one operation on a `Cluster`, retried while errors are retriable.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.clients.cluster import Cluster
from ottla.clients.errors import BrokerError, check
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

EARLIEST: Final = -2
LATEST: Final = -1
USE_BROKER_DEFAULT: Final = -1
OPERATION_TIMEOUT_MS: Final = 30_000


class NewTopic(NamedTuple):
    """A topic to create; -1 takes the broker's default."""

    name: str
    partitions: int = USE_BROKER_DEFAULT
    replication_factor: int = USE_BROKER_DEFAULT
    configs: tuple[tuple[str, str], ...] = ()
    assignments: tuple[tuple[BrokerId, ...], ...] = ()  # the replicas of each partition, instead of the two counts


def create_topics(cluster: Cluster, topics: Iterable[NewTopic], *, keep_existing: bool = False) -> list[str]:
    """Create topics; returns the names of new ones. An existing topic is an error unless `keep_existing`."""
    wanted = list(topics)

    def attempt() -> list[str]:
        request = CreateTopicsRequest(topics=[creatable(topic) for topic in wanted], timeout_ms=OPERATION_TIMEOUT_MS)
        answer = cluster.ask_controller(request, CreateTopicsResponse)
        created = []
        for result in answer.topics:
            if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and keep_existing:
                continue
            check(result.error_code, f"creating topic {result.name}", result.error_message)
            created.append(result.name)
        return created

    return cluster.retry(attempt)


def wait_for_leaders(cluster: Cluster, topics: Iterable[str]) -> None:
    """Wait until every partition of these topics has a leader; new topics need a moment."""
    names = list(topics)

    def attempt() -> None:
        cluster.refresh(names)
        for name in names:
            partitions = cluster.partitions_of(name).values()
            if not partitions or any(partition.leader_id < 0 for partition in partitions):
                raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name}")

    cluster.retry(attempt)


def list_topics(cluster: Cluster) -> list[str]:
    """The names of all topics, sorted."""
    cluster.retry(cluster.refresh)
    return sorted(cluster.topics)


def delete_topics(cluster: Cluster, names: Iterable[str]) -> None:
    wanted = list(names)

    def attempt() -> None:
        states = [DeleteTopicState(name=name) for name in wanted]
        request = DeleteTopicsRequest(topics=states, topic_names=wanted, timeout_ms=OPERATION_TIMEOUT_MS)
        for result in cluster.ask_controller(request, DeleteTopicsResponse).responses:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # Not retried here, though the code is retriable elsewhere.
                raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"deleting topic {result.name}", "no such topic")
            check(result.error_code, f"deleting topic {result.name}", result.error_message)

    cluster.retry(attempt)


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
    """Delete all records before these offsets; returns the new log start offset of each partition."""

    def attempt() -> dict[TopicPartition, Offset]:
        first_offsets = {}
        for broker_id, topic_partitions in _by_leader(cluster, before).items():
            topics = [
                DeleteRecordsTopic(
                    name=name,
                    partitions=[
                        DeleteRecordsPartition(partition_index=p.partition, offset=before[p]) for p in of_topic
                    ],
                )
                for name, of_topic in _by_topic(topic_partitions).items()
            ]
            request = DeleteRecordsRequest(topics=topics, timeout_ms=OPERATION_TIMEOUT_MS)
            for topic in cluster.broker(broker_id).request(request, DeleteRecordsResponse).topics:
                for result in topic.partitions:
                    topic_partition = TopicPartition(topic.name, result.partition_index)
                    check(result.error_code, f"{topic_partition}: deleting records")
                    first_offsets[topic_partition] = result.low_watermark
        return first_offsets

    return cluster.retry(attempt)


def creatable(topic: NewTopic) -> CreatableTopic:
    """A topic in the form of the request."""
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(broker_ids))
            for partition, broker_ids in enumerate(topic.assignments)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )


def _by_leader(cluster: Cluster, topic_partitions: Iterable[TopicPartition]) -> dict[BrokerId, list[TopicPartition]]:
    """Partitions grouped by leader, from new metadata: an attempt after a failure must see the new leader."""
    wanted = list(topic_partitions)
    cluster.refresh(sorted({topic_partition.topic for topic_partition in wanted}))
    grouped: dict[BrokerId, list[TopicPartition]] = {}
    for topic_partition in wanted:
        leader_id = cluster.leader_of(topic_partition)
        if leader_id < 0:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, str(topic_partition))
        grouped.setdefault(leader_id, []).append(topic_partition)
    return grouped


def _by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for topic_partition in topic_partitions:
        grouped.setdefault(topic_partition.topic, []).append(topic_partition)
    return grouped
