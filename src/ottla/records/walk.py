"""The walk through the records of a produced batch: lengths, counts, offsets, keys, timestamps.

A checksum only says that the bytes are those that the client sent. If they are not records, every later reader stops
at them. The C kernel takes nanoseconds per record, the Python version here takes microseconds.
"""

from threading import local
from typing import TypeAlias

from ottla.core.errors import ErrorCode
from ottla.core.types import NO_TIMESTAMP_MS, Buffer, TimestampMs
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, NONE, decompress_into
from ottla.records.errors import CorruptBatch
from ottla.records.header import COMPRESSION_MASK, HEADER_BYTES, BatchHeader, read_timestamps, set_max_timestamp
from ottla.records.kernel import IS_COMPILED, kernel
from ottla.records.read import MIN_RECORD_BYTES, plain_records
from ottla.records.validate import ProduceFault, ProduceLimits
from ottla.records.varint import decode_varint

# Smallest and largest timestamp, and on request the indexes of the records without a key.
Walked: TypeAlias = tuple[TimestampMs, TimestampMs, list[int] | None]

# The most that may be walked on the event loop: some hundred microseconds.
DECOMPRESSED_INLINE_MAX_BYTES = 128 * 1024

# Each thread that walks compressed batches keeps a buffer of this size; a larger batch gets memory of its own.
_KEPT_BYTES = 1024 * 1024


class _Kept(local):
    """The buffer that a thread decompresses into."""

    space = bytearray()


_kept = _Kept()

_INT32_MAX = 2**31 - 1
_INT32_MIN = -(2**31)
_INT32_BYTES_MAX = 5
_INT64_MAX = 2**63 - 1


def has_wrong_maximum(records: memoryview) -> bool:
    """Whether the header's largest timestamp is before the first record's, as from clients that leave it at -1.

    Lookups by time, retention and producer expiry depend on it, so such a batch is always walked. Cheap.
    """
    if len(records) < HEADER_BYTES:
        return False
    base_timestamp_ms, max_timestamp_ms = read_timestamps(records)
    return max_timestamp_ms < base_timestamp_ms


