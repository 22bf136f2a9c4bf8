"""The content of an answer to Metadata: brokers with addresses, topics with partitions and leaders."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.core.types import NO_LEADER_EPOCH, BrokerId, LeaderEpoch
from ottla.links.addresses import Address
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_LEADER: Final[BrokerId] = -1


class PartitionInfo(NamedTuple):
    partition: int
    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    replica_ids: tuple[BrokerId, ...]
    in_sync_ids: tuple[BrokerId, ...]


class TopicInfo(NamedTuple):
    topic_id: bytes
    is_internal: bool
    partitions: dict[int, PartitionInfo]


def addresses_in(answer: MetadataResponse) -> dict[BrokerId, Address]:
    return {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}


def topic_info(topic: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    """A topic in the answer; a partition with an older leader epoch keeps what was known (KIP-320)."""
    is_same = known is not None and known.topic_id == topic.topic_id
    partitions: Mapping[int, PartitionInfo] = known.partitions if known is not None and is_same else {}
    taken: dict[int, PartitionInfo] = {}
    for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
        before = partitions.get(partition.partition_index)
        if before is not None and NO_LEADER_EPOCH < partition.leader_epoch < before.leader_epoch:
            taken[before.partition] = before
            continue
        taken[partition.partition_index] = PartitionInfo(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
        )
    return TopicInfo(topic.topic_id, topic.is_internal, taken)
