"""Validates positions after a change of leader (KIP-320): a position must still be the same record.

Runs in the client loop. After an unclean election a log may have lost its end and got a new one: without validation a
reader at offset 10 could continue at another record with that offset. Batches that were fetched before are read first.
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.clients.consumer.errors import LogTruncation, error_of
from ottla.clients.consumer.reset import NOWHERE, ResetStrategy
from ottla.clients.consumer.subscription import PartitionState, Subscription
from ottla.clients.error_rules import RETRIABLE
from ottla.clients.errors import ClientError, UnsupportedByBroker
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from ottla.links.backoff import Backoff
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

logger: Final = logging.getLogger("ottla.clients")
_CONSUMER: Final = -1  # as a replica id
# Before version 3 only brokers may ask.
_VERSIONS: Final = (3, OffsetForLeaderEpochRequest.VERSIONS[1])
_UNDEFINED_OFFSET: Final[Offset] = -1
# The metadata is out of date, ours or the broker's: look the leader up, ask again.


class Validation:
    """Owned by the consumer's core. `on_valid`: something may be fetched; `on_reset`: a position has to be found."""

    def __init__(
        self,
        network: Network,
        metadata: Metadata,
        subscription: Subscription,
        *,
        reset: ResetStrategy,
        backoff: Backoff,
        on_valid: Callable[[], None],
        on_reset: Callable[[], None],
        on_error: Callable[[ClientError], None],
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._subscription = subscription
        self._reset = reset
        self._backoff = backoff
        self._on_valid = on_valid
        self._on_reset = on_reset
        self._on_error = on_error
        self._is_retry_planned = False

    def is_open(self, state: PartitionState) -> bool:
        """Whether the position is not validated yet, so that nothing may be fetched."""
        epoch = self._metadata.leader_epoch_of(state.topic_partition)
        if epoch <= state.checked_epoch:
            return False
        if state.queued_bytes:
            return True  # the position will move, and only the user's side knows when
        if state.position_epoch in (NO_LEADER_EPOCH, epoch):
            state.checked_epoch = epoch  # nothing to compare, or the record was read from this leader
            return False
        return True

    def advance(self) -> None:
        """Start a validation for every position that needs one and has none in flight."""
        now_ms = self._network.now_ms()
        by_leader: dict[BrokerId, list[PartitionState]] = {}
        for state in self._subscription.states.values():
            if not state.is_fetchable or state.queued_bytes or state.is_checking or not self.is_open(state):
                continue
            leader_id = self._metadata.leader_of(state.topic_partition)
            if state.retry_at_ms > now_ms or leader_id < 0:
                self._retry_later()
            else:
                by_leader.setdefault(leader_id, []).append(state)
        for leader_id, states in by_leader.items():
            self._ask(leader_id, states)

    def _ask(self, leader_id: BrokerId, states: list[PartitionState]) -> None:
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        asked: dict[TopicPartition, tuple[PartitionState, int, LeaderEpoch]] = {}
        for state in states:
            state.is_checking = True
            topic_partition, epoch = state.topic_partition, self._metadata.leader_epoch_of(state.topic_partition)
            asked[topic_partition] = (state, state.seek_count, epoch)
            topics.setdefault(topic_partition.topic, []).append(
                OffsetForLeaderPartition(
                    partition=topic_partition.partition, current_leader_epoch=epoch, leader_epoch=state.position_epoch
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER,
            topics=[OffsetForLeaderTopic(topic=topic, partitions=each) for topic, each in topics.items()],
        )

        def answered(answer: OffsetForLeaderEpochResponse | ClientError) -> None:
            ends = {} if isinstance(answer, ClientError) else _ends_of(answer)
            for topic_partition, (state, seek_count, epoch) in asked.items():
                state.is_checking = False
                if state.is_assigned and state.seek_count == seek_count:
                    self._take(state, epoch, answer if isinstance(answer, ClientError) else ends.get(topic_partition))
            self.advance()
            self._on_valid()

        self._network.request(leader_id, request, answered, versions=_VERSIONS)

    def _take(self, state: PartitionState, epoch: LeaderEpoch, end: EpochEndOffset | ClientError | None) -> None:
        position = state.position
        assert position is not None, "only a seek removes it, and that was checked"
        if isinstance(end, UnsupportedByBroker):
            state.checked_epoch = epoch  # the cluster can't say; a fetch fails if the offset is out of range
        elif end is None or isinstance(end, ClientError) or end.error_code in RETRIABLE:
            self._back_off(state)
            self._metadata.request_update()
        elif end.error_code != ErrorCode.NONE:
            self._back_off(state)
            self._on_error(error_of(end.error_code, f"{state.topic_partition}: is the position {position} still valid"))
        elif position <= end.end_offset and end.leader_epoch != NO_LEADER_EPOCH:
            state.checked_epoch = epoch
            state.failures = 0
        else:
            self._truncated(state, epoch, position, end)

    def _truncated(self, state: PartitionState, epoch: LeaderEpoch, position: Offset, end: EpochEndOffset) -> None:
        is_known = end.end_offset != _UNDEFINED_OFFSET and end.leader_epoch != NO_LEADER_EPOCH
        truncation = LogTruncation(state.topic_partition, position, end.end_offset if is_known else None)
        if self._reset == NOWHERE:
            self._back_off(state)  # found again after each poll, until the user seeks
            self._on_error(truncation)
            return
        logger.warning("%s", truncation)
        if is_known:
            state.seek(end.end_offset, end.leader_epoch)
            state.checked_epoch = epoch
        else:
            state.seek_by(self._reset)
            self._on_reset()

    def _back_off(self, state: PartitionState) -> None:
        state.back_off(self._backoff, self._network.now_ms())
        self._retry_later()

    def _retry_later(self) -> None:
        if self._is_retry_planned:
            return
        self._is_retry_planned = True

        def retry() -> None:
            self._is_retry_planned = False
            self.advance()

        self._network.call_later(max(1, self._backoff.first_ms), retry)


def _ends_of(answer: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEndOffset]:
    return {TopicPartition(topic.topic, end.partition): end for topic in answer.topics for end in topic.partitions}