def check_records(
    batch: memoryview,
    header: BatchHeader,
    limits: ProduceLimits,
    *,
    requires_keys: bool,
    now_ms: TimestampMs,
    max_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> BatchHeader | ProduceFault:
    """The header of a batch that `check_produced` accepted and whose records are valid, or what is wrong with them.

    The largest timestamp comes from the records, as in Kafka: a header with another value is corrected in place.
    Decompression is capped at `max_bytes`; run it on a thread for compressed batches.
    """
    try:
        if header.attributes & COMPRESSION_MASK == NONE:
            min_ms, max_ms, keyless = walk_records(
                batch, HEADER_BYTES, header.record_count, header.base_timestamp_ms, requires_keys
            )
        else:
            plain = _plain(batch, header, max_bytes)
            min_ms, max_ms, keyless = walk_records(
                plain, 0, header.record_count, header.base_timestamp_ms, requires_keys
            )
    except CorruptBatch as error:
        return ProduceFault(ErrorCode.INVALID_RECORD, str(error))
    if keyless:
        return ProduceFault(ErrorCode.INVALID_RECORD, "a compacted topic takes no record without a key", tuple(keyless))
    if limits.is_log_append_time or (max_ms == header.max_timestamp_ms and min_ms == header.base_timestamp_ms):
        return header  # nearly always
    return _with_timestamps(batch, header, limits, min_ms=min_ms, max_ms=max_ms, now_ms=now_ms)


def _plain(batch: memoryview, header: BatchHeader, max_bytes: int) -> Buffer:
    """The encoded records, decompressed; valid until this thread's next call."""
    space = _kept.space
    kept_bytes = _KEPT_BYTES if max_bytes >= _KEPT_BYTES else min(max_bytes, DECOMPRESSED_INLINE_MAX_BYTES)
    if len(space) < kept_bytes:
        space = _kept.space = bytearray(kept_bytes)
    if len(space) <= max_bytes:
        size = decompress_into(header.compression, batch[HEADER_BYTES:], space)
        if size is not None:
            return memoryview(space)[:size]
    return plain_records(batch, 0, header=header, max_bytes=max_bytes)


def _with_timestamps(
    batch: memoryview,
    header: BatchHeader,
    limits: ProduceLimits,
    *,
    min_ms: TimestampMs,
    max_ms: TimestampMs,
    now_ms: TimestampMs,
) -> BatchHeader | ProduceFault:
    """The header's timestamps are in range; those of the records have to be, too."""
    is_too_old = now_ms - min_ms > limits.timestamp_before_max_ms and min_ms != NO_TIMESTAMP_MS
    if is_too_old or max_ms - now_ms > limits.timestamp_after_max_ms:
        earliest_ms, latest_ms = now_ms - limits.timestamp_before_max_ms, now_ms + limits.timestamp_after_max_ms
        return ProduceFault(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamps {min_ms} to {max_ms} out of range, allowed from {earliest_ms} to {latest_ms}",
        )
    if max_ms == header.max_timestamp_ms:
        return header
    return set_max_timestamp(batch, 0, header=header, max_timestamp_ms=max_ms)


def walk_records_in_python(
    data: Buffer, position: int, record_count: int, base_timestamp_ms: TimestampMs, with_keyless: bool, /
) -> Walked:
    """The kernel's function in Python: CorruptBatch when anything doesn't fit."""
    try:
        return _walk(bytes(data), position, record_count, base_timestamp_ms, with_keyless)
    except IndexError:
        raise CorruptBatch("a record runs over the end of its batch") from None


def _walk(data: bytes, position: int, record_count: int, base_timestamp_ms: TimestampMs, with_keyless: bool) -> Walked:
    # A number may cross the record's end: positions only grow, so the check at its end finds that.
    end = len(data)
    if not 0 <= record_count * MIN_RECORD_BYTES <= end - position:
        raise CorruptBatch(f"{record_count} records in {end - position} bytes")
    keyless: list[int] = []
    min_ms, max_ms = base_timestamp_ms, NO_TIMESTAMP_MS
    for index in range(record_count):
        length, position = _read_int(data, position)
        record_end = position + length
        if length <= 0 or record_end > end:
            raise CorruptBatch(f"record {index} runs over the end of its batch")
        timestamp_delta, position = decode_varint(data, position + 1)
        offset_delta, position = _read_int(data, position)
        if offset_delta != index:
            raise CorruptBatch(f"record {index} has the offset of another one")
        key_bytes, position = _read_int(data, position)
        if key_bytes < 0:
            keyless.append(index)
        position = _skip(position, key_bytes, -1, index)
        value_bytes, position = _read_int(data, position)
        position = _skip(position, value_bytes, -1, index)
        header_count, position = _read_int(data, position)
        if header_count:
            if not 0 < header_count <= (record_end - position) // 2:
                raise CorruptBatch(f"record {index} has more headers than bytes for them")
            for _ in range(header_count):
                name_bytes, position = _read_int(data, position)
                position = _skip(position, name_bytes, 0, index)
                value_bytes, position = _read_int(data, position)
                position = _skip(position, value_bytes, -1, index)
        if position != record_end:
            raise CorruptBatch(f"record {index} ends away from where its length says")
        timestamp_ms = _wrap(base_timestamp_ms + timestamp_delta)
        min_ms, max_ms = min(min_ms, timestamp_ms), max(max_ms, timestamp_ms)
    if position != end:
        raise CorruptBatch(f"{end - position} bytes after the last record")
    return min_ms, max_ms, keyless if with_keyless else None


def _read_int(data: bytes, position: int) -> tuple[int, int]:
    """A number of 32 bits, as lengths and counts are: a Java reader fails on anything longer."""
    number, after = decode_varint(data, position)
    if after - position > _INT32_BYTES_MAX or not _INT32_MIN <= number <= _INT32_MAX:
        raise CorruptBatch("a length or a count of more than 32 bits")
    return number, after


def _skip(position: int, length: int, least: int, index: int) -> int:
    if length < least:
        raise CorruptBatch(f"record {index} has a field of a wrong length")
    return position + length if length > 0 else position


def _wrap(number: int) -> int:
    """Sums of 64 bits wrap around, as they do in Java."""
    return (number + _INT64_MAX + 1) % 2**64 - _INT64_MAX - 1


walk_records = kernel.walk_records if IS_COMPILED else walk_records_in_python
