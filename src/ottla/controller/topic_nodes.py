"""A topic as nodes of the coordination store: what is written when it is made, when it grows, when it goes."""

from collections.abc import Mapping

from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Create, Delete, SetValue, Write
from ottla.core.cluster import PartitionState, TopicImage


def creation_of(image: TopicImage, controller_epoch: int) -> list[Write]:
    assignment = {index: state.replicas for index, state in image.partitions.items()}
    return [
        Create(paths.config_path("topics", image.name), paths.encode_config(image.configs)),
        Create(paths.topic_path(image.name), paths.encode_topic(paths.TopicAssignment(image.topic_id, assignment))),
        Create(paths.topic_partitions_path(image.name), b""),
        *_partition_nodes(image.name, image.partitions, controller_epoch),
    ]


def addition_of(
    name: str,
    assigned: paths.TopicAssignment,
    added: Mapping[int, PartitionState],
    *,
    controller_epoch: int,
    version: int,
) -> list[Write]:
    """More partitions for the topic whose node had `assigned` at `version`: of two additions only one finds that."""
    partitions = {**assigned.partitions, **{index: state.replicas for index, state in added.items()}}
    grown = assigned._replace(partitions=partitions)
    return [
        SetValue(paths.topic_path(name), paths.encode_topic(grown), version),
        *_partition_nodes(name, added, controller_epoch),
    ]


def removal_of(image: TopicImage) -> list[Write]:
    name = image.name
    writes: list[Write] = []
    for index in image.partitions:
        writes.append(Delete(paths.partition_state_path(name, index), ANY_VERSION))
        writes.append(Delete(paths.partition_path(name, index), ANY_VERSION))
    writes.append(Delete(paths.topic_partitions_path(name), ANY_VERSION))
    writes.append(Delete(paths.topic_path(name), ANY_VERSION))
    writes.append(Delete(paths.config_path("topics", name), ANY_VERSION))
    writes.append(Delete(paths.delete_topic_path(name), ANY_VERSION))
    return writes


def _partition_nodes(name: str, partitions: Mapping[int, PartitionState], controller_epoch: int) -> list[Write]:
    writes: list[Write] = []
    for index, state in partitions.items():
        writes.append(Create(paths.partition_path(name, index), b""))
        node = paths.PartitionState(state.leader, state.leader_epoch, state.isr, controller_epoch=controller_epoch)
        writes.append(Create(paths.partition_state_path(name, index), paths.encode_partition_state(node)))
    return writes
