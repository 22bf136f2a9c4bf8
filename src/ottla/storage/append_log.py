"""A log as replicas use it: appends as leader or follower, reads, lookups by time.

It decides what may be appended and where it goes; positions are the segments' business. Its other half, `log.py`, is
what the log manager uses. Single-threaded: event loop only. Failures of the disk are raised as `StorageError`; the
state in memory is then what it was before.
"""

from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import NO_TIMESTAMP_MS, LeaderEpoch, Offset, TimestampMs
from ottla.records.errors import CorruptBatch
from ottla.records.header import (
    BatchHeader,
    crc_of,
    iter_headers,
    patch_base_offset_and_epoch,
    read_header,
    set_append_time,
)
from ottla.records.validate import ProduceFault, check_produced
from ottla.records.walk import DECOMPRESSED_INLINE_MAX_BYTES, check_records
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.log_config import LogConfig
from ottla.storage.log_flush import FlushJob
from ottla.storage.log_results import (
    CORRUPT,
    NOTHING,
    OUT_OF_RANGE,
    AppendInfo,
    LogRead,
    RecoveryReport,
    TimestampOffset,
    refused,
)
from ottla.storage.open_files import OpenFiles
from ottla.storage.producer_state import DuplicateBatch, ProducerState
from ottla.storage.segment_list import SegmentList
from ottla.storage.timestamp_lookup import (
    BatchToOpen,
    find_by_timestamp,
    find_max_timestamp,
    first_batch_reaching,
    largest_timestamp,
)
from ottla.storage.txn_index import AbortedTransaction

_NO_ERROR = ErrorCode.NONE
_new_tuple = tuple.__new__  # less than half the time of AppendInfo(...)
_NEWEST_PRODUCE_VERSION = 32767


