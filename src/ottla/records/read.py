"""Reads the records of a batch, for clients, tools and replays of internal topics; never on the broker's hot path.

Every length is checked against the bytes that are left; anything that doesn't fit exactly raises CorruptBatch.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.core.types import Buffer, Offset, TimestampMs
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, NAMES, decompress
from ottla.records.errors import CorruptBatch
from ottla.records.header import HEADER_BYTES, MAGIC, MIN_BATCH_LENGTH, BatchHeader, crc_of, read_header
from ottla.records.varint import decode_varint

MIN_RECORD_BYTES = 7  # a length and six fields, one byte each

_CONTROL_KEY = Struct(">hh")  # version, type
_END_TRANSACTION_VALUE = Struct(">hi")  # version, coordinator epoch


class Record(NamedTuple):
    """One record with its absolute offset and timestamp."""

    offset: Offset
    timestamp_ms: TimestampMs
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class EndTransactionMarker(NamedTuple):
    """The content of a control record."""

    is_commit: bool
    coordinator_epoch: int


def read_batch(
    buffer: Buffer, position: int = 0, *, max_bytes: int = DECOMPRESSED_BYTES_MAX, check_crc: bool = True
) -> tuple[BatchHeader, list[Record]]:
    """The batch at `position`, with every check."""
    header = whole_batch_header(buffer, position)
    if check_crc:
        crc = crc_of(buffer, position, header.size_bytes)
        if crc != header.crc:
            raise CorruptBatch(
                f"batch of offset {header.base_offset}: checksum {crc:#010x}, header says {header.crc:#010x}"
            )
    return header, read_records(header, plain_records(buffer, position, header=header, max_bytes=max_bytes))


def whole_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of a batch that is complete in `buffer`."""
    header = read_header(buffer, position)
    if header.magic != MAGIC:
        raise CorruptBatch(f"batch at {position}: magic {header.magic}, {MAGIC} expected")
    if header.batch_length < MIN_BATCH_LENGTH or header.size_bytes > len(buffer) - position:
        raise CorruptBatch(f"batch at {position}: {header.size_bytes} bytes expected, {len(buffer) - position} found")
    return header


def plain_records(buffer: Buffer, position: int, *, header: BatchHeader, max_bytes: int) -> bytes:
    """The encoded records of a batch, decompressed."""
    codec = header.compression
    if codec >= len(NAMES):
        raise CorruptBatch(f"batch of offset {header.base_offset}: unknown codec {codec}")
    stored = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    return bytes(decompress(codec, stored, max_bytes))


def read_records(header: BatchHeader, data: bytes) -> list[Record]:
    """The records of `iter_records` as a list, in a third of the time: for code that reads millions.

    It reads numbers of one and two bytes inline, because a call costs more than all of that; larger numbers and
    records with headers take the slow path. Each length is checked against the end of its record, and the record's
    length against the end of the batch.
    """
    base_offset = header.base_offset
    base_timestamp_ms = header.base_timestamp_ms
    append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
    last_offset_delta = header.last_offset_delta
    count = header.record_count
    end = len(data)
    if count < 0 or count * MIN_RECORD_BYTES > end:
        raise CorruptBatch(f"batch of offset {base_offset}: {count} records in {end} bytes")
    records: list[Record] = []
    add = records.append
    new = tuple.__new__
    previous_delta = -1
    position = 0
    try:
        for _ in range(count):
            start = position
            number = data[position]
            position += 1
            if number >= 0x80:
                following = data[position]
                position += 1
                if following >= 0x80:
                    number, position = decode_varint(data, start)
                    number <<= 1  # back to the form of the short ones; a negative number stays negative
                else:
                    number = number & 0x7F | following << 7
            record_end = position + (number >> 1)
            if number & 1 or number < 0 or record_end > end:
                raise CorruptBatch(f"record of {(number >> 1) ^ -(number & 1)} bytes, {end - position} left")

            position += 1  # attributes
            timestamp_delta = data[position]
            position += 1
            if timestamp_delta < 0x80:
                timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
            else:
                timestamp_delta, position = decode_varint(data, position - 1)

            offset_delta = data[position]
            position += 1
            if offset_delta >= 0x80:
                following = data[position]
                position += 1
                if following < 0x80:
                    offset_delta = offset_delta & 0x7F | following << 7
                    offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)
                else:
                    offset_delta, position = decode_varint(data, position - 2)
            else:
                offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)

            key: bytes | None
            length = data[position]
            if length == 1:
                key = None
                position += 1
            elif length < 0x80 and not length & 1:
                position += 1
                field_end = position + (length >> 1)
                if field_end > record_end:
                    raise CorruptBatch(f"a field of {length >> 1} bytes, {record_end - position} left")
                key = data[position:field_end]
                position = field_end
            else:
                key, position = _read_bytes(data, position, record_end)

            value: bytes | None
            length = data[position]
            following = data[position + 1]
            if length >= 0x80 and following < 0x80 and not length & 1:
                length = (length & 0x7F | following << 7) >> 1
                position += 2
                field_end = position + length
                if field_end > record_end:
                    raise CorruptBatch(f"a field of {length} bytes, {record_end - position} left")
                value = data[position:field_end]
                position = field_end
            else:
                value, position = _read_bytes(data, position, record_end)

            headers: tuple[tuple[str, bytes | None], ...] = ()
            if data[position]:
                headers, position = _read_headers(data, position, record_end)
            else:
                position += 1
            if position != record_end:
                raise CorruptBatch(f"record ends {record_end - position} bytes away from where its length says")
            if not previous_delta < offset_delta <= last_offset_delta:
                raise CorruptBatch(f"batch of offset {base_offset}: offset delta {offset_delta} after {previous_delta}")
            previous_delta = offset_delta
            timestamp_ms = base_timestamp_ms + timestamp_delta if append_time_ms is None else append_time_ms
            add(new(Record, (base_offset + offset_delta, timestamp_ms, key, value, headers)))
    except IndexError:
        raise CorruptBatch(f"batch of offset {base_offset}: a record runs over the end of its batch") from None
    if position != end:
        raise CorruptBatch(f"batch of offset {base_offset}: {end - position} bytes after its last record")
    return records


