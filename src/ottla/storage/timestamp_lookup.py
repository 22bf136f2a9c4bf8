"""Finding records by time, over the segments of a log (ListOffsets).

The only place in storage that looks into batches: a lookup may decompress one.
"""

from contextlib import suppress

from ottla.core.types import NO_TIMESTAMP_MS, Offset, TimestampMs
from ottla.records.compression import DECOMPRESSED_BYTES_MAX
from ottla.records.errors import CorruptBatch
from ottla.records.header import BatchHeader
from ottla.records.read import iter_records, plain_records
from ottla.storage.log_results import TimestampOffset
from ottla.storage.open_files import OpenFiles
from ottla.storage.segment import Segment


def find_by_timestamp(
    segments: list[Segment], timestamp_ms: TimestampMs, *, open_files: OpenFiles, log_start_offset: Offset
) -> TimestampOffset | None:
    """The first record, by offset, whose timestamp is at least `timestamp_ms`.

    What a broken batch hides is passed over: the answer is then the first such record that can be read.
    """
    for segment in segments:
        if segment.max_timestamp()[0] < timestamp_ms:
            continue
        with suppress(CorruptBatch):
            for position, header in segment.batches_reaching(timestamp_ms, from_offset=log_start_offset):
                for record in iter_records(header, _plain_records(segment, position, header, open_files)):
                    if record.timestamp_ms >= timestamp_ms and record.offset >= log_start_offset:
                        return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return None


def find_max_timestamp(
    segments: list[Segment], *, open_files: OpenFiles, log_start_offset: Offset
) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log."""
    best: Segment | None = None
    best_ms = NO_TIMESTAMP_MS
    for segment in segments:
        timestamp_ms = segment.max_timestamp()[0]
        if timestamp_ms > best_ms:
            best, best_ms = segment, timestamp_ms
    if best is None:
        return None
    found = find_by_timestamp([best], best_ms, open_files=open_files, log_start_offset=log_start_offset)
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
    return find_by_timestamp(segments, left_ms, open_files=open_files, log_start_offset=log_start_offset)


def _plain_records(segment: Segment, position: int, header: BatchHeader, open_files: OpenFiles) -> bytes:
    data = open_files.read_file(segment.log_path).pread(header.size_bytes, position)
    return plain_records(data, 0, header=header, max_bytes=DECOMPRESSED_BYTES_MAX)
