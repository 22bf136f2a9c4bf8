"""Topics for administrators: create, describe, add partitions, delete; each topic with its own outcome.

`topics.py` has the few operations that programs need; those raise at the first error.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.clients.admin_retry import OPERATION_TIMEOUT_MS, ask_each, left_out, outcome_of
from ottla.clients.cluster import Cluster
from ottla.clients.errors import BrokerError, check
from ottla.clients.topics import NewTopic, creatable
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId
from ottla.protocol.apis import ApiKey
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

# A request may have several hundred topics; a thousand would keep a broker busy for too long.
_TOPICS_PER_REQUEST: Final = 500


class PartitionDescription(NamedTuple):
    """One partition; None for what the broker doesn't report."""

    partition: int
    leader_id: BrokerId
    leader_epoch: int
    replica_ids: tuple[BrokerId, ...]
    in_sync_ids: tuple[BrokerId, ...]
    offline_ids: tuple[BrokerId, ...]
    eligible_leader_ids: tuple[BrokerId, ...] | None
    last_known_eligible_ids: tuple[BrokerId, ...] | None


class TopicDescription(NamedTuple):
    """A topic of the cluster; its id is None on brokers that are older than topic ids."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class CreatedTopic(NamedTuple):
    """A topic that was created, or with validate-only would be; -1 for what the broker doesn't report."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int


def create_each(
    cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | BrokerError]:
    wanted = {topic.name: topic for topic in topics}

    def attempt(names: list[str]) -> dict[str, CreatedTopic | BrokerError]:
        cluster.refresh([])  # the controller may have changed
        request = CreateTopicsRequest(
            topics=[creatable(wanted[name]) for name in names],
            timeout_ms=OPERATION_TIMEOUT_MS,
            validate_only=validate_only,
        )
        outcomes: dict[str, CreatedTopic | BrokerError] = {name: left_out(f"creating topic {name}") for name in names}
        for result in cluster.ask_controller(request, CreateTopicsResponse).topics:
            created = CreatedTopic(
                result.name, topic_id_text(result.topic_id), result.num_partitions, result.replication_factor
            )
            what = f"creating topic {result.name}"
            outcomes[result.name] = outcome_of(result.error_code, what, result.error_message, created)
        return outcomes

    return ask_each(cluster, wanted, attempt)


def describe_topics(cluster: Cluster, names: Iterable[str] | None = None) -> dict[str, TopicDescription | BrokerError]:
    """These topics, or all; by DescribeTopicPartitions if the broker has it, which also returns eligible leaders."""

    def attempt(wanted: list[str]) -> dict[str, TopicDescription | BrokerError]:
        if cluster.any_broker().serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
            return _by_partition_pages(cluster, wanted)
        return _by_metadata(cluster, wanted)

    if names is None:
        return cluster.retry(lambda: _by_metadata(cluster, None))
    return ask_each(cluster, names, attempt)


def add_partitions(
    cluster: Cluster,
    counts: Mapping[str, int],
    *,
    assignments: Mapping[str, tuple[tuple[BrokerId, ...], ...]] | None = None,
    validate_only: bool = False,
) -> dict[str, int | BrokerError]:
    """Raise topics to these partition counts; `assignments` has the replicas of the new partitions only."""
    placed = assignments or {}

    def attempt(names: list[str]) -> dict[str, int | BrokerError]:
        cluster.refresh([])
        topics = [
            CreatePartitionsTopic(
                name=name,
                count=counts[name],
                assignments=[CreatePartitionsAssignment(broker_ids=list(ids)) for ids in placed[name]]
                if name in placed
                else None,
            )
            for name in names
        ]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=OPERATION_TIMEOUT_MS, validate_only=validate_only)
        outcomes: dict[str, int | BrokerError] = {name: left_out(f"adding partitions to {name}") for name in names}
        for result in cluster.ask_controller(request, CreatePartitionsResponse).results:
            what = f"adding partitions to topic {result.name}"
            outcomes[result.name] = outcome_of(result.error_code, what, result.error_message, counts[result.name])
        return outcomes

    return ask_each(cluster, counts, attempt)


