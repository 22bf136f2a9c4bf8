"""One partition as its leader sees it: appends, reads, the high watermark.

Owned by `Replicas`; touched on the event loop only. It decides what may be appended and when that is acknowledged, and
sets in motion what follows. It knows its log and its replicas, and nothing of requests.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ottla.core.cluster import INTERNAL_TOPICS, PartitionState
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import NO_TIMESTAMP_MS, BrokerId, LeaderEpoch, Offset, TimestampMs, TopicPartition
from ottla.purgatory.purgatory import Purgatory
from ottla.records.header import CHECKSUMMED_POSITION, TRANSACTIONAL_MASK
from ottla.records.validate import ProduceFault, check_produced
from ottla.storage.log import Log
from ottla.storage.log_config import NEVER, LogConfig
from ottla.storage.log_results import AppendInfo, LogRead

ACKS_ALL = -1
NEWEST_PRODUCE_VERSION = 32767

_NONE = ErrorCode.NONE
_ATTRIBUTES_POSITION = CHECKSUMMED_POSITION + 1  # their low byte


class PartitionPorts(NamedTuple):
    """What the partitions of a broker need of it."""

    broker_id: BrokerId
    request_flush: Callable[[Log], None]
    report_storage_error: Callable[[Log, StorageError], None]  # the log manager decides what goes offline
    fetches: Purgatory  # those that wait; marked by each append, completed once per loop turn
    truncate_log: Callable[[Log, Offset], None]  # drops what is at or after the offset; StorageError: the disk fails
    restart_log: Callable[[Log, Offset], None]  # drops everything and goes on at the offset


class AcksWait:
    """A batch that was appended and is not acknowledged yet; `error_code` is the verdict at the end.

    It belongs to the leader epoch of its append: another leader may have cut the batch off the log, and what is at
    its offset then says nothing about it. With `needs_all_replicas` (acks=all) the high watermark counts, else the
    leader's own durable end, which lags behind the log's end only where a topic is fsynced by `flush.messages`.
    """

    __slots__ = ("error_code", "leader_epoch", "needs_all_replicas", "next_offset", "partition")

    def __init__(
        self, partition: "Partition", *, next_offset: Offset, leader_epoch: LeaderEpoch, needs_all_replicas: bool
    ) -> None:
        self.partition = partition
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.needs_all_replicas = needs_all_replicas
        self.error_code = ErrorCode.REQUEST_TIMED_OUT


# What the log says of the batch or why it was refused; and what is to be waited for, if anything is.
AppendResult: TypeAlias = tuple[AppendInfo, AcksWait | None]


class Partition:
    """The leader's side of one partition.

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
        self.state = state  # replaced by `Replicas.update_state`, which ends the waits that it decides
        self.high_watermark: Offset = log.log_start_offset
        self.is_offline = False  # its log directory failed: nothing is read or written any more
        self._broker_id = ports.broker_id
        self._is_internal = topic_partition.topic in INTERNAL_TOPICS
        self._fetches = ports.fetches
        self._ports = ports
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
        return self.log.log_start_offset

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
            or (len(records) > _ATTRIBUTES_POSITION and records[_ATTRIBUTES_POSITION] & TRANSACTIONAL_MASK)
        ):
            return self._refuse(records, now_ms, produce_version, is_from_client, leader_epoch), None
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
            else:
                self.maybe_advance_high_watermark()
                flush_messages = config.flush_messages
                if flush_messages != NEVER and log.unflushed_messages >= flush_messages:
                    self._ports.request_flush(log)
            self._fetches.mark(self.topic_partition)
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
        self._counts_at_once = config.flush_messages == NEVER and len(state.isr) == 1

    def _refuse(
        self,
        records: memoryview | ProduceFault | None,
        now_ms: TimestampMs,
        produce_version: int,
        is_from_client: bool,
        leader_epoch: LeaderEpoch | None,
    ) -> AppendInfo:
        """Why `append` takes nothing: what concerns the partition comes first, then the batch, then the replicas."""
        state = self.state
        if self._is_internal and is_from_client:
            return refused_as_internal(self.topic_partition.topic)
        if self.is_offline:
            return refused(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this partition is offline")
        if state.leader != self._broker_id or (leader_epoch is not None and leader_epoch != state.leader_epoch):
            return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        if records is None:
            return refused(ErrorCode.INVALID_RECORD, "no batch; exactly one is expected")
        if isinstance(records, ProduceFault):
            return refused(*records)
        config = self.log.config
        if len(records) > _ATTRIBUTES_POSITION and records[_ATTRIBUTES_POSITION] & TRANSACTIONAL_MASK:
            # First of all a batch has to be sound: else the bit may be a flipped one.
            found = check_produced(records, config.produce_limits, produce_version=produce_version, now_ms=now_ms)
            if isinstance(found, ProduceFault):
                return refused(*found)
            return refused(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
        return refused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self.topic_partition}: {len(state.isr)} replicas in sync,"
            f" min.insync.replicas is {config.min_insync_replicas}",
        )

    def maybe_settle(self, wait: AcksWait) -> bool:
        """Whether a wait for acks is over; `wait.error_code` says how it ended."""
        state = self.state
        if self.is_offline:
            wait.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        elif state.leader != self._broker_id or state.leader_epoch != wait.leader_epoch:
            wait.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif (self.high_watermark if wait.needs_all_replicas else self.durable_end_offset) >= wait.next_offset:
            wait.error_code = _NONE
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
        """Take the smallest durable end offset of the in-sync replicas; never goes back."""
        end_offset = self.durable_end_offset
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        return True

    # Following

    def append_as_follower(self, records: memoryview, *, leader_epoch: LeaderEpoch, now_ms: TimestampMs) -> AppendInfo:
        """Append what the leader of that epoch has sent, or say why not."""
        state = self.state
        if self.is_offline:
            return refused(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this partition is offline")
        if state.leader == self._broker_id or state.leader_epoch != leader_epoch:
            return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
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

    def follow(self, *, high_watermark: Offset, log_start_offset: Offset) -> None:
        """Take over what the leader says, as far as this log goes; the high watermark never goes back by it."""
        log = self.log
        self.high_watermark = max(self.high_watermark, min(high_watermark, log.log_end_offset))
        if log_start_offset > log.log_start_offset:
            log.advance_log_start_offset(min(log_start_offset, self.high_watermark))

    def truncate_to(self, offset: Offset) -> None:
        """Drop what the leader does not have. StorageError: the disk fails, and that is reported."""
        self._ports.truncate_log(self.log, offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def truncate_fully_to(self, offset: Offset) -> None:
        """Drop everything and go on at `offset`, where the leader's log begins."""
        self._ports.restart_log(self.log, offset)
        self.high_watermark = offset

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


def refused_as_internal(topic: str) -> AppendInfo:
    return refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker alone")


def refused(error_code: ErrorCode, message: str | None, record_indexes: tuple[int, ...] = ()) -> AppendInfo:
    return AppendInfo(-1, -1, NO_TIMESTAMP_MS, -1, error_code, message, record_indexes)
