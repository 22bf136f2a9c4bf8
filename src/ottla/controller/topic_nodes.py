"""A topic as nodes of the coordination store: what is written when it is made, when it grows, when it goes."""

from collections.abc import Mapping

from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Create, Delete, SetValue, Write
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.types import NO_LEADER_EPOCH


def new_node(image: TopicImage) -> bytes:
    """What the topic's own node has."""
    assignment = {partition: state.replicas for partition, state in image.partitions.items()}
    return paths.encode_topic(paths.TopicAssignment(image.topic_id, assignment))


def creation_of(image: TopicImage, value: bytes, *, controller_epoch: int) -> list[Write]:
    """All nodes of a topic whose own node gets `value`; a partition without a leader has none yet."""
    nodes = _partition_nodes(image.name, image.partitions, controller_epoch)
    return [
        Create(paths.config_path("topics", image.name), paths.encode_config(image.configs)),
        Create(paths.topic_path(image.name), value),
        *([Create(paths.topic_partitions_path(image.name), b"")] if nodes else []),
        *nodes,
    ]


def grown_node(assigned: paths.TopicAssignment, added: Mapping[int, PartitionState]) -> bytes:
    """What the topic's node has when `added` is there too."""
    partitions = {**assigned.partitions, **{partition: state.replicas for partition, state in added.items()}}
    return paths.encode_topic(assigned._replace(partitions=partitions))


def addition_of(
    name: str, value: bytes, added: Mapping[int, PartitionState], *, controller_epoch: int, version: int
) -> list[Write]:
    """More partitions for a topic: its node had `version` and gets `value`. Of two additions only one finds that."""
    return [
        SetValue(paths.topic_path(name), value, version),
        *_partition_nodes(name, added, controller_epoch),
    ]


def removal_of(image: TopicImage) -> list[Write]:
    name = image.name
    writes: list[Write] = []
    for partition in image.partitions:
        writes.append(Delete(paths.partition_state_path(name, partition), ANY_VERSION))
        writes.append(Delete(paths.partition_path(name, partition), ANY_VERSION))
    writes.append(Delete(paths.topic_partitions_path(name), ANY_VERSION))
    writes.append(Delete(paths.topic_path(name), ANY_VERSION))
    writes.append(Delete(paths.config_path("topics", name), ANY_VERSION))
    writes.append(Delete(paths.delete_topic_path(name), ANY_VERSION))
    return writes


def removal_of_rest(name: str) -> list[Write]:
    """The same for a topic whose partitions and config were removed before (`NodeRemoval`)."""
    return [Delete(paths.topic_path(name), ANY_VERSION), Delete(paths.delete_topic_path(name), ANY_VERSION)]


def _partition_nodes(name: str, partitions: Mapping[int, PartitionState], controller_epoch: int) -> list[Write]:
    writes: list[Write] = []
    for partition, state in partitions.items():
        if state.leader_epoch == NO_LEADER_EPOCH:
            continue
        writes.append(Create(paths.partition_path(name, partition), b""))
        node = paths.PartitionState(state.leader, state.leader_epoch, state.isr, controller_epoch=controller_epoch)
        writes.append(Create(paths.partition_state_path(name, partition), paths.encode_partition_state(node)))
    return writes