def delete_each(cluster: Cluster, names: Iterable[str]) -> dict[str, BrokerError | None]:
    def attempt(wanted: list[str]) -> dict[str, BrokerError | None]:
        cluster.refresh([])
        states = [DeleteTopicState(name=name) for name in wanted]
        request = DeleteTopicsRequest(topics=states, topic_names=wanted, timeout_ms=OPERATION_TIMEOUT_MS)
        outcomes: dict[str, BrokerError | None] = {name: left_out(f"deleting topic {name}") for name in wanted}
        for result in cluster.ask_controller(request, DeleteTopicsResponse).responses:
            assert result.name is not None, "topics are deleted by name"
            what = f"deleting topic {result.name}"
            outcomes[result.name] = outcome_of(result.error_code, what, result.error_message, None)
        return outcomes

    return ask_each(cluster, names, attempt)


def topic_id_text(topic_id: bytes) -> str | None:
    """As Kafka writes a uuid: URL-safe base64 without padding."""
    return None if topic_id == ZERO_UUID else urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def _by_partition_pages(cluster: Cluster, names: list[str]) -> dict[str, TopicDescription | BrokerError]:
    outcomes: dict[str, TopicDescription | BrokerError] = {name: _unknown(name) for name in names}
    ordered = sorted(names)  # the broker returns them in this order, and its cursor refers to it
    for start in range(0, len(ordered), _TOPICS_PER_REQUEST):
        asked = ordered[start : start + _TOPICS_PER_REQUEST]
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in asked], cursor=cursor)
            answer = cluster.ask_any(request, DescribeTopicPartitionsResponse)
            for topic in answer.topics:
                _take_page(outcomes, topic)
            cursor = answer.next_cursor
            if cursor is None:
                break
            asked = [name for name in asked if name >= cursor.topic_name]
    return outcomes


def _take_page(
    outcomes: dict[str, TopicDescription | BrokerError], topic: DescribeTopicPartitionsResponseTopic
) -> None:
    name = topic.name
    assert name is not None, "topics are asked for by name"
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return
    if topic.error_code != ErrorCode.NONE:
        outcomes[name] = BrokerError(topic.error_code, f"describing topic {name}")
        return
    partitions = tuple(
        PartitionDescription(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            _ids(partition.eligible_leader_replicas),
            _ids(partition.last_known_elr),
        )
        for partition in topic.partitions
    )
    earlier = outcomes[name]
    if isinstance(earlier, TopicDescription):  # the topic continues from the page before
        merged = {partition.partition: partition for partition in (*earlier.partitions, *partitions)}
        outcomes[name] = earlier._replace(partitions=tuple(merged[number] for number in sorted(merged)))
    else:
        identity = topic_id_text(topic.topic_id)
        outcomes[name] = TopicDescription(name, identity, topic.is_internal, tuple(sorted(partitions)))


def _by_metadata(cluster: Cluster, names: list[str] | None) -> dict[str, TopicDescription | BrokerError]:
    asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    answer = cluster.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=False), MetadataResponse)
    check(answer.error_code, "metadata")
    outcomes: dict[str, TopicDescription | BrokerError] = {name: _unknown(name) for name in names or ()}
    for topic in answer.topics:
        name = topic.name
        assert name is not None, "topics are asked for by name"
        if topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            outcomes[name] = _described(name, topic)
        elif topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            outcomes[name] = BrokerError(topic.error_code, f"describing topic {name}")
    return outcomes


def _described(name: str, topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(
        PartitionDescription(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            None,
            None,
        )
        for partition in topic.partitions
    )
    return TopicDescription(name, topic_id_text(topic.topic_id), topic.is_internal, tuple(partitions))


def _unknown(name: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}", "no such topic")


def _ids(broker_ids: list[int] | None) -> tuple[BrokerId, ...] | None:
    return None if broker_ids is None else tuple(broker_ids)
