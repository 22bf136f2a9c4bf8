"""Finding records by time, over the segments of a log (ListOffsets).

The only place in storage that looks into batches: a lookup may decompress one, which takes too long for the event loop.
So the batch that most likely has the record can be found first, and looked into on a thread.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from ottla.core.disk import ReadFile
from ottla.core.types import NO_TIMESTAMP_MS, Offset, TimestampMs
from ottla.records.compression import DECOMPRESSED_BYTES_MAX
from ottla.records.errors import CorruptBatch
from ottla.records.header import BatchHeader
from ottla.records.read import iter_records, plain_records
from ottla.storage.log_results import TimestampOffset
from ottla.storage.segment import Segment

_LOOKED_INTO_INLINE_MAX_BYTES = 64 * 1024


class BatchToOpen(NamedTuple):
    """A batch that has a record of at least `timestamp_ms`, by its header. `look` may run on any thread."""

    file: ReadFile
    position: int
    header: BatchHeader
    timestamp_ms: TimestampMs
    log_start_offset: Offset

    @property
    def is_cheap(self) -> bool:
        """Whether looking into it takes no longer than handing it to a thread would."""
        return not self.header.compression and self.header.size_bytes <= _LOOKED_INTO_INLINE_MAX_BYTES

    def look(self) -> TimestampOffset | None:
        """The record; None when the batch can't be read, or has it only below the log's start.

        A disk that fails here fails again in the whole lookup, which says so.
        """
        try:
            data = self.file.pread(self.header.size_bytes, self.position)
            plain = plain_records(data, 0, header=self.header, max_bytes=DECOMPRESSED_BYTES_MAX)
            for record in iter_records(self.header, plain):
                if record.timestamp_ms >= self.timestamp_ms and record.offset >= self.log_start_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset, self.header.leader_epoch)
        except (CorruptBatch, OSError):
            pass
        return None


def first_batch_reaching(
    segments: list[Segment], timestamp_ms: TimestampMs | None, *, log_start_offset: Offset
) -> BatchToOpen | None:
    """The first batch whose largest timestamp is at least `timestamp_ms`; None stands for the log's largest."""
    if timestamp_ms is None:
        timestamp_ms = max(segment.max_timestamp()[0] for segment in segments)
        if timestamp_ms < 0:
            return None
    return next(_batches_reaching(segments, timestamp_ms, log_start_offset), None)


def find_by_timestamp(
    segments: list[Segment], timestamp_ms: TimestampMs, *, log_start_offset: Offset
) -> TimestampOffset | None:
    """The first record, by offset, whose timestamp is at least `timestamp_ms`.

    What a broken batch hides is passed over: the answer is then the first such record that can be read.
    """
    for batch in _batches_reaching(segments, timestamp_ms, log_start_offset):
        found = batch.look()
        if found is not None:
            return found
    return None


def find_max_timestamp(segments: list[Segment], *, log_start_offset: Offset) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log."""
    best: Segment | None = None
    best_ms = NO_TIMESTAMP_MS
    for segment in segments:
        timestamp_ms = segment.max_timestamp()[0]
        if timestamp_ms > best_ms:
            best, best_ms = segment, timestamp_ms
    if best is None:
        return None
    found = find_by_timestamp([best], best_ms, log_start_offset=log_start_offset)
    if found is not None:
        return found
    # The record is below the log's start (delete-records within a segment): look at what is left, batch by batch.
    left_ms = NO_TIMESTAMP_MS
    for segment in segments:
        with suppress(CorruptBatch):
            for _, header in segment.headers():
                if header.base_offset + header.last_offset_delta >= log_start_offset:
                    left_ms = max(left_ms, header.max_timestamp_ms)
    if left_ms == NO_TIMESTAMP_MS:
        return None
    return find_by_timestamp(segments, left_ms, log_start_offset=log_start_offset)


def _batches_reaching(
    segments: list[Segment], timestamp_ms: TimestampMs, log_start_offset: Offset
) -> Iterator[BatchToOpen]:
    for segment in segments:
        if segment.max_timestamp()[0] < timestamp_ms:
            continue
        with suppress(CorruptBatch):
            for position, header in segment.batches_reaching(timestamp_ms, from_offset=log_start_offset):
                file = segment.log_file()
                yield BatchToOpen(file, position, header, timestamp_ms, log_start_offset)
