"""The cluster itself: its brokers, its controller, and the log directories with their replicas."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.clients.cluster import Cluster
from ottla.clients.errors import BrokerError, check
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class BrokerDescription(NamedTuple):
    broker_id: BrokerId
    host: str
    port: int
    rack: str | None


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: BrokerId
    brokers: tuple[BrokerDescription, ...]


class ReplicaSize(NamedTuple):
    """One replica in a log directory; a future one is being moved there from another directory."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirectory(NamedTuple):
    """-1 for sizes that the broker doesn't report."""

    broker_id: BrokerId
    path: str
    error: BrokerError | None
    total_bytes: int
    usable_bytes: int
    replicas: tuple[ReplicaSize, ...]


def describe_cluster(cluster: Cluster) -> ClusterDescription:
    def attempt() -> ClusterDescription:
        answer = cluster.ask_any(DescribeClusterRequest(), DescribeClusterResponse)
        check(answer.error_code, "describing the cluster", answer.error_message)
        brokers = (
            BrokerDescription(broker.broker_id, broker.host, broker.port, broker.rack) for broker in answer.brokers
        )
        return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(sorted(brokers)))

    return cluster.retry(attempt)


def describe_log_dirs(
    cluster: Cluster,
    topic_partitions: Iterable[TopicPartition] | None = None,
    *,
    broker_ids: Iterable[BrokerId] | None = None,
) -> list[LogDirectory]:
    """The log directories of these brokers, or of all, with these partitions, or with all."""
    wanted = None if topic_partitions is None else list(topic_partitions)
    cluster.retry(lambda: cluster.refresh([]))
    found: list[LogDirectory] = []
    for broker_id in sorted(cluster.brokers if broker_ids is None else broker_ids):
        answer = cluster.broker(broker_id).request(_request(wanted), DescribeLogDirsResponse)
        check(answer.error_code, f"log directories of broker {broker_id}")
        for directory in answer.results:
            replicas = tuple(
                ReplicaSize(
                    TopicPartition(topic.name, partition.partition_index),
                    partition.partition_size,
                    partition.offset_lag,
                    partition.is_future_key,
                )
                for topic in directory.topics
                for partition in topic.partitions
            )
            error = None
            if directory.error_code != ErrorCode.NONE:
                error = BrokerError(directory.error_code, f"log directory {directory.log_dir} of broker {broker_id}")
            found.append(
                LogDirectory(
                    broker_id, directory.log_dir, error, directory.total_bytes, directory.usable_bytes, replicas
                )
            )
    return found


def _request(topic_partitions: list[TopicPartition] | None) -> DescribeLogDirsRequest:
    if topic_partitions is None:
        return DescribeLogDirsRequest(topics=None)
    partitions: dict[str, list[int]] = {}
    for topic_partition in topic_partitions:
        partitions.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    topics = [DescribableLogDirTopic(topic=name, partitions=of_topic) for name, of_topic in partitions.items()]
    return DescribeLogDirsRequest(topics=topics)
