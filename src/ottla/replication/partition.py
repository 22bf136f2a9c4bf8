"""One replica of one partition: what it appends and reads as leader or follower, and its high watermark.

Owned by `Replicas`; touched on the event loop only. It decides what may be appended and when that is acknowledged, and
sets in motion what follows. It knows its log and its replicas, and nothing of requests.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from ottla.core.cluster import INTERNAL_TOPICS, PartitionState
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TimestampMs, TopicPartition
from ottla.records.header import TRANSACTIONAL_MASK
from ottla.records.validate import ProduceFault
from ottla.replication.acks_wait import AcksWait
from ottla.replication.ports import PartitionPorts
from ottla.replication.refusals import (
    ATTRIBUTES_POSITION,
    refused,
    refused_by_batch_or_replicas,
    refused_by_partition,
)
from ottla.storage.leader_epochs import EpochEnd
from ottla.storage.log import Log
from ottla.storage.log_config import NEVER, LogConfig
from ottla.storage.log_results import AppendInfo, LogRead

if TYPE_CHECKING:  # a broker alone never imports them
    from ottla.replication.follower_fetches import FollowerFetches
    from ottla.replication.follower_progress import FollowerProgress
    from ottla.replication.leading import Leading

ACKS_ALL = -1
NEWEST_PRODUCE_VERSION = 32767

_NONE = ErrorCode.NONE


# What the log says of the batch or why it was refused; and what is to be waited for, if anything is.
AppendResult: TypeAlias = tuple[AppendInfo, AcksWait | None]


class Partition:
    """The replica of this broker; `state` says whether it leads.

    The high watermark is the smallest durable end offset of the in-sync replicas. With `flush.messages=N` at most N-1
    acknowledged messages may be missing from the platter, so a replica's durable end is `recovery_point + N - 1`, cut
    at the log's end. With N=1 that is group commit: what is not fsynced does not count.
    """

    __slots__ = (
        "_broker_id",
        "_counts_at_once",
        "_fetches",
        "_is_internal",
        "_judged_config",
        "_judged_state",
        "_leading",
        "_ports",
        "_takes_acks_all",
        "_takes_appends",
        "high_watermark",
        "is_offline",
        "log",
        "state",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: bytes,
        log: Log,
        state: PartitionState,
        ports: PartitionPorts,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.state = state  # replaced by `Replicas.apply_state`, which ends the waits that it decides
        self.high_watermark: Offset = log.log_start_offset
        self.is_offline = False  # its log directory failed: nothing is read or written any more
        self._broker_id = ports.broker_id
        self._is_internal = topic_partition.topic in INTERNAL_TOPICS
        self._fetches = ports.fetches
        self._ports = ports
        self._leading: Leading | None = None  # from the first time on that it leads with followers
        self._judge(state, log.config)

    @property
    def durable_end_offset(self) -> Offset:
        """The offset up to which this broker's copy is as durable as its flush mode says."""
        log = self.log
        flush_messages = log.config.flush_messages
        if flush_messages == NEVER:
            return log.log_end_offset
        return min(log.log_end_offset, log.recovery_point + flush_messages - 1)

    @property
    def low_watermark(self) -> Offset:
        """The smallest start of the log among the live replicas: below it nothing is left anywhere."""
        return self.log.log_start_offset if self._leading is None else self._leading.low_watermark()

    @property
    def last_stable_offset(self) -> Offset:
        """The end of what a read-committed consumer may see; no transaction is ever open here."""
        return self.high_watermark

    def check_leader_epoch(self, epoch: LeaderEpoch) -> ErrorCode:
        """Compare the epoch that a client believes in with ours; -1 means that it has none."""
        if epoch < 0 or epoch == self.state.leader_epoch:
            return ErrorCode.NONE
        if epoch < self.state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        """Where a leader epoch ends in this log, as of its leader.

        A sole replica notes its epoch with the first append of it: until then the epoch begins at the log's end.
        """
        log = self.log
        latest, current = log.leader_epochs.latest_epoch, self.state.leader_epoch
        if latest < epoch <= current:
            return EpochEnd(epoch if epoch == current or latest < 0 else latest, log.log_end_offset)
        return log.leader_epochs.end_offset_of(epoch, log_end_offset=log.log_end_offset)

    # Appending

    def append(
        self,
        records: memoryview | ProduceFault | None,
        *,
        acks: int,
        now_ms: TimestampMs,
        produce_version: int = NEWEST_PRODUCE_VERSION,
        prepared_for: LogConfig | None = None,
        is_from_client: bool = True,
        leader_epoch: LeaderEpoch | None = None,
    ) -> AppendResult:
        """Append one batch with all that follows from it, or say why not. The only way into the log of a leader.

        `records` is writable; None or a fault is what a request had in place of a batch. `prepared_for` is the config
        by which its records were checked already: under another one the log checks them again. `leader_epoch` is that
        of a writer who must not go on in a later one.
        """
        state = self.state
        log = self.log
        config = log.config
        if state is not self._judged_state or config is not self._judged_config:
            self._judge(state, config)
        if (
            self.is_offline
            or not (self._takes_acks_all if acks == ACKS_ALL else self._takes_appends)
            or (self._is_internal and is_from_client)
            or type(records) is not memoryview
            or (leader_epoch is not None and leader_epoch != state.leader_epoch)
            or (len(records) > ATTRIBUTES_POSITION and records[ATTRIBUTES_POSITION] & TRANSACTIONAL_MASK)
        ):
            is_forbidden = self._is_internal and is_from_client
            is_led_here = self._takes_appends and leader_epoch in (None, state.leader_epoch)
            return (
                refused_by_partition(self, is_forbidden=is_forbidden, is_led_here=is_led_here)
                or refused_by_batch_or_replicas(self, records, now_ms=now_ms, produce_version=produce_version)
            ), None
        try:
            info = log.append_as_leader(
                records,
                leader_epoch=state.leader_epoch,
                now_ms=now_ms,
                produce_version=produce_version,
                is_from_client=is_from_client,
                is_checked_deeply=prepared_for is config,
            )
        except StorageError as error:
            self._ports.report_storage_error(log, error)
            return refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)), None
        if info.error_code:
            return info, None
        last_offset = info.last_offset
        if not info.is_duplicate:
            if self._counts_at_once:
                self.high_watermark = last_offset + 1
                self._fetches.mark(self.topic_partition)
            else:
                self._after_append(info.first_offset)
        if self.high_watermark > last_offset or acks == 0 or (acks > 0 and self.durable_end_offset > last_offset):
            return info, None
        return info, AcksWait(
            self,
            next_offset=last_offset + 1,
            leader_epoch=state.leader_epoch,
            needs_all_replicas=acks == ACKS_ALL,
        )

    def takes_from_clients(self, acks: int) -> bool:
        """Whether `append` looks at a client's batch at all; if not, what it refuses is not the batch."""
        state = self.state
        config = self.log.config
        if state is not self._judged_state or config is not self._judged_config:
            self._judge(state, config)
        takes = self._takes_acks_all if acks == ACKS_ALL else self._takes_appends
        return takes and not self.is_offline and not self._is_internal

    def _judge(self, state: PartitionState, config: LogConfig) -> None:
        """Work out what holds for every append until state or config changes."""
        self._judged_state = state
        self._judged_config = config
        self._takes_appends = state.leader == self._broker_id
        self._takes_acks_all = self._takes_appends and len(state.isr) >= config.min_insync_replicas
        # The only copy, and no fsync to wait for.
        self._counts_at_once = config.flush_messages == NEVER and len(state.isr) == len(state.replicas) == 1

    def _after_append(self, old_end_offset: Offset) -> None:
        """Not the only copy, or not durable yet: set in motion what will acknowledge it."""
        log = self.log
        flush_messages = log.config.flush_messages
        if flush_messages != NEVER and log.unflushed_messages >= flush_messages:
            self._ports.request_flush(log)
        if self._leading is not None:
            self._leading.on_append(old_end_offset)
        self.advance_high_watermark()

    def maybe_settle(self, wait: AcksWait) -> bool:
        """Whether a wait for acks is over; `wait.error_code` says how it ended."""
        state = self.state
        if self.is_offline:
            wait.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        elif state.leader != self._broker_id or state.leader_epoch != wait.leader_epoch:
            wait.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif (self.high_watermark if wait.needs_all_replicas else self.durable_end_offset) >= wait.next_offset:
            wait.error_code = _NONE
        elif wait.needs_all_replicas and len(state.isr) < self.log.config.min_insync_replicas:
            wait.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        else:
            return False
        return True

    # The high watermark

    def restore_high_watermark(self, checkpointed: Offset | None) -> None:
        """Start from the last checkpoint, within what the log has now; without one, from the log's start."""
        log = self.log
        start = log.log_start_offset if checkpointed is None else checkpointed
        self.high_watermark = min(max(start, log.log_start_offset), log.log_end_offset)

    def maybe_advance_high_watermark(self) -> bool:
        """As leader, take the smallest durable end offset of the in-sync replicas; never goes back."""
        if self.state.leader != self._broker_id:
            return False
        leading = self._leading
        end_offset = self.durable_end_offset if leading is None else leading.committed_end_offset()
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        return True

    def advance_high_watermark(self) -> bool:
        """As `maybe_advance_high_watermark`; who waits for it hears of it at the end of this turn of the loop."""
        if not self.maybe_advance_high_watermark():
            return False
        self._fetches.mark(self.topic_partition)
        if self._leading is not None:
            self._leading.on_high_watermark()
        return True

    # Leader and followers

    @property
    def is_led_here(self) -> bool:
        return self.state.leader == self._broker_id

    @property
    def is_latest_offset_known(self) -> bool:
        """A new leader has all that was committed before it, but learns only from its followers what that was."""
        return self._leading is None or self.high_watermark >= self._leading.epoch_start_offset

    @property
    def followers(self) -> "Mapping[BrokerId, FollowerProgress]":
        """What is known of the replicas that follow this one; none where it does not lead."""
        return {} if self._leading is None else self._leading.followers

    def become_leader(self, state: PartitionState, *, now_ms: int) -> None:
        """Lead in a new epoch. The high watermark stays until the followers were heard of."""
        self.state = state
        if len(state.replicas) > 1 and self._leading is None:
            from ottla.replication.leading import Leading

            self._leading = Leading(self, self._ports)
        if self._leading is not None:
            self._leading.begin_epoch(state, now_ms=now_ms)

    def become_follower(self, state: PartitionState) -> None:
        """Another broker leads, or none: what is not committed may be cut off here."""
        self.state = state
        if self._leading is not None:
            self._leading.end_epoch()

    def update_isr(self, state: PartitionState, *, now_ms: int) -> None:
        """The controller has sent a newer version within the epoch."""
        if state.leader != self._broker_id:
            self.state = state
        elif self._leading is None and len(state.replicas) > 1:
            self.become_leader(state, now_ms=now_ms)  # it has got its first followers
        else:
            self.state = state
            if self._leading is not None:
                self._leading.on_state(state, now_ms=now_ms)

    def on_follower_fetch(
        self,
        replica_id: BrokerId,
        *,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        durable_offset: Offset,
        log_start_offset: Offset,
        now_ms: int,
        fetches: "FollowerFetches | None" = None,
    ) -> None:
        """A follower in this leader epoch, whose log is a part of ours, has all below `fetch_offset`.

        `fetches` is its session: as long as that goes on, what is said here stays true.
        """
        if self._leading is not None:
            self._leading.on_follower_fetch(
                replica_id,
                broker_epoch=broker_epoch,
                fetch_offset=fetch_offset,
                durable_offset=durable_offset,
                log_start_offset=log_start_offset,
                now_ms=now_ms,
                fetches=fetches,
            )

    def maybe_change_isr(self, *, now_ms: int, shrinks: bool) -> None:
        """Let followers join that have caught up, and with `shrinks` drop those that lag."""
        if self._leading is not None:
            self._leading.maybe_change_isr(now_ms=now_ms, shrinks=shrinks)

    # As a follower

    def append_as_follower(self, records: memoryview, *, leader_epoch: LeaderEpoch, now_ms: TimestampMs) -> AppendInfo:
        """Copy what the leader of `leader_epoch` sent. Refused when the partition is no longer a follower in it."""
        state = self.state
        if self.is_offline:
            return refused(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this partition is offline")
        if state.leader == self._broker_id or state.leader_epoch != leader_epoch:
            return refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.topic_partition}: follows in epoch {state.leader_epoch}, records are of epoch {leader_epoch}",
            )
        log = self.log
        try:
            info = log.append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
        except StorageError as error:
            self._ports.report_storage_error(log, error)
            return refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        flush_messages = log.config.flush_messages
        if flush_messages != NEVER and log.unflushed_messages >= flush_messages:
            self._ports.request_flush(log)
        return info

    def truncate_to(self, offset: Offset) -> None:
        """Drop what the leader does not have. StorageError: the disk fails, which is reported."""
        assert not self.is_led_here, f"{self.topic_partition}: a leader never truncates"
        self._ports.truncate_log(self.log, offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def truncate_fully_to(self, offset: Offset) -> None:
        """Drop everything and go on at `offset`, where the leader's log begins."""
        assert not self.is_led_here, f"{self.topic_partition}: a leader never truncates"
        self._ports.restart_log(self.log, offset)
        self.high_watermark = offset

    def follow(self, *, high_watermark: Offset, log_start_offset: Offset) -> None:
        """Take over what the leader says, as far as this log goes; the high watermark never goes back by it."""
        if self.is_led_here:
            return
        log = self.log
        self.high_watermark = max(self.high_watermark, min(high_watermark, log.log_end_offset))
        if log_start_offset > log.log_start_offset:
            log.advance_log_start_offset(min(log_start_offset, self.high_watermark))

    # Reading and deleting

    def read(self, offset: Offset, *, max_bytes: int, at_least_one: bool) -> LogRead:
        """What a consumer may see from `offset` on: a slice of a segment that ends at the high watermark."""
        return self.log.read(offset, max_bytes=max_bytes, max_offset=self.high_watermark, at_least_one=at_least_one)

    def delete_records_before(self, offset: Offset) -> ErrorCode:
        """Move the start of the log up; an offset above the high watermark is out of range."""
        if offset < 0 or offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.log.advance_log_start_offset(offset)
        return ErrorCode.NONE
