"""The eligible replicas of a partition as a node of their own, beside the state that Kafka knows (KIP-966)."""

from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Create, Result, SetValue
from ottla.core.cluster import LossyReplica, PartitionState
from ottla.core.types import BrokerId, TopicPartition


def eligible_writes(
    topic_partition: TopicPartition, state: PartitionState, decided: PartitionState
) -> list[SetValue | Create]:
    """What goes into one multi with the write of the partition's state: the version of that fences this too."""
    if (decided.eligible, decided.lossy) == (state.eligible, state.lossy):
        return []
    path = paths.eligible_path(*topic_partition)
    value = paths.encode_eligible(paths.EligibleReplicas(decided.eligible or (), decided.lossy))
    return [Create(path, value) if state.eligible is None else SetValue(path, value, ANY_VERSION)]


def eligible_of(result: Result) -> tuple[tuple[BrokerId, ...] | None, tuple[LossyReplica, ...]]:
    """Of the node as it was read, if there is one; MalformedNodeError if it makes no sense."""
    if not result.is_ok:
        return None, ()
    node = paths.decode_eligible(result.path, result.value)
    return node.eligible, node.lossy
