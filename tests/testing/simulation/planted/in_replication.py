"""Bugs of leaders and followers: the in-sync replicas, the high watermark, acknowledgements, truncation.

Each function plants one; its docstring says what it breaks. A real broker has none of them.
"""

from typing import Any

import pytest

from ottla.broker import follower_read
from ottla.broker.isr_store import IsrStore
from ottla.coordination.store import ANY_VERSION, Result, SetValue
from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset
from ottla.protocol.fetch_codec import EpochEndOffset, FetchPartition
from ottla.replication.acks_wait import AcksWait
from ottla.replication.delayed_produce import DelayedProduce
from ottla.replication.fetcher import ReplicaFetcher
from ottla.replication.followed_partition import FollowedPartition
from ottla.replication.isr import InSyncReplicas, LeaderEnds
from ottla.replication.partition import Partition
from ottla.replication.ports import IsrRefused
from ottla.replication.replicas import Replicas

# Acknowledgements


def wait_for_acks_is_not_pinned_to_its_epoch(patch: pytest.MonkeyPatch) -> None:
    """A wait outlives the leadership: in a later epoch the same offset holds another batch, and acknowledges it."""

    def maybe_settle(self: Partition, wait: AcksWait) -> bool:
        if self.high_watermark >= wait.next_offset:
            wait.error_code = ErrorCode.NONE
            return True
        return False

    patch.setattr(Partition, "maybe_settle", maybe_settle)


def acks_all_is_answered_with_the_leaders_own_append(patch: pytest.MonkeyPatch) -> None:
    """Nobody but the leader has what it acknowledged."""
    append = Partition.append

    def append_and_acknowledge(self: Partition, *arguments: Any, **named: Any) -> Any:
        return append(self, *arguments, **named)[0], None

    patch.setattr(Partition, "append", append_and_acknowledge)


def duplicate_is_acknowledged_at_once(patch: pytest.MonkeyPatch) -> None:
    """A batch that is sent again is acknowledged because it is in the leader's log, though nobody else has it yet."""
    append = Partition.append

    def append_and_acknowledge(self: Partition, *arguments: Any, **named: Any) -> Any:
        info, wait = append(self, *arguments, **named)
        return info, None if info.is_duplicate else wait

    patch.setattr(Partition, "append", append_and_acknowledge)


def produce_that_timed_out_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    """What the replicas did not take in time is answered as if they had."""
    on_complete = DelayedProduce.on_complete

    def complete(self: DelayedProduce) -> None:
        for wait in self.waits:
            if wait.error_code == ErrorCode.REQUEST_TIMED_OUT:
                wait.error_code = ErrorCode.NONE
        on_complete(self)

    patch.setattr(DelayedProduce, "on_complete", complete)


def follower_acknowledges_what_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    """A follower tells its log's end as its durable offset: a loss of power takes what was acknowledged."""
    refresh = FollowedPartition.refresh

    def refresh_without_durable_offset(self: FollowedPartition) -> bool:
        refresh(self)
        self.wanted = self.wanted._replace(durable_offset=-1)
        return self.wanted != self.sent

    patch.setattr(FollowedPartition, "refresh", refresh_without_durable_offset)


# In-sync replicas


def removal_counts_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """The high watermark passes a replica that the store still has as in sync, and that may be elected."""

    def smallest_durable_end(self: InSyncReplicas, state: PartitionState, ends: LeaderEnds, *, now_ms: int) -> Offset:
        isr = state.isr if self._write is None else self._write.state.isr
        known = [progress.durable_end_offset for follower, progress in self.followers.items() if follower in isr]
        return min([ends.durable_end_offset, *known])

    patch.setattr(InSyncReplicas, "smallest_durable_end", smallest_durable_end)


def removal_is_not_written(patch: pytest.MonkeyPatch) -> None:
    """A leader leaves out who lags without telling the store, which may have it elected."""
    smallest = InSyncReplicas.smallest_durable_end

    def smallest_durable_end(self: InSyncReplicas, state: PartitionState, ends: LeaderEnds, *, now_ms: int) -> Offset:
        caught_up = [
            follower
            for follower, progress in self.followers.items()
            if progress.is_caught_up(ends.log_end_offset, now_ms=now_ms, lag_time_max_ms=self._ports.lag_time_max_ms)
        ]
        isr = tuple(one for one in state.isr if one == self._broker_id or one in caught_up)
        return smallest(self, state._replace(isr=isr), ends, now_ms=now_ms)

    patch.setattr(InSyncReplicas, "smallest_durable_end", smallest_durable_end)


def addition_counts_late(patch: pytest.MonkeyPatch) -> None:
    """The high watermark passes a replica while the store is about to have it as in sync."""

    def smallest_durable_end(self: InSyncReplicas, state: PartitionState, ends: LeaderEnds, *, now_ms: int) -> Offset:
        known = [progress.durable_end_offset for follower, progress in self.followers.items() if follower in state.isr]
        return min([ends.durable_end_offset, *known])

    patch.setattr(InSyncReplicas, "smallest_durable_end", smallest_durable_end)


