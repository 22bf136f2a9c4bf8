"""The leader's check of what a client produced to one partition, before it is appended.

`check_produced` looks at the header and the checksum only; `check_records_deeply` also walks the records, for topics
that need it (compacted, or stored under another codec), and `mend_max_timestamp` does for batches whose header can't be
right about it. Faults are values: error code and message for the answer.
"""

from typing import NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.types import NO_TIMESTAMP_MS, Buffer, TimestampMs
from ottla.records.checksum import SMALL_BYTES, crc32c, small_crc32c
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, LAST_CODEC, ZSTD
from ottla.records.errors import CorruptBatch
from ottla.records.header import (
    CHECKSUMMED_POSITION,
    CODEC_POSITION,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_MASK,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL_MASK,
    BatchHeader,
    read_timestamps,
    set_max_timestamp,
)
from ottla.records.read import MIN_RECORD_BYTES, plain_records
from ottla.records.varint import decode_varint

FIRST_PRODUCE_VERSION_WITH_ZSTD = 7
_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)
_WALKED_INLINE_MAX_BYTES = 16 * 1024  # a walk holds the interpreter: larger batches are walked on a thread
_SMALL_BATCH_BYTES = SMALL_BYTES
_new_tuple = tuple.__new__

_CORRUPT_MESSAGE = ErrorCode.CORRUPT_MESSAGE
_MESSAGE_TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
_INVALID_TIMESTAMP = ErrorCode.INVALID_TIMESTAMP
_UNSUPPORTED_COMPRESSION_TYPE = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
_INVALID_RECORD = ErrorCode.INVALID_RECORD


class ProduceLimits(NamedTuple):
    """What a topic's configuration allows; made once per configuration, not per request."""

    max_message_bytes: int = 1024 * 1024 + LOG_OVERHEAD_BYTES
    is_log_append_time: bool = False
    timestamp_before_max_ms: int = _INT64_MAX
    timestamp_after_max_ms: int = 3_600_000


class ProduceFault(NamedTuple):
    """Why a batch is refused; `record_indexes` names the records at fault where single ones are."""

    error_code: ErrorCode
    message: str
    record_indexes: tuple[int, ...] = ()


def check_produced(
    records: memoryview, limits: ProduceLimits, *, produce_version: int, now_ms: TimestampMs, is_prepared: bool = False
) -> BatchHeader | ProduceFault:
    """The header of the one sound batch in `records`, or what is wrong with them.

    `is_prepared`: the caller sees to a maximum timestamp that can't be right, or has. Otherwise it is put right here
    where that is quick, and refused where it is not (`needs_walk`).
    """
    size_bytes = len(records)
    if size_bytes < HEADER_BYTES:
        return _fault_of_short_records(records)
    fields = HEADER.unpack_from(records)
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = fields
    if magic != MAGIC:
        return _fault_of_magic(magic)
    if batch_length + LOG_OVERHEAD_BYTES != size_bytes:
        return _fault_of_size(batch_length, size_bytes)
    if size_bytes > limits.max_message_bytes:
        return ProduceFault(
            _MESSAGE_TOO_LARGE, f"batch of {size_bytes} bytes, max.message.bytes is {limits.max_message_bytes}"
        )
    if size_bytes <= _SMALL_BATCH_BYTES:
        computed = small_crc32c(records[CHECKSUMMED_POSITION:])
    else:
        computed = crc32c(records, CHECKSUMMED_POSITION, size_bytes)
    if computed != crc:
        return ProduceFault(_CORRUPT_MESSAGE, f"batch of {size_bytes} bytes: its checksum is not {crc:#010x}")
    if record_count <= 0 or record_count != last_offset_delta + 1:
        return ProduceFault(
            _INVALID_RECORD, f"batch of {record_count} records with offsets up to {last_offset_delta} after its first"
        )
    if base_offset != 0:
        return ProduceFault(_INVALID_RECORD, f"batch with base offset {base_offset}, a producer sends 0")
    if attributes & CONTROL_MASK:
        return ProduceFault(_INVALID_RECORD, "control batch from a client; only brokers write them")
    codec = attributes & COMPRESSION_MASK
    if codec >= ZSTD:
        if codec > LAST_CODEC:
            return ProduceFault(_INVALID_RECORD, f"unknown codec {codec}")
        if produce_version < FIRST_PRODUCE_VERSION_WITH_ZSTD:
            return ProduceFault(
                _UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd in Produce version {produce_version}, allowed from {FIRST_PRODUCE_VERSION_WITH_ZSTD} on",
            )
    if producer_id >= 0:
        if base_sequence < 0 or producer_epoch < 0:
            return ProduceFault(
                _INVALID_RECORD,
                f"batch of producer {producer_id} with epoch {producer_epoch} and sequence {base_sequence}",
            )
    elif attributes & TRANSACTIONAL_MASK:
        return ProduceFault(_INVALID_RECORD, "transactional batch without a producer id")
    if not limits.is_log_append_time:
        # A record without a time (-1) is let through, as Kafka does.
        if max_timestamp_ms - now_ms > limits.timestamp_after_max_ms:
            return _fault_of_timestamp(max_timestamp_ms, now_ms, limits)
        if now_ms - base_timestamp_ms > limits.timestamp_before_max_ms and base_timestamp_ms != NO_TIMESTAMP_MS:
            return _fault_of_timestamp(base_timestamp_ms, now_ms, limits)
        if base_timestamp_ms < NO_TIMESTAMP_MS or max_timestamp_ms < NO_TIMESTAMP_MS:
            return ProduceFault(_INVALID_TIMESTAMP, f"timestamps from {base_timestamp_ms} to {max_timestamp_ms}")
        if attributes & LOG_APPEND_TIME_MASK:
            return ProduceFault(_INVALID_TIMESTAMP, "batch marked with append time; only brokers set it")
        if max_timestamp_ms < base_timestamp_ms and not is_prepared:
            if needs_walk(records, limits):
                return ProduceFault(_INVALID_TIMESTAMP, "the records have to be walked for their largest timestamp")
            return mend_max_timestamp(records, _new_tuple(BatchHeader, fields), limits, now_ms=now_ms)
    return _new_tuple(BatchHeader, fields)  # less than half the time of BatchHeader._make