class AppendLog:
    """The state of one partition's log, and what happens on the way of a produce and of a fetch."""

    __slots__ = (
        "_flush_job",
        "_generation",
        "_has_changed",
        "_limits",
        "_open_files",
        "_segments",
        "config",
        "directory",
        "last_flush_ms",
        "leader_epochs",
        "loaded_end_offset",
        "log_end_offset",
        "log_start_offset",
        "name",
        "producer_state",
        "recovery",
        "recovery_point",
    )

    def __init__(
        self,
        segments: SegmentList,
        *,
        open_files: OpenFiles,
        log_start_offset: Offset,
        log_end_offset: Offset,
        recovery_point: Offset,
        producer_state: ProducerState,
        leader_epochs: LeaderEpochs,
        recovery: RecoveryReport,
        has_changed: bool,
        now_ms: TimestampMs,
    ) -> None:
        self.directory = segments.directory
        self.name = self.directory.rpartition("/")[2]
        self.producer_state = producer_state
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = self.loaded_end_offset = log_end_offset
        self.recovery_point = recovery_point  # everything below it is durable
        self.recovery = recovery
        self.last_flush_ms = now_ms
        self._open_files = open_files
        self._segments = segments
        self._has_changed = has_changed  # since it was made durable as a whole
        self._flush_job: FlushJob | None = None  # begun, and neither finished nor failed
        self._generation = 0  # counts truncations: a flush that began before one says nothing about the log after it
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

    @property
    def has_unsynced_segments(self) -> bool:
        """Whether a segment was rolled since the last flush: its files have to become durable soon."""
        return bool(self._segments.unsynced)

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

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
            found = self._check_sequence(header)
            if found is not None:
                return found
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
            if not active.surely_takes(size_bytes, last_offset, max_timestamp_ms) and segments.must_roll(
                size_bytes=size_bytes, last_offset=last_offset, timestamp_ms=max_timestamp_ms, now_ms=now_ms
            ):
                self._roll(base_offset, now_ms)
                active = segments.active
            active.append(records, last_offset, max_timestamp_ms)
        except OSError as error:
            raise StorageError(f"{self.name}: append of {size_bytes} bytes failed: {error}") from error
        segments.size_bytes += size_bytes
        self.log_end_offset = last_offset + 1
        self._has_changed = True
        if leader_epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self._note_producer(header, last_offset)
        return _new_tuple(
            AppendInfo, (base_offset, last_offset, append_time_ms, self.log_start_offset, _NO_ERROR, None, (), False)
        )

    def append_as_follower(self, records: memoryview, *, now_ms: TimestampMs) -> AppendInfo:
        """Append what the leader's log holds, offsets and epochs as they are; a partial batch at the end is left out.

        Anything but sound batches in growing order is refused as a whole.
        """
        try:
            batches = list(iter_headers(records, allow_partial_tail=True))
            self._check_replicated(records, batches)
        except CorruptBatch as error:
            return refused(ErrorCode.CORRUPT_MESSAGE, f"{self.name}: {error}", log_start_offset=self.log_start_offset)
        if not batches:
            return AppendInfo(-1, -1, NO_TIMESTAMP_MS, self.log_start_offset)
        next_offset = self.log_end_offset
        for _, header in batches:
            if header.base_offset < next_offset:
                return refused(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{self.name}: batch at {header.base_offset} from the leader, {next_offset} or later expected",
                    log_start_offset=self.log_start_offset,
                )
            next_offset = header.next_offset
        try:
            self._append_runs(records, batches, now_ms)
        except OSError as error:
            raise StorageError(f"{self.name}: append of {len(records)} bytes failed: {error}") from error
        return AppendInfo(batches[0][1].base_offset, next_offset - 1, NO_TIMESTAMP_MS, self.log_start_offset)

    def _refused(self, fault: ProduceFault) -> AppendInfo:
        return refused(
            fault.error_code,
            f"{self.name}: {fault.message}",
            log_start_offset=self.log_start_offset,
            record_indexes=fault.record_indexes,
        )

    def _check_sequence(self, header: BatchHeader) -> AppendInfo | None:
        verdict = self.producer_state.check(
            header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
        )
        if verdict is None:
            return None
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

    def _note_producer(self, header: BatchHeader, last_offset: Offset) -> None:
        if header.is_control:
            return
        self.producer_state.append(
            header.producer_id,
            header.producer_epoch,
            header.last_sequence,
            last_offset=last_offset,
            offset_delta=header.last_offset_delta,
            timestamp_ms=header.max_timestamp_ms,
        )

    def _check_replicated(self, records: memoryview, batches: list[tuple[int, BatchHeader]]) -> None:
        for position, header in batches:
            if header.last_offset_delta < 0:
                raise CorruptBatch(f"batch at {header.base_offset}: last offset delta {header.last_offset_delta}")
            crc = crc_of(records, position, header.size_bytes)
            if crc != header.crc:
                raise CorruptBatch(f"batch at {header.base_offset}: checksum {crc:#010x}, {header.crc:#010x} expected")

    def _append_runs(self, records: memoryview, batches: list[tuple[int, BatchHeader]], now_ms: TimestampMs) -> None:
        """One write for as many batches as go into the same segment."""
        segments = self._segments
        segment_bytes = self.config.segment_bytes
        run: list[tuple[int, BatchHeader]] = []
        run_start = run_end = 0
        for position, header in batches:
            size_bytes = run_end - run_start + header.size_bytes
            if run and (
                # An empty segment never has to be rolled, but the run alone may fill it.
                segments.active.size_bytes + size_bytes > segment_bytes
                or segments.must_roll(
                    size_bytes=size_bytes,
                    last_offset=header.last_offset,
                    timestamp_ms=header.max_timestamp_ms,
                    now_ms=now_ms,
                )
            ):
                self._append_run(records[run_start:run_end], run, now_ms)
                run = []
            if not run:
                run_start = position
            run.append((position - run_start, header))
            run_end = position + header.size_bytes
        self._append_run(records[run_start:run_end], run, now_ms)

    def _append_run(self, data: memoryview, run: list[tuple[int, BatchHeader]], now_ms: TimestampMs) -> None:
        last = run[-1][1]
        segments = self._segments
        if segments.must_roll(
            size_bytes=len(data), last_offset=last.last_offset, timestamp_ms=last.max_timestamp_ms, now_ms=now_ms
        ):
            self._roll(run[0][1].base_offset, now_ms)
        segments.active.append_run(data, run)
        segments.size_bytes += len(data)
        self.log_end_offset = last.next_offset
        self._has_changed = True
        leader_epochs = self.leader_epochs
        for _, header in run:
            if header.leader_epoch > leader_epochs.latest_epoch:
                leader_epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._note_producer(header, header.last_offset)

    # Rolling

    def roll(self, now_ms: TimestampMs) -> None:
        """Begin a new segment at the end of the log; nothing to do when the active one is empty."""
        if self._segments.active.size_bytes:
            try:
                self._roll(self.log_end_offset, now_ms)
            except OSError as error:
                raise StorageError(f"{self.name}: roll at {self.log_end_offset} failed: {error}") from error

    def _roll(self, base_offset: Offset, now_ms: TimestampMs) -> None:
        self._segments.roll(base_offset, now_ms)
        self._has_changed = True
        self.producer_state.take_snapshot(base_offset, durable=False)

    # Reading

    def read(
        self, offset: Offset, *, max_bytes: int, max_offset: Offset | None = None, at_least_one: bool = True
    ) -> LogRead:
        """The log from the batch that holds `offset` on, below `max_offset`, within one segment.

        With `at_least_one` the first batch comes whole whatever `max_bytes` says, so that no reader ever sticks.
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
        try:
            return find_by_timestamp(
                self._segments.segments,
                timestamp_ms,
                open_files=self._open_files,
                log_start_offset=self.log_start_offset,
            )
        except OSError as error:
            raise StorageError(f"{self.name}: lookup of timestamp {timestamp_ms} failed: {error}") from error

    def batch_for_timestamp(self, timestamp_ms: TimestampMs | None) -> BatchToOpen | None:
        """The batch that most likely has the record of `offset_for_timestamp`; None stands for the largest timestamp.

        Quick, where the whole lookup may take long: look into the batch on a thread, and do the whole lookup only if
        it does not have the record after all.
        """
        segments = self._segments.segments
        try:
            if timestamp_ms is None:
                timestamp_ms = largest_timestamp(segments)
                if timestamp_ms < 0:
                    return None
            return first_batch_reaching(
                segments, timestamp_ms, open_files=self._open_files, log_start_offset=self.log_start_offset
            )
        except OSError as error:
            raise StorageError(f"{self.name}: lookup of timestamp {timestamp_ms} failed: {error}") from error

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the log's largest timestamp (ListOffsets with -3)."""
        try:
            return find_max_timestamp(
                self._segments.segments, open_files=self._open_files, log_start_offset=self.log_start_offset
            )
        except OSError as error:
            raise StorageError(f"{self.name}: lookup of the largest timestamp failed: {error}") from error

    def aborted_transactions(self, first_offset: Offset, *, end_offset: Offset) -> list[AbortedTransaction]:
        """The transactions whose records a read-committed consumer of [first_offset, end_offset) has to skip."""
        found: list[AbortedTransaction] = []
        for segment in self._segments.from_offset(first_offset):
            aborted, is_complete = segment.transaction_index.collect(first_offset, end_offset=end_offset)
            found += aborted
            if is_complete:
                break
        return found
