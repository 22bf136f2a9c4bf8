"""The 61-byte header of a record batch (format v2) in a buffer: read it, go from batch to batch, patch it.

Nothing here reads the records behind the header.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from ottla.core.types import Buffer, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs
from ottla.records.checksum import crc32c
from ottla.records.errors import CorruptBatch

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12  # base offset and batch length, which the batch length does not include
MIN_BATCH_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES
MAGIC = 2

LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
CHECKSUMMED_POSITION = 21  # attributes and all that follows; the fields that a leader assigns lie before it
BASE_TIMESTAMP_POSITION = 27
MAX_TIMESTAMP_POSITION = 35

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

MAX_SEQUENCE = 2**31 - 1
NO_SEQUENCE = -1
NO_PRODUCER_EPOCH: ProducerEpoch = -1

_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_SIZE_FIELDS = Struct(">qi")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_TIMESTAMPS = Struct(">qq")


class BatchHeader(NamedTuple):
    """One header; a copy, which later patches don't change."""

    base_offset: Offset
    batch_length: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: TimestampMs
    max_timestamp_ms: TimestampMs
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, from its base offset to its last record."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The codec's id (records/compression.py has their names)."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_MASK != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def delete_horizon_ms(self) -> TimestampMs | None:
        """When the cleaner may remove the tombstones of the batch (KIP-534); stored as the base timestamp."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_to_sequence(self.base_sequence, self.last_offset_delta)


def add_to_sequence(sequence: int, increment: int) -> int:
    """Sequences go from 2^31-1 back to 0."""
    return (sequence + increment) & MAX_SEQUENCE


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; checks only that it is there."""
    if position < 0:
        raise CorruptBatch(f"no batch header at the negative position {position}")
    try:
        return BatchHeader._make(HEADER.unpack_from(buffer, position))
    except struct_error:
        raise CorruptBatch(
            f"batch header at {position}: {max(0, len(buffer) - position)} bytes, {HEADER_BYTES} expected"
        ) from None


def iter_headers(buffer: Buffer, *, allow_partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch in `buffer`, which holds whole batches and nothing else.

    A fetched buffer may end within a batch: with `allow_partial_tail` the walk stops there without an error.
    """
    position = 0
    end = len(buffer)
    while position < end:
        if end - position < HEADER_BYTES:
            if allow_partial_tail and _is_start_of_batch(buffer, position):
                return
            raise CorruptBatch(f"batch header at {position}: {end - position} bytes, {HEADER_BYTES} expected")
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if header.magic != MAGIC:
            raise CorruptBatch(f"batch at {position}: magic {header.magic}, {MAGIC} expected")
        if header.batch_length < MIN_BATCH_LENGTH:
            raise CorruptBatch(
                f"batch at {position}: length {header.batch_length}, at least {MIN_BATCH_LENGTH} expected"
            )
        next_position = position + LOG_OVERHEAD_BYTES + header.batch_length
        if next_position > end:
            if allow_partial_tail:
                return
            raise CorruptBatch(f"batch at {position}: {header.size_bytes} bytes expected, {end - position} found")
        yield position, header
        position = next_position


def _is_start_of_batch(buffer: Buffer, position: int) -> bool:
    """Whether fewer bytes than a header can still be the beginning of a valid batch."""
    if len(buffer) - position < LOG_OVERHEAD_BYTES:
        return True
    _, batch_length = _SIZE_FIELDS.unpack_from(buffer, position)
    return bool(batch_length >= MIN_BATCH_LENGTH)


def crc_of(buffer: Buffer, position: int, size_bytes: int) -> int:
    """The CRC-32C that the batch of `size_bytes` at `position` should have."""
    return crc32c(buffer, position + CHECKSUMMED_POSITION, position + size_bytes)


def patch_base_offset_and_epoch(
    buffer: bytearray | memoryview, position: int, *, base_offset: Offset, leader_epoch: LeaderEpoch
) -> None:
    """Write the fields that the leader assigns, in place; both lie before the checksummed part."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def set_append_time(
    buffer: bytearray | memoryview, position: int, *, header: BatchHeader, append_time_ms: TimestampMs
) -> BatchHeader:
    """Write the broker's time into the batch (message.timestamp.type=LogAppendTime), in place.

    Records keep their deltas: a reader of such a batch takes the maximum timestamp for every record. This computes the
    checksum again, so it reads the whole batch.
    """
    attributes = header.attributes | LOG_APPEND_TIME_MASK
    _ATTRIBUTES.pack_into(buffer, position + CHECKSUMMED_POSITION, attributes)
    _TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, append_time_ms)
    crc = crc_of(buffer, position, header.size_bytes)
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)
    return header._replace(attributes=attributes, max_timestamp_ms=append_time_ms, crc=crc)


def read_timestamps(buffer: Buffer) -> tuple[TimestampMs, TimestampMs]:
    """Base and maximum timestamp of the batch at the start of `buffer`, whose header is complete."""
    base_ms, max_ms = _TIMESTAMPS.unpack_from(buffer, BASE_TIMESTAMP_POSITION)
    return base_ms, max_ms


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, *, header: BatchHeader, max_timestamp_ms: TimestampMs
) -> BatchHeader:
    """Write the records' largest timestamp into a batch whose producer did not, in place.

    Check the old checksum first: the new one would hide old damage.
    """
    _TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    crc = write_crc(buffer, position, header.size_bytes)
    return header._replace(max_timestamp_ms=max_timestamp_ms, crc=crc)


def write_crc(buffer: bytearray | memoryview, position: int, size_bytes: int) -> int:
    """Compute the checksum of a batch and write it."""
    crc = crc_of(buffer, position, size_bytes)
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)
    return crc
