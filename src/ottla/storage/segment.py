"""A segment: a stretch of the log in one file, with its offset index and its time index.

It knows positions and offsets, not what a log may append: checks, rolling and retention are decided above it.
Only the active segment is appended to. Failures of the disk are `OSError`.
"""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from errno import EIO
from zlib import crc32

from ottla.core.disk import ReadFile
from ottla.core.types import NO_TIMESTAMP_MS, Buffer, Offset, TimestampMs
from ottla.records.errors import CorruptBatch
from ottla.records.header import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, BatchHeader, read_header
from ottla.storage.batch_scan import check_lengths, find_batch, scan_headers
from ottla.storage.log_config import LogConfig
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_files import OpenFiles
from ottla.storage.segment_files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from ottla.storage.sparse_index import IndexCorrupt
from ottla.storage.time_index import TimeIndex
from ottla.storage.txn_index import TransactionIndex

_RELATIVE_OFFSET_MAX = 2**31 - 1

# Where the last batches begin is kept in memory: most reads are at the end of the log, and need no look at any file.
_TAIL_BATCHES_MAX = 128
_TAIL_BATCHES_KEPT = 64


class Segment:
    """Owned by its log. Holds no descriptors itself: files come from the broker's cache of open files."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_config",
        "_is_log_broken",
        "_max_timestamp",
        "_open_files",
        "_roll_bytes",
        "_roll_offset",
        "_roll_timestamp_ms",
        "_tail_last_offsets",
        "_tail_positions",
        "base_offset",
        "created_ms",
        "first_timestamp_ms",
        "index_interval_bytes",
        "log_path",
        "offset_index",
        "size_bytes",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        directory: str,
        base_offset: Offset,
        *,
        open_files: OpenFiles,
        config: LogConfig,
        created_ms: TimestampMs,
        log_bytes: int = 0,
        offset_index_bytes: int = 0,
        time_index_bytes: int = 0,
        transaction_index_bytes: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = log_bytes
        self.created_ms = created_ms
        self.log_path = segment_path(directory, base_offset, LOG_SUFFIX)
        self.offset_index = OffsetIndex(
            segment_path(directory, base_offset, OFFSET_INDEX_SUFFIX),
            base_offset=base_offset,
            open_files=open_files,
            file_bytes=offset_index_bytes,
            index_bytes_max=config.segment_index_bytes,
        )
        self.time_index = TimeIndex(
            segment_path(directory, base_offset, TIME_INDEX_SUFFIX),
            base_offset=base_offset,
            open_files=open_files,
            file_bytes=time_index_bytes,
            index_bytes_max=config.segment_index_bytes,
        )
        self.transaction_index = TransactionIndex(
            segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX),
            open_files=open_files,
            file_bytes=transaction_index_bytes,
        )
        self._open_files = open_files
        self._bytes_since_index_entry = 0
        self._is_log_broken = False
        # (timestamp, last offset of its batch); None: not read from the time index yet.
        self._max_timestamp: tuple[TimestampMs, Offset] | None = None if log_bytes else (NO_TIMESTAMP_MS, base_offset)
        self.first_timestamp_ms: TimestampMs | None = None  # of the first batch; None: no batch, or not read yet
        self._tail_last_offsets: list[Offset] = []
        self._tail_positions: list[int] = []
        self.set_config(config)

    def log_file(self) -> ReadFile:
        """The log file, open for reading; OSError when it can't be opened."""
        return self._open_files.read_file(self.log_path)

    def create_files(self) -> None:
        """Make the files of a new segment, empty even where a leftover has the name."""
        for path in (self.log_path, self.offset_index.path, self.time_index.path):
            self._open_files.forget(path)
            file = self._open_files.append_file(path)
            if file.size_bytes:
                file.truncate(0)

    # Appending

    def fits_without_roll(self, size_bytes: int, last_offset: Offset, max_timestamp_ms: TimestampMs) -> bool:
        """The quick answer for nearly every batch. False means: ask `SegmentList.must_roll`."""
        return (
            self.size_bytes + size_bytes <= self._roll_bytes
            and max_timestamp_ms <= self._roll_timestamp_ms
            and last_offset <= self._roll_offset
        )

    def set_config(self, config: LogConfig) -> None:
        """Only the active segment follows a change."""
        self.index_interval_bytes = config.index_interval_bytes
        self._config = config
        self._recompute_roll_limits()

    @property
    def roll_after_ms(self) -> int:
        """`segment.ms`, less a share of `segment.jitter.ms` that is each segment's own, so that not all roll at once.

        Drawn from its name: as good as random among partitions, and the same after a restart.
        """
        jitter_ms = min(self._config.segment_jitter_ms, self._config.segment_ms)
        return self._config.segment_ms - (crc32(self.log_path.encode()) % jitter_ms if jitter_ms > 0 else 0)

    def _recompute_roll_limits(self) -> None:
        """Below these no batch begins a new segment; known once the first batch has a timestamp."""
        config = self._config
        first_ms = self.first_timestamp_ms
        is_known = (
            first_ms is not None and first_ms >= 0 and not self.offset_index.is_full and not self.time_index.is_full
        )
        self._roll_bytes = config.segment_bytes if is_known else -1
        self._roll_timestamp_ms = (first_ms or 0) + self.roll_after_ms
        self._roll_offset = self.base_offset + _RELATIVE_OFFSET_MAX

    def append(self, data: Buffer, last_offset: Offset, max_timestamp_ms: TimestampMs) -> None:
        """Add one batch. After an OSError the segment is as it was before."""
        self._note_batch(self._write(data), len(data), last_offset, max_timestamp_ms)

    def append_run(self, data: Buffer, batches: list[tuple[int, BatchHeader]]) -> None:
        """Add several batches with one write; `batches` are their positions within `data` and their headers."""
        start = self._write(data)
        for position, header in batches:
            self._note_batch(
                start + position,
                header.batch_length + LOG_OVERHEAD_BYTES,
                header.base_offset + header.last_offset_delta,
                header.max_timestamp_ms,
            )

    def _write(self, data: Buffer) -> int:
        # What can fail comes first: the rest of an append only counts.
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self.offset_index.make_room()
            self.time_index.make_room()
        if self._max_timestamp is None:
            self.max_timestamp()
        file = self._open_files.append_file(self.log_path)
        position = self.size_bytes
        if file.size_bytes != position:
            raise OSError(EIO, f"has {file.size_bytes} bytes, {position} expected", self.log_path)
        file.append(data)
        return position

    def _note_batch(self, position: int, size_bytes: int, last_offset: Offset, max_timestamp_ms: TimestampMs) -> None:
        self.size_bytes = position + size_bytes
        if not position:
            self.first_timestamp_ms = max_timestamp_ms
            self._recompute_roll_limits()
        max_timestamp = self._max_timestamp
        if max_timestamp is None or max_timestamp_ms > max_timestamp[0]:
            self._max_timestamp = (max_timestamp_ms, last_offset)
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self._add_index_entries(last_offset, position)
        self._bytes_since_index_entry += size_bytes
        tail_last_offsets = self._tail_last_offsets
        tail_last_offsets.append(last_offset)
        self._tail_positions.append(position)
        if len(tail_last_offsets) > _TAIL_BATCHES_MAX:
            del tail_last_offsets[:-_TAIL_BATCHES_KEPT]
            del self._tail_positions[:-_TAIL_BATCHES_KEPT]

    def _add_index_entries(self, last_offset: Offset, position: int) -> None:
        if not self.offset_index.is_full:
            self.offset_index.append(last_offset, position)
        if not self.time_index.is_full:
            self.time_index.maybe_append(*self.max_timestamp())
        self._bytes_since_index_entry = 0
        self._recompute_roll_limits()

    def holds_relative_offset(self, offset: Offset) -> bool:
        """Whether the index can express the offset."""
        return 0 <= offset - self.base_offset <= _RELATIVE_OFFSET_MAX

    def waited_for_roll_ms(self, *, now_ms: TimestampMs, batch_timestamp_ms: TimestampMs) -> int:
        """How old the segment is for rolling by time: by the timestamps of its batches, by the clock without any."""
        first_ms = self.first_timestamp_ms
        if first_ms is None and self.size_bytes:
            header = read_header(self.log_file().pread(HEADER_BYTES, 0))
            first_ms = self.first_timestamp_ms = header.max_timestamp_ms
            self._recompute_roll_limits()
        if first_ms is not None and first_ms >= 0:
            return batch_timestamp_ms - first_ms
        return now_ms - self.created_ms

    def finish_indexes(self) -> None:
        """Nothing is appended any more, for now or for ever: the time index ends with the largest timestamp."""
        if self.size_bytes:
            self.time_index.maybe_append(*self.max_timestamp())
        self.offset_index.write_out()
        self.time_index.write_out()

    def forget_tail(self) -> None:
        """A segment that was rolled keeps no positions in memory."""
        self._tail_last_offsets = []
        self._tail_positions = []

    def resume(self, *, indexed_position: int) -> None:
        """The segment was loaded and is appended to again; its last index entry points to `indexed_position`."""
        self._bytes_since_index_entry = self.size_bytes - indexed_position

    # Finding

    def position_of(self, offset: Offset) -> int:
        """Where the first batch begins that ends at or after `offset`; the segment's size when there is none."""
        tail = self._tail_last_offsets
        if tail and offset > tail[0]:
            at = bisect_left(tail, offset, 1)
            return self._tail_positions[at] if at < len(tail) else self.size_bytes
        found = self.find(offset)
        return found[0] if found is not None else self.size_bytes

    def locate(self, offset: Offset) -> tuple[int, int]:
        """As `position_of`, with the size of that batch; (the segment's size, 0) when there is none."""
        tail = self._tail_last_offsets
        if tail and offset > tail[0]:
            at = bisect_left(tail, offset, 1)
            if at == len(tail):
                return self.size_bytes, 0
            positions = self._tail_positions
            end = positions[at + 1] if at + 1 < len(positions) else self.size_bytes
            return positions[at], end - positions[at]
        found = self.find(offset)
        return (found[0], found[1].batch_length + LOG_OVERHEAD_BYTES) if found is not None else (self.size_bytes, 0)

    def find(self, offset: Offset) -> tuple[int, BatchHeader] | None:
        """The first batch that ends at or after `offset`, with its position. A corrupt index is rebuilt on the way.

        CorruptBatch: the log itself is broken between the index entry and the batch.
        """
        try:
            return self._find_by_index(offset)
        except IndexCorrupt as error:
            if not self._repair_indexes():
                raise CorruptBatch(f"{self.log_path}: broken, and its index too: {error}") from error
            return self._find_by_index(offset)

    def _find_by_index(self, offset: Offset) -> tuple[int, BatchHeader] | None:
        if not self.size_bytes:
            return None
        indexed_offset, start = self.offset_index.lookup(offset)
        file = self._open_files.read_file(self.log_path)
        if start and not 0 < start <= self.size_bytes - HEADER_BYTES:
            raise IndexCorrupt(f"{self.offset_index.path}: position {start}, {self.size_bytes} bytes of log")
        if start:
            # The index is only trusted where the log confirms it: a header of a batch that can be the one.
            first = read_header(file.pread(HEADER_BYTES, start))
            if first.magic != MAGIC or not self.base_offset <= first.base_offset <= indexed_offset:
                raise IndexCorrupt(f"{self.offset_index.path}: {indexed_offset} is not at {start}")
            next_position = check_lengths(first, start, self.size_bytes)
            if first.base_offset + first.last_offset_delta >= offset:
                return start, first
            start = next_position
        return find_batch(file, start=start, end=self.size_bytes, offset=offset)

    def _repair_indexes(self) -> bool:
        """Rebuild the indexes from a whole log; a broken log keeps those it has: they may lead to what is behind.

        False: the log is broken. That is found out once, not with every read that comes along.
        """
        if not self._is_log_broken:
            try:
                for _ in self.headers():
                    pass
            except CorruptBatch:
                self._is_log_broken = True
        if self._is_log_broken:
            return False
        self.rebuild_indexes(self.headers())
        return True

    def headers(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a batch boundary on."""
        if start >= self.size_bytes:
            return iter(())
        return scan_headers(self.log_file(), start=start, end=self.size_bytes)

    def max_timestamp(self) -> tuple[TimestampMs, Offset]:
        """The largest timestamp and the last offset of the batch that has it; (-1, base offset) without any."""
        if self._max_timestamp is None:
            self._max_timestamp = self._read_max_timestamp()
        return self._max_timestamp

    def _read_max_timestamp(self) -> tuple[TimestampMs, Offset]:
        # Retention deletes by this value, so the log has to confirm it.
        try:
            timestamp_ms, offset = self.time_index.last_entry()
            if (
                timestamp_ms != NO_TIMESTAMP_MS
                and self.time_index.looks_ordered()
                and self._confirms(timestamp_ms, offset)
            ):
                return timestamp_ms, offset
        except (IndexCorrupt, CorruptBatch):
            pass
        if self._repair_indexes() and self._max_timestamp is not None:
            return self._max_timestamp
        largest = (NO_TIMESTAMP_MS, self.base_offset)
        with suppress(CorruptBatch):
            for _, header in self.headers():
                largest = max(largest, (header.max_timestamp_ms, header.base_offset + header.last_offset_delta))
        return largest

    def _confirms(self, timestamp_ms: TimestampMs, offset: Offset) -> bool:
        if not self.holds_relative_offset(offset):
            return False
        found = self.find(offset)
        return found is not None and found[1].max_timestamp_ms == timestamp_ms

    def batches_reaching(self, timestamp_ms: TimestampMs, *, from_offset: Offset) -> Iterator[tuple[int, BatchHeader]]:
        """The batches whose largest timestamp is at least `timestamp_ms`, from about `from_offset` on."""
        try:
            indexed_ms, offset = self.time_index.lookup(timestamp_ms)
            if indexed_ms != NO_TIMESTAMP_MS and not self._confirms(indexed_ms, offset):
                raise IndexCorrupt(f"{self.time_index.path}: {indexed_ms} is not at {offset}")
        except (IndexCorrupt, CorruptBatch):
            self._repair_indexes()
            offset = self.base_offset
        start = self.position_of(max(offset, from_offset))
        return (batch for batch in self.headers(start) if batch[1].max_timestamp_ms >= timestamp_ms)

    # Repair and truncation

    def rebuild_indexes(self, batches: Iterator[tuple[int, BatchHeader]]) -> tuple[TimestampMs, Offset]:
        """Rebuild both indexes from the segment's batches; returns the largest timestamp.

        What is indexed before `batches` raises stays, so a caller that cuts the log there has sound indexes.
        """
        self.offset_index.clear()
        self.time_index.clear()
        self.forget_tail()
        self._max_timestamp = (NO_TIMESTAMP_MS, self.base_offset)
        self.first_timestamp_ms = None
        self._recompute_roll_limits()
        indexed_position = 0
        try:
            for position, header in batches:
                last_offset = header.base_offset + header.last_offset_delta
                if header.max_timestamp_ms > self._max_timestamp[0]:
                    self._max_timestamp = (header.max_timestamp_ms, last_offset)
                if position - indexed_position > self.index_interval_bytes and self.holds_relative_offset(last_offset):
                    self.offset_index.make_room()
                    self.time_index.make_room()
                    self._add_index_entries(last_offset, position)
                    indexed_position = position
        finally:
            if not self.time_index.is_full:
                self.time_index.maybe_append(*self._max_timestamp)
            self.offset_index.write_out()
            self.time_index.write_out()
            self._bytes_since_index_entry = self.size_bytes - indexed_position
        return self._max_timestamp

    def truncate_to(self, offset: Offset) -> Offset | None:
        """Cut the first batch that ends at or after `offset` and all behind it.

        Returns the base offset of the batch that was cut, None when there was none.
        """
        found = self.find(offset)
        if found is None:
            return None
        position, header = found
        self.truncate_at(position, offset=header.base_offset)
        return header.base_offset

    def truncate_at(self, position: int, *, offset: Offset) -> None:
        """Truncate the file at a batch boundary, and from the indexes what ends at or after `offset`."""
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self._open_files.append_file(self.log_path).truncate(position)
        self.size_bytes = position
        self.forget_tail()
        self.first_timestamp_ms = None
        self._recompute_roll_limits()
        if position == 0:
            self._max_timestamp = (NO_TIMESTAMP_MS, self.base_offset)
            self._bytes_since_index_entry = 0
            return
        # A time index entry covers all batches up to the offset index entry made with it: those behind are looked at.
        indexed_position = self.offset_index.last_entry()[1]
        max_timestamp = self.time_index.last_entry()
        for _, header in self.headers(indexed_position):
            if header.max_timestamp_ms > max_timestamp[0]:
                max_timestamp = (header.max_timestamp_ms, header.base_offset + header.last_offset_delta)
        self._max_timestamp = max_timestamp
        self._bytes_since_index_entry = position - indexed_position

    # Removal

    @property
    def paths(self) -> tuple[str, str, str, str]:
        return (self.log_path, self.offset_index.path, self.time_index.path, self.transaction_index.path)

    def stop_appending(self) -> None:
        """Close the descriptors that only an active segment needs."""
        for path in self.paths:
            self._open_files.forget_appending(path)

    def remove_files(self) -> None:
        """Remove the files now: recovery has dropped the segment."""
        for path in self.paths:
            self._open_files.forget(path)
            if self._open_files.disk.exists(path):
                self._open_files.disk.remove(path)

    def rename_to_deleted(self) -> list[str]:
        """Take the files out of the log, renamed to `.deleted`; returns the new names, to be removed later.

        Slices of the segment that are on their way to sockets hold their own descriptors.
        """
        renamed = []
        for path in self.paths:
            self._open_files.forget(path)
            try:
                self._open_files.disk.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue  # an index that was never needed
            renamed.append(path + DELETED_SUFFIX)
        return renamed