def isr_write_has_no_version(patch: pytest.MonkeyPatch) -> None:
    """A leader that was deposed writes its state over that of the next one."""

    def write(self: IsrStore, change: Any, version: int) -> None:
        writes = [*change.checks, SetValue(change.path, change.value, ANY_VERSION)]
        self._store.multi(writes, lambda result: self._on_written(change, version, result))

    patch.setattr(IsrStore, "_write", write)


def lost_answer_counts_as_not_written(patch: pytest.MonkeyPatch) -> None:
    """The store has replicas as in sync that the leader does not count: they may be elected."""
    on_written = IsrStore._on_written

    def refuse(self: IsrStore, change: Any, version: int, result: Result) -> None:
        if result.is_ok:
            on_written(self, change, version, result)
        else:
            change.on_done(IsrRefused("no answer"))

    patch.setattr(IsrStore, "_on_written", refuse)


def follower_joins_before_it_has_caught_up(patch: pytest.MonkeyPatch) -> None:
    """Whoever fetches is in sync, and may be elected with a part of what was acknowledged."""
    next_write = InSyncReplicas._next_write

    def write_too_early(self: InSyncReplicas, state: PartitionState, ends: LeaderEnds, *some: Any, **named: Any) -> Any:
        return next_write(self, state, ends._replace(high_watermark=-1, epoch_start_offset=-1), *some, **named)

    patch.setattr(InSyncReplicas, "_next_write", write_too_early)


# The high watermark


def high_watermark_is_restored_too_high(patch: pytest.MonkeyPatch) -> None:
    """After a start all that is in the log counts as committed, and is read before it is."""

    def restore_high_watermark(self: Partition, checkpointed: Offset | None) -> None:
        self.high_watermark = self.log.log_end_offset

    patch.setattr(Partition, "restore_high_watermark", restore_high_watermark)


def high_watermark_of_a_new_leader_is_its_log_end(patch: pytest.MonkeyPatch) -> None:
    """All that a new leader has counts as committed, before any follower was heard of."""
    become_leader = Partition.become_leader

    def lead_with_all(self: Partition, state: PartitionState, *, now_ms: int) -> None:
        become_leader(self, state, now_ms=now_ms)
        self.high_watermark = self.log.log_end_offset

    patch.setattr(Partition, "become_leader", lead_with_all)


def high_watermark_goes_back(patch: pytest.MonkeyPatch) -> None:
    """A leader takes whatever its followers say as the high watermark, also less than before."""

    def maybe_advance_high_watermark(self: Partition) -> bool:
        if not self.is_led_here or self._leading is None:
            return False
        before, self.high_watermark = self.high_watermark, max(self._leading.committed_end_offset(), 0)
        return self.high_watermark > before

    patch.setattr(Partition, "maybe_advance_high_watermark", maybe_advance_high_watermark)


def reads_go_beyond_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Consumers see what is not committed, and may be taken back."""

    def read(self: Partition, offset: Offset, *, max_bytes: int, at_least_one: bool) -> Any:
        return self.log.read(offset, max_bytes=max_bytes, at_least_one=at_least_one)

    patch.setattr(Partition, "read", read)


def deposed_leader_answers_fetches(patch: pytest.MonkeyPatch) -> None:
    """A replica that no longer leads answers consumers, whatever it has."""
    find = Replicas.find

    def find_any(self: Replicas, topic: str, partition: int) -> Partition | ErrorCode:
        found = self.partitions.get((topic, partition))
        return find(self, topic, partition) if found is None or found.is_offline else found

    patch.setattr(Replicas, "find", find_any)


# Truncation


def leader_does_not_compare_histories(patch: pytest.MonkeyPatch) -> None:
    """Truncation is skipped: a follower keeps what another leader gave it, and fetches on behind it."""

    def diverging_epoch_of(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | ErrorCode | None:
        return ErrorCode.OFFSET_OUT_OF_RANGE if wanted.fetch_offset < partition.log.log_start_offset else None

    patch.setattr(follower_read, "diverging_epoch_of", diverging_epoch_of)


def follower_truncates_to_its_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-101: what was acknowledged is cut off where the follower had not heard yet that it was."""
    add = ReplicaFetcher.add

    def truncate_and_add(self: ReplicaFetcher, partition: Partition, *, leader_epoch: int) -> None:
        if partition.high_watermark < partition.log.log_end_offset:
            partition.log.lower_recovery_point(partition.high_watermark)
            partition.truncate_to(partition.high_watermark)
        add(self, partition, leader_epoch=leader_epoch)

    patch.setattr(ReplicaFetcher, "add", truncate_and_add)
