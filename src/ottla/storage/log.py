"""A partition's log: what may be appended and where it goes, what is read, how it is truncated at both ends.

Positions are the business of its segments, durability that of its `LogFlush`. When to flush, to delete or to close is
decided by the log manager. Single-threaded: event loop only. Failures of the disk are raised as `StorageError`; after
one of an append the state in memory is what it was before.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.core.disk import Disk
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import NO_TIMESTAMP_MS, LeaderEpoch, Offset, TimestampMs
from ottla.records.errors import CorruptBatch
from ottla.records.header import BatchHeader, patch_base_offset_and_epoch, read_header, set_append_time
from ottla.records.validate import ProduceFault, check_produced
from ottla.records.walk import DECOMPRESSED_INLINE_MAX_BYTES, check_records
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.log_config import LogConfig
from ottla.storage.log_flush import FlushJob, LogFlush
from ottla.storage.log_results import (
    CORRUPT,
    NOTHING,
    OUT_OF_RANGE,
    AppendInfo,
    LogFigures,
    LogRead,
    RecoveryReport,
    TimestampOffset,
    refused,
)
from ottla.storage.producer_state import DuplicateBatch, ProducerState
from ottla.storage.replicated_batches import check_replicated, split_into_runs
from ottla.storage.retention import count_deletable
from ottla.storage.segment_list import SegmentList
from ottla.storage.timestamp_lookup import (
    BatchToOpen,
    find_by_timestamp,
    find_max_timestamp,
    first_batch_reaching,
)
from ottla.storage.txn_index import AbortedTransaction

_NO_ERROR = ErrorCode.NONE
_new_tuple = tuple.__new__  # less than half the time of AppendInfo(...)
_NEWEST_PRODUCE_VERSION = 32767


class Log:
    """One partition's log, made by `log_loading.load_log`; owned by the log manager, used by one replica."""

    __slots__ = (
        "_flush",
        "_limits",
        "_segments",
        "_was_changed",
        "config",
        "directory",
        "leader_epochs",
        "loaded_end_offset",
        "log_end_offset",
        "log_start_offset",
        "name",
        "producer_state",
        "recovery",
    )

    def __init__(
        self,
        segments: SegmentList,
        *,
        disk: Disk,
        log_start_offset: Offset,
        log_end_offset: Offset,
        recovery_point: Offset,
        producer_state: ProducerState,
        leader_epochs: LeaderEpochs,
        recovery: RecoveryReport,
        was_changed: bool,
        now_ms: TimestampMs,
    ) -> None:
        self.directory = segments.directory
        self.name = self.directory.rpartition("/")[2]
        self.producer_state = producer_state
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = self.loaded_end_offset = log_end_offset
        self.recovery = recovery
        self._segments = segments
        self._flush = LogFlush(disk, segments, leader_epochs, recovery_point=recovery_point, now_ms=now_ms)
        self._was_changed = was_changed  # other than by appends, which the end offset shows
        self.set_config(segments.config)

    def set_config(self, config: LogConfig) -> None:
        """The topic's configuration has changed; what is in the log stays as it is."""
        self.config = config
        self._limits = config.produce_limits
        self._segments.set_config(config)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    def figures(self) -> LogFigures:
        """For metrics: all at once, and cheap, since thousands of logs are asked in a row."""
        segments = self._segments
        end_offset = self.log_end_offset
        return (
            end_offset,
            self.log_start_offset,
            segments.size_bytes,
            len(segments),
            end_offset - self.loaded_end_offset,
            segments.appended_bytes,
        )

    # Appending

    def append_as_leader(
        self,
        records: memoryview,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: TimestampMs,
        produce_version: int = _NEWEST_PRODUCE_VERSION,
        is_from_client: bool = True,
        is_checked_deeply: bool = False,
    ) -> AppendInfo:
        """Append one batch at the end of the log; `records` must be writable, offset and epoch are put into it.

        `is_from_client=False` is for batches that the broker itself built. The records are walked through where the
        log's config says so, on a compacted topic, and where the header can't be right about their times, unless the
        caller did that already; here a compressed batch must stay small, or it is refused.
        """
        config = self.config
        if is_from_client:
            header = check_produced(records, self._limits, produce_version=produce_version, now_ms=now_ms)
            if type(header) is ProduceFault:
                return self._refused(header)
        else:
            header = read_header(records)
        assert type(header) is BatchHeader
        size_bytes = len(records)
        if size_bytes > config.segment_bytes:
            return refused(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{self.name}: batch of {size_bytes} bytes, segment.bytes is {config.segment_bytes}",
                log_start_offset=self.log_start_offset,
            )
        must_walk = config.walks_records or config.compact or header.max_timestamp_ms < header.base_timestamp_ms
        if must_walk and is_from_client and not is_checked_deeply:
            walked = check_records(
                records,
                header,
                self._limits,
                requires_keys=config.compact,
                now_ms=now_ms,
                max_bytes=DECOMPRESSED_INLINE_MAX_BYTES,
            )
            if type(walked) is ProduceFault:
                return self._refused(walked)
            assert type(walked) is BatchHeader
            header = walked
        if header.producer_id >= 0 and is_from_client:
            verdict = self.producer_state.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
            )
            if verdict is not None:
                return self._not_in_sequence(header, verdict)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        patch_base_offset_and_epoch(records, 0, base_offset=base_offset, leader_epoch=leader_epoch)
        append_time_ms = NO_TIMESTAMP_MS
        if self._limits.is_log_append_time:
            append_time_ms = now_ms
            header = set_append_time(records, 0, header=header, append_time_ms=now_ms)
        max_timestamp_ms = header.max_timestamp_ms
        segments = self._segments
        try:
            active = segments.active
            if not active.fits_without_roll(size_bytes, last_offset, max_timestamp_ms) and segments.must_roll(
                size_bytes=size_bytes, last_offset=last_offset, timestamp_ms=max_timestamp_ms, now_ms=now_ms
            ):
                self._roll(base_offset, now_ms)
                active = segments.active
            active.append(records, last_offset, max_timestamp_ms)
        except OSError as error:
            raise StorageError(f"{self.name}: append of {size_bytes} bytes failed: {error}") from error
        self.log_end_offset = last_offset + 1
        if leader_epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self.producer_state.append_batch(header, last_offset)
        return _new_tuple(
            AppendInfo, (base_offset, last_offset, append_time_ms, self.log_start_offset, _NO_ERROR, None, (), False)
        )

    def append_as_follower(
        self, records: memoryview, *, now_ms: TimestampMs, leader_epoch: LeaderEpoch | None = None
    ) -> AppendInfo:
        """Append what the leader's log holds, offsets and epochs as they are; a partial batch at the end is left out.

        Anything but sound batches in growing order is refused as a whole. `leader_epoch` is that of the fetch.
        """
        # An epoch in which this replica led and appended nothing: what the leader sends may be of an older one.
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        batches = check_replicated(
            records,
            log_end_offset=self.log_end_offset,
            latest_epoch=self.leader_epochs.latest_epoch,
            leader_epoch=leader_epoch,
        )
        if isinstance(batches, ProduceFault):
            return self._refused(batches)
        if not batches:
            return AppendInfo(-1, -1, NO_TIMESTAMP_MS, self.log_start_offset)
        segments = self._segments
        try:
            for data, run in split_into_runs(records, batches, segments, now_ms=now_ms):
                last = run[-1][1]
                if segments.must_roll(
                    size_bytes=len(data),
                    last_offset=last.last_offset,
                    timestamp_ms=last.max_timestamp_ms,
                    now_ms=now_ms,
                ):
                    self._roll(run[0][1].base_offset, now_ms)
                segments.active.append_run(data, run)
                self.log_end_offset = last.next_offset
                for _, header in run:
                    if header.leader_epoch > self.leader_epochs.latest_epoch:
                        self.leader_epochs.assign(header.leader_epoch, header.base_offset)
                    if header.producer_id >= 0:
                        self.producer_state.append_batch(header, header.last_offset)
        except OSError as error:
            raise StorageError(f"{self.name}: append of {len(records)} bytes failed: {error}") from error
        return AppendInfo(batches[0][1].base_offset, self.log_end_offset - 1, NO_TIMESTAMP_MS, self.log_start_offset)

    def _refused(self, fault: ProduceFault) -> AppendInfo:
        return refused(
            fault.error_code,
            f"{self.name}: {fault.message}",
            log_start_offset=self.log_start_offset,
            record_indexes=fault.record_indexes,
        )

    def _not_in_sequence(self, header: BatchHeader, verdict: DuplicateBatch | ErrorCode) -> AppendInfo:
        if isinstance(verdict, DuplicateBatch):
            append_time_ms = verdict.timestamp_ms if self.config.is_log_append_time else NO_TIMESTAMP_MS
            return AppendInfo(
                verdict.first_offset, verdict.last_offset, append_time_ms, self.log_start_offset, is_duplicate=True
            )
        return refused(
            verdict,
            f"{self.name}: producer {header.producer_id} epoch {header.producer_epoch}"
            f" sequence {header.base_sequence}: {verdict.name}",
            log_start_offset=self.log_start_offset,
        )

    def roll(self, now_ms: TimestampMs) -> None:
        """Begin a new segment at the end of the log; nothing to do when the active one is empty."""
        if self._segments.active.size_bytes:
            with self._storage_errors(f"roll at {self.log_end_offset}"):
                self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: Offset, now_ms: TimestampMs) -> None:
        self._segments.roll(base_offset, now_ms)
        self._was_changed = True
        self.producer_state.take_snapshot(base_offset, durable=False)

    # Reading

    def read(
        self, offset: Offset, *, max_bytes: int, max_offset: Offset | None = None, at_least_one: bool = True
    ) -> LogRead:
        """The log from the batch that holds `offset` on, below `max_offset`, within one segment.

        With `at_least_one` the first batch comes whole whatever `max_bytes` says, so that no reader is ever stuck.
        The last batch may be cut by `max_bytes`; readers leave a partial batch alone.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            return OUT_OF_RANGE
        if max_offset is None or max_offset > end_offset:
            max_offset = end_offset
        if offset >= max_offset:
            return NOTHING
        try:
            return self._segments.read(
                offset,
                max_bytes=max_bytes,
                max_offset=max_offset,
                log_end_offset=end_offset,
                at_least_one=at_least_one,
            )
        except CorruptBatch:
            return CORRUPT
        except OSError as error:
            raise StorageError(f"{self.name}: read at {offset} failed: {error}") from error

    def next_segment_offset(self, offset: Offset) -> Offset:
        """Where the segment after that of `offset` begins; the log's end for the last one."""
        following = self._segments.base_offset_above(offset)
        return self.log_end_offset if following is None else following

    def offset_for_timestamp(self, timestamp_ms: TimestampMs) -> TimestampOffset | None:
        """The first record with a timestamp of at least `timestamp_ms`; looks into a batch, so may decompress one."""
        with self._storage_errors(f"lookup of timestamp {timestamp_ms}"):
            return find_by_timestamp(self._segments.segments, timestamp_ms, log_start_offset=self.log_start_offset)

    def batch_for_timestamp(self, timestamp_ms: TimestampMs | None) -> BatchToOpen | None:
        """The batch that most likely has the record of `offset_for_timestamp`; None stands for the largest timestamp.

        Quick, where the whole lookup may take long: look into the batch on a thread, and do the whole lookup only if
        it does not have the record after all.
        """
        with self._storage_errors(f"lookup of timestamp {timestamp_ms}"):
            return first_batch_reaching(self._segments.segments, timestamp_ms, log_start_offset=self.log_start_offset)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the log's largest timestamp (ListOffsets with -3)."""
        with self._storage_errors("lookup of the largest timestamp"):
            return find_max_timestamp(self._segments.segments, log_start_offset=self.log_start_offset)

    def aborted_transactions(self, first_offset: Offset, *, end_offset: Offset) -> list[AbortedTransaction]:
        """The transactions whose records a read-committed consumer of [first_offset, end_offset) has to skip."""
        found: list[AbortedTransaction] = []
        for segment in self._segments.from_offset(first_offset):
            aborted, is_complete = segment.transaction_index.collect(first_offset, end_offset=end_offset)
            found += aborted
            if is_complete:
                break
        return found

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The leader epoch of the last batch; -1 when there is none. It may be older than the latest epoch known."""
        return self.leader_epochs.epoch_of(self.log_end_offset - 1)

    # Flushing

    @property
    def recovery_point(self) -> Offset:
        """Everything below it is durable."""
        return self._flush.recovery_point

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self._flush.recovery_point

    @property
    def last_flush_ms(self) -> TimestampMs:
        return self._flush.last_flush_ms

    @property
    def has_unsynced_segments(self) -> bool:
        """Whether a segment was rolled since the last flush: its files have to become durable soon."""
        return self._segments.has_unsynced

    def start_flush(self) -> FlushJob | None:
        """What has to be fsynced for all that is in the log now; None when that is nothing.

        `run()` the job on a thread, then hand it to `finish_flush` or `fail_flush` here on the loop.
        """
        with self._storage_errors(f"flush up to {self.log_end_offset}"):
            return self._flush.start(self.log_end_offset)

    def finish_flush(self, job: FlushJob, *, now_ms: TimestampMs) -> None:
        """The job has run: what it covered is durable."""
        self._flush.finish(job, now_ms=now_ms)

    def fail_flush(self, job: FlushJob) -> None:
        """The job has failed, or never ran: nothing became durable, and a later flush begins where it began."""
        self._flush.fail(job)

    # Truncation and deletion

    def lower_recovery_point(self, offset: Offset) -> None:
        """Have a start after a crash check all that is to take the place of what is at `offset` and behind it."""
        self._flush.lower_recovery_point(self._segments.base_offset_of(offset))

    def truncate_to(self, offset: Offset, *, now_ms: TimestampMs) -> list[str]:
        """Drop every batch that ends at or after `offset`; returns the files to be removed later.

        A batch is dropped as a whole: where `offset` lies within one, the log then ends at its beginning.
        """
        if offset >= self.log_end_offset:
            return []
        if offset < self._segments.first_base_offset:
            return self.truncate_fully_and_start_at(offset, now_ms=now_ms)
        self._flush.note_truncation()
        self._was_changed = True
        try:
            self.log_end_offset, removed = self._segments.truncate_to(offset, now_ms)
            self._after_truncation(now_ms)
        except (OSError, CorruptBatch) as error:
            raise StorageError(f"{self.name}: truncation to {offset} failed: {error}") from error
        return removed

    def truncate_fully_and_start_at(self, offset: Offset, *, now_ms: TimestampMs) -> list[str]:
        """Drop everything and continue at `offset`; returns the files to be removed later."""
        self._flush.note_truncation()
        self._was_changed = True
        with self._storage_errors(f"new start at {offset}"):
            removed = self._segments.restart_at(offset, now_ms)
            self.log_start_offset = self.log_end_offset = offset
            self.leader_epochs.clear()
            self._after_truncation(now_ms)
        return removed

    def _after_truncation(self, now_ms: TimestampMs) -> None:
        end_offset = self.log_end_offset
        self._flush.lower_recovery_point(end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        replay_from = self.producer_state.truncate_and_reload(
            log_start_offset=self._segments.first_base_offset, log_end_offset=end_offset, now_ms=now_ms
        )
        self.replay_producers(replay_from)

    def replay_producers(self, offset: Offset) -> None:
        """Bring the producers' state, which stands for the log below `offset`, to the log's end."""
        if offset >= self.log_end_offset:
            return
        for header in self._segments.headers_from(offset):
            if header.producer_id >= 0:
                self.producer_state.append_batch(header, header.last_offset)

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Records below `offset` are no longer there (delete-records); their segments go with the next clean-up."""
        if not self.log_start_offset < offset <= self.log_end_offset:
            return False
        self.log_start_offset = offset
        self._was_changed = True
        self.leader_epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(self, now_ms: TimestampMs, *, high_watermark: Offset | None = None) -> list[str]:
        """Drop what retention does not keep; returns the files to be removed after `file.delete.delay.ms`.

        When even the active segment has expired, a new one begins first, so the log keeps its end offset.
        """
        segments = self._segments
        with self._storage_errors("clean-up of old segments"):
            count = count_deletable(
                segments.segments,
                self.config,
                now_ms=now_ms,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                high_watermark=self.log_end_offset if high_watermark is None else high_watermark,
            )
            if not count:
                return []
            if count == len(segments):
                self._roll(self.log_end_offset, now_ms)
            self.advance_log_start_offset(segments.segments[count].base_offset)
            removed = segments.drop_first(count)
            self.producer_state.delete_snapshots_before(self.log_start_offset)
        self._was_changed = True
        return removed

    def segment_paths(self) -> list[str]:
        """The files of all segments."""
        return [path for segment in self._segments.segments for path in segment.paths]

    def close(self, *, now_ms: TimestampMs) -> None:
        """Make everything durable, for a start that needs no recovery. Blocks; the log is not used afterwards.

        A log that was not touched since it was loaded costs nothing.
        """
        was_appended_to = self.log_end_offset != self.loaded_end_offset
        if not (self._was_changed or was_appended_to or self.unflushed_messages):
            return
        segments = self._segments
        self._flush.settle(now_ms=now_ms)
        with self._storage_errors("close"):
            segments.finish()
            self.producer_state.take_final_snapshot(self.log_end_offset)
        job = self.start_flush()
        if job is not None:
            job.run()
            self.finish_flush(job, now_ms=now_ms)
        segments.stop_appending()
        self._was_changed = False
        self.loaded_end_offset = self.log_end_offset

    @contextmanager
    def _storage_errors(self, action: str) -> Iterator[None]:
        """A disk that fails raises StorageError. Not for appends and reads, which have no time for it."""
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self.name}: {action} failed: {error}") from error