def iter_records(header: BatchHeader, data: bytes) -> Iterator[Record]:
    """The records encoded in `data`: exactly as many as the header says, and nothing after them."""
    base_offset = header.base_offset
    base_timestamp_ms = header.base_timestamp_ms
    append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
    last_offset_delta = header.last_offset_delta
    count = header.record_count
    end = len(data)
    if count < 0 or count * MIN_RECORD_BYTES > end:
        raise CorruptBatch(f"batch of offset {base_offset}: {count} records in {end} bytes")
    previous_delta = -1
    position = 0
    for _ in range(count):
        try:
            timestamp_delta, offset_delta, key, value, headers, position = _read_record(data, position, end)
        except IndexError:
            raise CorruptBatch(f"batch of offset {base_offset}: a record runs over the end of its batch") from None
        if not previous_delta < offset_delta <= last_offset_delta:
            raise CorruptBatch(f"batch of offset {base_offset}: offset delta {offset_delta} after {previous_delta}")
        previous_delta = offset_delta
        yield Record(
            base_offset + offset_delta,
            base_timestamp_ms + timestamp_delta if append_time_ms is None else append_time_ms,
            key,
            value,
            headers,
        )
    if position != end:
        raise CorruptBatch(f"batch of offset {base_offset}: {end - position} bytes after its last record")


_ParsedRecord = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


def _read_record(data: bytes, position: int, end: int) -> _ParsedRecord:
    """Fields of the record at `position`, and the position of the next one.

    A number may cross the record's end: positions only grow, so the check at the end finds it.
    """
    length, position = decode_varint(data, position)
    record_end = position + length
    if length < 0 or record_end > end:
        raise CorruptBatch(f"record of {length} bytes, {end - position} left")
    timestamp_delta, position = decode_varint(data, position + 1)
    offset_delta, position = decode_varint(data, position)
    key, position = _read_bytes(data, position, record_end)
    value, position = _read_bytes(data, position, record_end)
    headers, position = _read_headers(data, position, record_end)
    if position != record_end:
        raise CorruptBatch(f"record ends {record_end - position} bytes away from where its length says")
    return timestamp_delta, offset_delta, key, value, headers, position


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = decode_varint(data, position)
    if not 0 <= count * 2 <= end - position:
        raise CorruptBatch(f"{count} headers in {end - position} bytes")
    pairs = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise CorruptBatch("a header without a key")
        value, position = _read_bytes(data, position, end)
        # As in Java: a key that is not UTF-8 doesn't make the record unreadable.
        pairs.append((key.decode(errors="replace"), value))
    return tuple(pairs), position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length < 0:
        if length == -1:
            return None, position
        raise CorruptBatch(f"a field of length {length}")
    field_end = position + length
    if field_end > end:
        raise CorruptBatch(f"a field of {length} bytes, {end - position} left")
    return data[position:field_end], field_end


def read_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """The marker in a record of a control batch; None for an unknown type of control record."""
    key = record.key
    value = record.value
    if key is None or len(key) < _CONTROL_KEY.size:
        raise CorruptBatch(f"offset {record.offset}: a control record without a type")
    _, marker_type = _CONTROL_KEY.unpack_from(key)
    if marker_type not in (0, 1):
        return None
    if value is None or len(value) < _END_TRANSACTION_VALUE.size:
        raise CorruptBatch(f"offset {record.offset}: a transaction marker without a coordinator epoch")
    _, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(value)
    return EndTransactionMarker(marker_type == 1, coordinator_epoch)