def _fault_of_short_records(records: memoryview) -> ProduceFault:
    if len(records) == 0:
        return ProduceFault(_INVALID_RECORD, "no batch; exactly one is expected")
    if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] < MAGIC:
        return _fault_of_magic(records[MAGIC_POSITION])
    return ProduceFault(_CORRUPT_MESSAGE, f"{len(records)} bytes are no batch")


def _fault_of_magic(magic: int) -> ProduceFault:
    return ProduceFault(_INVALID_RECORD, f"batch with magic {magic}, {MAGIC} expected")


def _fault_of_size(batch_length: int, size_bytes: int) -> ProduceFault:
    if MIN_BATCH_LENGTH <= batch_length < size_bytes - LOG_OVERHEAD_BYTES:
        return ProduceFault(_INVALID_RECORD, "more than one batch; exactly one is expected")
    return ProduceFault(
        _CORRUPT_MESSAGE,
        f"batch length {batch_length} in {size_bytes} bytes, {size_bytes - LOG_OVERHEAD_BYTES} expected",
    )


def _fault_of_timestamp(timestamp_ms: TimestampMs, now_ms: TimestampMs, limits: ProduceLimits) -> ProduceFault:
    earliest_ms = now_ms - limits.timestamp_before_max_ms
    latest_ms = now_ms + limits.timestamp_after_max_ms
    return ProduceFault(
        _INVALID_TIMESTAMP, f"timestamp {timestamp_ms} out of range, allowed from {earliest_ms} to {latest_ms}"
    )


def needs_walk(records: memoryview, limits: ProduceLimits) -> bool:
    """Whether a batch's largest timestamp has to be found among its records, and that takes too long for the loop.

    Cheap; says nothing about whether the batch is sound.
    """
    if limits.is_log_append_time or len(records) < HEADER_BYTES:
        return False
    base_timestamp_ms, max_timestamp_ms = read_timestamps(records)
    if max_timestamp_ms >= base_timestamp_ms:
        return False
    return bool(records[CODEC_POSITION] & COMPRESSION_MASK) or len(records) > _WALKED_INLINE_MAX_BYTES


