"""What the store of a simulation says of topics, looked up from outside: no client, no delay."""

from ottla.coordination import paths
from ottla.core.types import TopicPartition
from ottla.testing.simulation.cluster import SimulatedCluster


def stored_state(cluster: SimulatedCluster, topic_partition: TopicPartition) -> paths.PartitionState | None:
    """None if the store has no such partition, or nobody has elected a leader of it yet."""
    path = paths.partition_state_path(*topic_partition)
    found = cluster.ensemble.tree.get(path)
    return paths.decode_partition_state(path, found.value) if found.is_ok else None


def stored_topic_id(cluster: SimulatedCluster, topic: str) -> bytes | None:
    path = paths.topic_path(topic)
    found = cluster.ensemble.tree.get(path)
    return paths.decode_topic(path, found.value).topic_id if found.is_ok else None
