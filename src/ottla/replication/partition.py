"""One partition as its leader sees it: appends, reads, the high watermark.

Owned by `Replicas`; touched on the event loop only. It knows its log and its replicas, and nothing of requests.
"""

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.types import LeaderEpoch, Offset, TopicPartition
from ottla.storage.log import Log
from ottla.storage.log_config import NEVER
from ottla.storage.log_results import AppendInfo, LogRead


class Partition:
    """The leader's side of one partition.

    The high watermark is the smallest share of the in-sync replicas. A replica's share ends where its promise ends:
    with `flush.messages=N` at most N-1 acknowledged messages may be missing from the platter, so the share is
    `recovery_point + N - 1`, cut at the log's end. With N=1 that is group commit: what is not fsynced does not count.
    """

    __slots__ = ("high_watermark", "is_offline", "log", "state", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, *, topic_id: bytes, log: Log, state: PartitionState) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.state = state
        self.high_watermark: Offset = log.log_start_offset
        self.is_offline = False  # its log directory failed: nothing is read or written any more

    @property
    def own_share(self) -> Offset:
        """The offset up to which this broker's copy keeps the promise of its flush mode."""
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

    @property
    def has_enough_in_sync_replicas(self) -> bool:
        """Whether a produce with acks=all may be taken (`min.insync.replicas`)."""
        return len(self.state.isr) >= self.log.config.min_insync_replicas

    def describe_in_sync_replicas(self) -> str:
        needed = self.log.config.min_insync_replicas
        return f"{self.topic_partition}: {len(self.state.isr)} replicas in sync, min.insync.replicas is {needed}"

    def check_leader_epoch(self, epoch: LeaderEpoch) -> ErrorCode:
        """Compare the epoch that a client believes in with ours; -1 means that it has none."""
        if epoch < 0 or epoch == self.state.leader_epoch:
            return ErrorCode.NONE
        if epoch < self.state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def append(
        self, records: memoryview, *, now_ms: int, produce_version: int, is_checked_deeply: bool = False
    ) -> AppendInfo:
        """Append one produced batch and move the high watermark as far as the promise allows."""
        info = self.log.append_as_leader(
            records,
            leader_epoch=self.state.leader_epoch,
            now_ms=now_ms,
            produce_version=produce_version,
            is_checked_deeply=is_checked_deeply,
        )
        if not info.error_code:
            if self.log.config.flush_messages == NEVER and len(self.state.isr) == 1:
                self.high_watermark = self.log.log_end_offset  # the only copy, and nothing to wait for
            else:
                self.maybe_advance_high_watermark()
        return info

    def append_own(self, records: memoryview, *, now_ms: int) -> AppendInfo:
        """Append a batch that this broker built for a topic of its own; nothing in it needs a check."""
        info = self.log.append_as_leader(
            records, leader_epoch=self.state.leader_epoch, now_ms=now_ms, is_from_client=False
        )
        if not info.error_code:
            self.maybe_advance_high_watermark()
        return info

    def restore_high_watermark(self, checkpointed: Offset | None) -> None:
        """Start from the last checkpoint, within what the log has now; without one, from the log's start."""
        log = self.log
        start = log.log_start_offset if checkpointed is None else checkpointed
        self.high_watermark = min(max(start, log.log_start_offset), log.log_end_offset)

    def maybe_advance_high_watermark(self) -> bool:
        """Take the smallest share of the in-sync replicas; never goes back."""
        share = self.own_share
        if share <= self.high_watermark:
            return False
        self.high_watermark = share
        return True

    def read(self, offset: Offset, *, max_bytes: int, at_least_one: bool) -> LogRead:
        """What a consumer may see from `offset` on: a slice of a segment that ends at the high watermark."""
        return self.log.read(offset, max_bytes=max_bytes, max_offset=self.high_watermark, at_least_one=at_least_one)

    def delete_records_before(self, offset: Offset) -> ErrorCode:
        """Move the start of the log up; an offset above the high watermark is out of range."""
        if offset < 0 or offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.log.advance_log_start_offset(offset)
        return ErrorCode.NONE
