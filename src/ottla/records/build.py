"""Builds record batches: from single records, from encoded records, and the markers that end transactions.

For clients, internal topics and tools; a broker stores the batches that producers built.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TypeAlias

from ottla.core.types import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP_MS,
    Buffer,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TimestampMs,
)
from ottla.records.checksum import crc32c
from ottla.records.compression import NONE, compress
from ottla.records.header import (
    CHECKSUMMED_POSITION,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_MASK,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    write_crc,
)
from ottla.records.varint import encode_varint

# The header in two parts: the bytes that the checksum covers, and those before them.
_pack_checksummed = Struct(">hiqqqhii").pack
_pack_front = Struct(">qiibI").pack

RecordHeaders: TypeAlias = Sequence[tuple[str, bytes | None]]

ABORT_MARKER = 0
COMMIT_MARKER = 1
_CONTROL_KEY = Struct(">hh")  # version, type
_END_TRANSACTION_VALUE = Struct(">hi")  # version, coordinator epoch

_NULL = encode_varint(-1)
_NO_HEADERS = encode_varint(0)
_NO_ATTRIBUTES = b"\x00"
_NO_ATTRIBUTES_NO_DELAY = b"\x00\x00"
_SMALL_COUNT = 1024
_SMALL = [encode_varint(number) for number in range(_SMALL_COUNT)]


def assemble_batch(
    records: Buffer,
    *,
    record_count: int,
    last_offset_delta: int,
    base_timestamp_ms: TimestampMs,
    max_timestamp_ms: TimestampMs,
    attributes: int,
    base_offset: Offset = 0,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytearray:
    """Put header and checksum in front of records that are encoded, and compressed as `attributes` say."""
    batch = bytearray(HEADER_BYTES + len(records))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD_BYTES,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    batch[HEADER_BYTES:] = records
    write_crc(batch, 0, len(batch))
    return batch


def build_plain_batch(timestamp_ms: TimestampMs, records: Sequence[tuple[bytes, bytes | None]]) -> bytearray:
    """An uncompressed batch of keys and values with one timestamp, in a third of the builder's time for small batches.

    For what a broker writes itself while a client waits for the answer.
    """
    parts = [b""]
    offset_delta = 0
    for key, value in records:
        delta = _SMALL[offset_delta] if offset_delta < _SMALL_COUNT else encode_varint(offset_delta)
        length = len(key)
        key_length = _SMALL[length] if length < _SMALL_COUNT else encode_varint(length)
        length += 3 + len(delta) + len(key_length)  # attributes, timestamp delta, number of headers
        if value is None:
            length += 1
            parts += (_SMALL[length] if length < _SMALL_COUNT else encode_varint(length), _NO_ATTRIBUTES_NO_DELAY)
            parts += (delta, key_length, key, _NULL, _NO_HEADERS)
        else:
            value_bytes = len(value)
            value_length = _SMALL[value_bytes] if value_bytes < _SMALL_COUNT else encode_varint(value_bytes)
            length += len(value_length) + value_bytes
            size = _SMALL[length] if length < _SMALL_COUNT else encode_varint(length)
            parts += (size, _NO_ATTRIBUTES_NO_DELAY, delta, key_length, key, value_length, value, _NO_HEADERS)
        offset_delta += 1
    parts[0] = _pack_checksummed(
        NONE,
        offset_delta - 1,
        timestamp_ms,
        timestamp_ms,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        offset_delta,
    )
    checksummed = b"".join(parts)
    length = CHECKSUMMED_POSITION - LOG_OVERHEAD_BYTES + len(checksummed)
    crc = crc32c(checksummed, 0, len(checksummed))
    return bytearray(_pack_front(0, length, NO_LEADER_EPOCH, MAGIC, crc) + checksummed)


class BatchBuilder:
    """One batch that is being filled: `append` encodes records at once, `build` adds header, codec and checksum.

    Owned by one writer. `size_bytes` is the size of the batch, uncompressed. `build` does not change the builder, so
    the same records can be built again, with another sequence or codec.
    """

    __slots__ = (
        "_base_timestamp_ms",
        "_delete_horizon_ms",
        "_last_offset_delta",
        "_max_timestamp_ms",
        "_records",
        "record_count",
    )

    def __init__(self, *, delete_horizon_ms: TimestampMs | None = None) -> None:
        self.record_count = 0
        self._records = bytearray()
        self._delete_horizon_ms = delete_horizon_ms
        # The delete horizon is stored as the base timestamp (KIP-534), so deltas count from it.
        self._base_timestamp_ms = NO_TIMESTAMP_MS if delete_horizon_ms is None else delete_horizon_ms
        self._max_timestamp_ms = NO_TIMESTAMP_MS
        self._last_offset_delta = -1

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + len(self._records)

    @property
    def base_timestamp_ms(self) -> TimestampMs:
        return self._base_timestamp_ms

    @property
    def max_timestamp_ms(self) -> TimestampMs:
        return self._max_timestamp_ms

    @property
    def encoded_records(self) -> bytearray:
        """The encoded records so far, uncompressed; the builder's own buffer, so only read it."""
        return self._records

    def append(
        self,
        timestamp_ms: TimestampMs,
        key: Buffer | None,
        value: Buffer | None,
        headers: RecordHeaders = (),
        *,
        offset_delta: int | None = None,
    ) -> None:
        """Add a record. `offset_delta` keeps its offset, as in a cleaned batch; deltas must grow."""
        last_offset_delta = self._last_offset_delta
        if offset_delta is None:
            offset_delta = last_offset_delta + 1
        elif offset_delta <= last_offset_delta:
            raise ValueError(f"offset delta {offset_delta} after {last_offset_delta}")
        if self.record_count == 0 and self._delete_horizon_ms is None:
            self._base_timestamp_ms = timestamp_ms
        if timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = timestamp_ms
        # Nearly all of a record's six numbers are small: a table lookup is cheaper than a call.
        delta = timestamp_ms - self._base_timestamp_ms
        parts: list[Buffer] = [
            _NO_ATTRIBUTES,
            _SMALL[delta] if 0 <= delta < _SMALL_COUNT else encode_varint(delta),
            _SMALL[offset_delta] if offset_delta < _SMALL_COUNT else encode_varint(offset_delta),
        ]
        if key is None:
            parts.append(_NULL)
        else:
            length = len(key)
            parts += (_SMALL[length] if length < _SMALL_COUNT else encode_varint(length), key)
        if value is None:
            parts.append(_NULL)
        else:
            length = len(value)
            parts += (_SMALL[length] if length < _SMALL_COUNT else encode_varint(length), value)
        if headers:
            _add_headers(parts, headers)
        else:
            parts.append(_NO_HEADERS)
        body = b"".join(parts)
        length = len(body)
        records = self._records
        records += _SMALL[length] if length < _SMALL_COUNT else encode_varint(length)
        records += body
        self.record_count += 1
        self._last_offset_delta = offset_delta

    def append_within(
        self,
        limit_bytes: int,
        timestamp_ms: TimestampMs,
        key: Buffer | None,
        value: Buffer | None,
        headers: RecordHeaders = (),
    ) -> bool:
        """Add a record unless it makes the batch larger than `limit_bytes`; the first record always fits."""
        records = self._records
        before_bytes = len(records)
        before = self.record_count, self._max_timestamp_ms, self._last_offset_delta
        self.append(timestamp_ms, key, value, headers)
        if before[0] and HEADER_BYTES + len(records) > limit_bytes:
            del records[before_bytes:]
            self.record_count, self._max_timestamp_ms, self._last_offset_delta = before
            return False
        return True

    def extend_encoded(
        self,
        records: Buffer,
        *,
        record_count: int,
        base_timestamp_ms: TimestampMs,
        max_timestamp_ms: TimestampMs,
    ) -> None:
        """Add records that the caller encoded to follow those here: deltas go on, times count from the base."""
        if self.record_count == 0:
            self._base_timestamp_ms = base_timestamp_ms
        self._records += records
        self._max_timestamp_ms = max(self._max_timestamp_ms, max_timestamp_ms)
        self._last_offset_delta += record_count
        self.record_count += record_count

    def build(
        self,
        *,
        codec: int = NONE,
        level: int | None = None,
        base_offset: Offset = 0,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        append_time_ms: TimestampMs | None = None,
        last_offset_delta: int | None = None,
    ) -> bytearray:
        """The finished batch; `append_time_ms` becomes the time of all its records.

        `last_offset_delta` keeps the offset range of a batch whose last records the cleaner removed.
        """
        if last_offset_delta is None:
            last_offset_delta = self._last_offset_delta
        elif last_offset_delta < self._last_offset_delta:
            raise ValueError(f"last offset delta {last_offset_delta}, a record has {self._last_offset_delta}")
        attributes = codec
        max_timestamp_ms = self._max_timestamp_ms
        if is_transactional:
            attributes |= TRANSACTIONAL_MASK
        if is_control:
            attributes |= CONTROL_MASK
        if self._delete_horizon_ms is not None:
            attributes |= DELETE_HORIZON_MASK
        if append_time_ms is not None:
            attributes |= LOG_APPEND_TIME_MASK
            max_timestamp_ms = append_time_ms
        return assemble_batch(
            compress(codec, self._records, level),
            record_count=self.record_count,
            last_offset_delta=last_offset_delta,
            base_timestamp_ms=self._base_timestamp_ms,
            max_timestamp_ms=max_timestamp_ms,
            attributes=attributes,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )


def _add_headers(parts: list[Buffer], headers: RecordHeaders) -> None:
    parts.append(encode_varint(len(headers)))
    for key, value in headers:
        encoded_key = key.encode()
        parts += (encode_varint(len(encoded_key)), encoded_key)
        if value is None:
            parts.append(_NULL)
        else:
            parts += (encode_varint(len(value)), value)


def build_batch(
    records: Iterable[tuple[TimestampMs, Buffer | None, Buffer | None, RecordHeaders]],
    *,
    codec: int = NONE,
    base_offset: Offset = 0,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytearray:
    """A batch of (timestamp, key, value, headers) in one call."""
    builder = BatchBuilder()
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms, key, value, headers)
    return builder.build(
        codec=codec,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )


def build_end_transaction_marker(
    *,
    is_commit: bool,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    coordinator_epoch: int,
    timestamp_ms: TimestampMs,
    base_offset: Offset = 0,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """The control batch that commits or aborts a producer's transaction in one partition."""
    builder = BatchBuilder()
    key = _CONTROL_KEY.pack(0, COMMIT_MARKER if is_commit else ABORT_MARKER)
    builder.append(timestamp_ms, key, _END_TRANSACTION_VALUE.pack(0, coordinator_epoch))
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