def mend_max_timestamp(
    records: memoryview,
    header: BatchHeader,
    limits: ProduceLimits,
    *,
    now_ms: TimestampMs,
    max_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> BatchHeader | ProduceFault:
    """Compute what the header says of the largest timestamp, where that is below the first record's time.

    Some clients leave it out (-1): lookups by time, retention and the expiry of producers go by it. `check_produced`
    let the batch through before, so its checksum was right.
    """
    if limits.is_log_append_time or header.max_timestamp_ms >= header.base_timestamp_ms:
        return header
    walked = _walk(records, header, max_bytes=max_bytes)
    if isinstance(walked, ProduceFault):
        return walked
    max_timestamp_ms = header.base_timestamp_ms + walked.max_timestamp_delta
    if max_timestamp_ms - now_ms > limits.timestamp_after_max_ms:
        return _fault_of_timestamp(max_timestamp_ms, now_ms, limits)
    if not NO_TIMESTAMP_MS <= max_timestamp_ms <= _INT64_MAX:
        return ProduceFault(_INVALID_TIMESTAMP, f"records with timestamps up to {max_timestamp_ms}")
    if max_timestamp_ms == header.max_timestamp_ms:
        return header  # all records are older than the time that their deltas count from
    return set_max_timestamp(records, 0, header=header, max_timestamp_ms=max_timestamp_ms)


def check_records_deeply(
    batch: Buffer, header: BatchHeader, *, requires_keys: bool, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> ProduceFault | None:
    """Walk the records of a batch that `check_produced` let through; decompression is capped at `max_bytes`.

    Costs time for every record: for large or compressed batches run it on a thread.
    """
    walked = _walk(batch, header, max_bytes=max_bytes)
    if isinstance(walked, ProduceFault):
        return walked
    if requires_keys and walked.keyless:
        return ProduceFault(_INVALID_RECORD, "a compacted topic takes no record without a key", tuple(walked.keyless))
    return None


class _Walked(NamedTuple):
    """What a walk over all records of a batch finds."""

    keyless: list[int]  # indexes of the records without a key
    max_timestamp_delta: int


def _walk(batch: Buffer, header: BatchHeader, *, max_bytes: int) -> _Walked | ProduceFault:
    try:
        return _walk_records(plain_records(batch, 0, header=header, max_bytes=max_bytes), header.record_count)
    except CorruptBatch as error:
        return ProduceFault(_INVALID_RECORD, str(error))
    except IndexError:
        return ProduceFault(_INVALID_RECORD, "a record runs over the end of its batch")


def _walk_records(data: bytes, count: int) -> _Walked:
    """CorruptBatch or IndexError when anything doesn't fit.

    Numbers may be read over a record's end: positions only grow, so the check at its end finds that.
    """
    end = len(data)
    if count * MIN_RECORD_BYTES > end:
        raise CorruptBatch(f"{count} records in {end} bytes")
    keyless = []
    max_timestamp_delta = _INT64_MIN
    position = 0
    for index in range(count):
        length, position = decode_varint(data, position)
        record_end = position + length
        if length < 0 or record_end > end:
            raise CorruptBatch(f"record {index} of {length} bytes, {end - position} left")
        timestamp_delta, position = decode_varint(data, position + 1)
        if timestamp_delta > max_timestamp_delta:
            max_timestamp_delta = timestamp_delta
        offset_delta, position = decode_varint(data, position)
        if offset_delta != index:
            raise CorruptBatch(f"record {index} with offset delta {offset_delta}")
        key_length, position = decode_varint(data, position)
        if key_length > 0:
            position += key_length
        elif key_length < 0:
            if key_length != -1:
                raise CorruptBatch(f"record {index} with a key of length {key_length}")
            keyless.append(index)
        value_length, position = decode_varint(data, position)
        if value_length > 0:
            position += value_length
        elif value_length < -1:
            raise CorruptBatch(f"record {index} with a value of length {value_length}")
        header_count, position = decode_varint(data, position)
        if header_count:
            position = _skip_headers(data, position, record_end, header_count)
        if position != record_end:
            raise CorruptBatch(f"record {index} ends {record_end - position} bytes away from where its length says")
    if position != end:
        raise CorruptBatch(f"{end - position} bytes after the last record")
    return _Walked(keyless, max_timestamp_delta)


def _skip_headers(data: bytes, position: int, record_end: int, header_count: int) -> int:
    if not 0 < header_count * 2 <= record_end - position:
        raise CorruptBatch(f"{header_count} headers in {record_end - position} bytes")
    for _ in range(header_count):
        key_length, position = decode_varint(data, position)
        if key_length < 0:
            raise CorruptBatch("a header without a key")
        value_length, position = decode_varint(data, position + key_length)
        if value_length < -1:
            raise CorruptBatch(f"a header value of length {value_length}")
        if value_length > 0:
            position += value_length
    return position
