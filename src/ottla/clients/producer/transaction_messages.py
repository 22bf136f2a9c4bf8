"""The requests of a transaction, and where their answers have errors. The versions add partitions explicitly (KIP-98),
which every cluster with transactions supports.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
from ottla.clients.producer.identity import Identity
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

INIT_VERSIONS: Final = (0, 5)
ADD_PARTITIONS_VERSIONS: Final = (0, 3)  # later ones are between brokers
ADD_OFFSETS_VERSIONS: Final = (0, 4)
END_VERSIONS: Final = (0, 4)  # from 5 on partitions are added implicitly (KIP-890)
OFFSET_COMMIT_VERSIONS: Final = (0, 4)


class TransactionMessages:
    """Uses the producer id and epoch at the time when it creates a message."""

    def __init__(self, transactional_id: str, identity: Identity, *, timeout_ms: int) -> None:
        self._id = transactional_id
        self._identity = identity
        self._timeout_ms = timeout_ms

    def init_producer_id(self) -> InitProducerIdRequest:
        """With the current id and epoch: the coordinator then raises the epoch (KIP-360)."""
        return InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
        )

    def add_partitions(self, topic_partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        topics: dict[str, list[int]] = {}
        for topic_partition in sorted(topic_partitions):
            topics.setdefault(topic_partition.topic, []).append(topic_partition.partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=partitions) for name, partitions in topics.items()
            ],
        )

    def add_offsets(self, group_id: str) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            group_id=group_id,
        )

    def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> TxnOffsetCommitRequest:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for topic_partition, offset in sorted(offsets.items()):
            topics.setdefault(topic_partition.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=topic_partition.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=listed) for name, listed in topics.items()],
        )

    def end(self, *, is_commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            committed=is_commit,
        )


def top_error(answer: Any) -> int:
    return int(answer.error_code)


def error_of_partitions(answer: Any) -> int:
    """OPERATION_NOT_ATTEMPTED only says that another partition failed."""
    codes = [
        result.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    return _first_error(code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED)


def error_of_offsets(answer: Any) -> int:
    return _first_error(partition.error_code for topic in answer.topics for partition in topic.partitions)


def _first_error(codes: Iterable[int]) -> int:
    return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)
