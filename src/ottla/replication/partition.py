"""One partition as its leader sees it: appends, reads, the high watermark.

Owned by `Replicas`; touched on the event loop only. It knows its log and its replicas, and nothing of requests.
"""

from typing import NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from ottla.storage.log import AppendInfo, Log, LogRead

_NO_ERROR = ErrorCode.NONE


class PartitionState(NamedTuple):
    """What the coordination store says about a partition."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]


class Partition:
    """The leader's side of one partition.

    The high watermark is the smallest share of the in-sync replicas. A replica's share ends where its promise ends:
    with `flush.messages=N` at most N-1 acknowledged messages may be missing from the platter, so the share is
    `flushed_offset + N - 1`, cut at the log's end. With N=1 that is group commit: what is not fsynced does not count.
    """

    __slots__ = ("high_watermark", "log", "state", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, *, topic_id: bytes, log: Log, state: PartitionState) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.state = state
        self.high_watermark: Offset = log.log_start_offset

    @property
    def own_share(self) -> Offset:
        """The offset up to which this broker's copy keeps the promise of its flush mode."""
        log = self.log
        return min(log.log_end_offset, log.flushed_offset + log.config.flush_messages - 1)

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

    def append(self, records: memoryview, *, now_ms: int, produce_version: int) -> AppendInfo:
        """Append one produced batch and move the high watermark as far as the promise allows."""
        info = self.log.append_as_leader(
            records, leader_epoch=self.state.leader_epoch, now_ms=now_ms, produce_version=produce_version
        )
        if info.error_code == _NO_ERROR:
            self.maybe_advance_high_watermark()
        return info

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
