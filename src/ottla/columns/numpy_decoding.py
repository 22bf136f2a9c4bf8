"""Records to columns with numpy, without the C kernel: the same columns, the same errors.

Only finding the start of each record is a loop in Python; all fields are read as vectors.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ottla.columns.vectors import VARINT_BYTES_MAX, Bytes, Flags, Numbers, cut_out, offsets_of, read_varints
from ottla.core.types import Buffer, Offset, TimestampMs
from ottla.records.errors import CorruptBatch
from ottla.records.read import MIN_RECORD_BYTES
from ottla.records.varint import decode_varint

_INT64_MAX: Final = 2**63 - 1
_MILLISECONDS_MAX: Final = _INT64_MAX // 1000
# Longer lists of headers are read one by one: vectors over the few records that have them would be slower.
_VECTORED_HEADERS: Final = 8


class _Values(NamedTuple):
    """Some values of one column: which are not null, the length of each (0 for a null), and their bytes."""

    valid: Flags
    lengths: Numbers
    data: Bytes


class _Headers(NamedTuple):
    """How many headers each record has, and all of them in order."""

    counts: Numbers
    keys: _Values
    values: _Values


class BatchView(NamedTuple):
    """The uncompressed body of a batch, numbers from its header, and the wanted offsets."""

    body: Buffer
    base_offset: Offset
    base_timestamp_ms: TimestampMs
    append_time_ms: TimestampMs | None
    last_offset_delta: int
    record_count: int
    from_offset: Offset
    to_offset: Offset


class NumpySink:
    """The kernel's ColumnSink in numpy; has one owner."""

    def __init__(self, with_headers: bool) -> None:
        self.count = 0
        self.data_bytes = 0
        self._with_headers = with_headers
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.data_bytes = 0
        self._offsets: list[Numbers] = []
        self._timestamps_us: list[Numbers] = []
        self._keys: list[_Values] = []
        self._values: list[_Values] = []
        self._headers: list[_Headers] = []

    def append(
        self,
        body: Buffer,
        base_offset: Offset,
        base_timestamp_ms: TimestampMs,
        append_time_ms: TimestampMs | None,
        last_offset_delta: int,
        record_count: int,
        from_offset: Offset,
        to_offset: Offset,
        /,
    ) -> int:
        """Add the records of an uncompressed body; returns how many."""
        view = BatchView(
            body,
            base_offset,
            base_timestamp_ms,
            append_time_ms,
            last_offset_delta,
            record_count,
            from_offset,
            to_offset,
        )
        try:
            return self.append_all([view])[0]
        except CorruptBatch as damage:
            raise CorruptBatch(f"batch of offset {base_offset}: {damage}") from None

    def append_all(self, views: Sequence[BatchView]) -> list[int]:
        """Several batches at once, which costs little more than one. CorruptBatch adds none of them."""
        try:
            return self._append_all(views)
        except IndexError:
            raise CorruptBatch("a record runs over the end of its batch") from None

    def _append_all(self, views: Sequence[BatchView]) -> list[int]:
        body = b"".join(view.body for view in views)
        counts = np.array([view.record_count for view in views], np.int64)
        starts, ends = _find_all_records(body, views)
        data = np.zeros(len(body) + VARINT_BYTES_MAX + 1, np.uint8)
        data[: len(body)] = np.frombuffer(body, np.uint8)
        timestamp_deltas, position = _read_within(data, starts + 1, ends)
        offset_deltas, position = _read_within(data, position, ends)
        key_starts, key_lengths, position = _read_fields(data, position, ends)
        value_starts, value_lengths, position = _read_fields(data, position, ends)
        header_counts, position = _read_within(data, position, ends)
        if (header_counts < 0).any() or (header_counts > (ends - position) // 2).any():
            raise CorruptBatch("more headers than bytes for them")
        headers, position = _read_headers(body, data, position, ends, header_counts)
        if (position != ends).any():
            raise CorruptBatch("a record ends away from where its length says")
        offsets, timestamps_ms, is_wanted, added = _placed(views, counts, offset_deltas, timestamp_deltas)
        self._offsets.append(offsets[is_wanted])
        self._timestamps_us.append(_microseconds(timestamps_ms[is_wanted]))
        self._add(self._keys, _take(data, key_starts[is_wanted], key_lengths[is_wanted]))
        self._add(self._values, _take(data, value_starts[is_wanted], value_lengths[is_wanted]))
        if self._with_headers:
            self._add_headers(data, header_counts, headers, is_wanted)
        self.count += sum(added)
        return added

    def _add(self, pieces: list[_Values], piece: _Values) -> None:
        pieces.append(piece)
        self.data_bytes += len(piece.data)

    def _add_headers(self, data: Bytes, counts: Numbers, headers: Numbers, is_wanted: Flags) -> None:
        part = headers[np.repeat(is_wanted, counts)]
        keys = _take(data, part[:, 0], part[:, 1])
        values = _take(data, part[:, 2], part[:, 3])
        self._headers.append(_Headers(counts[is_wanted], keys, values))
        self.data_bytes += len(keys.data) + len(values.data)

    def finish(self) -> tuple[Any, ...]:
        """Like the kernel's: buffers by column; it is empty afterwards."""
        headers: tuple[Any, ...] | None = None
        if self._with_headers:
            counts = _joined([piece.counts for piece in self._headers], np.int64)
            keys = [piece.keys for piece in self._headers]
            is_ascii = not any((piece.data >= 0x80).any() for piece in keys)
            list_offsets = offsets_of(counts).astype(np.int32)
            values = [piece.values for piece in self._headers]
            headers = list_offsets, int(counts.sum()), _buffers(keys), _buffers(values), is_ascii
        finished = (
            self.count,
            _joined(self._offsets, np.int64),
            _joined(self._timestamps_us, np.int64),
            _buffers(self._keys),
            _buffers(self._values),
            headers,
        )
        self._clear()
        return finished


def _find_all_records(body: bytes, views: Sequence[BatchView]) -> tuple[Numbers, Numbers]:
    """The starts of the records, after their lengths, and their ends, in the concatenated bodies."""
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    for view in views:
        size_bytes = len(view.body)
        if view.record_count < 0 or view.record_count * MIN_RECORD_BYTES > size_bytes:
            raise CorruptBatch(f"{view.record_count} records in {size_bytes} bytes")
        if view.base_offset + view.last_offset_delta > _INT64_MAX:
            raise CorruptBatch("offsets beyond 64 bits")
        end = position + size_bytes
        _find_records(body, position, end, count=view.record_count, starts=starts, ends=ends)
        position = end
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _find_records(body: bytes, position: int, end: int, *, count: int, starts: list[int], ends: list[int]) -> None:
    add_start = starts.append
    add_end = ends.append
    for _ in range(count):
        length = body[position]
        if length < 0x80:
            position += 1
            length = (length >> 1) ^ -(length & 1)
        elif body[position + 1] < 0x80:
            length = length & 0x7F | body[position + 1] << 7
            length = (length >> 1) ^ -(length & 1)
            position += 2
        else:
            length, position = decode_varint(body, position)
        add_start(position)
        position += length
        if length <= 0 or position > end:
            raise CorruptBatch(f"record of {length} bytes, {end - position + length} left")
        add_end(position)
    if position != end:
        raise CorruptBatch(f"{end - position} bytes after the last record")


def _placed(
    views: Sequence[BatchView], counts: Numbers, offset_deltas: Numbers, timestamp_deltas: Numbers
) -> tuple[Numbers, Numbers, Flags, list[int]]:
    """Offsets, times, whether each is wanted, and how many of each batch are; offsets must ascend within a batch."""
    bounds = offsets_of(counts)
    firsts = bounds[:-1][counts > 0]
    previous = np.empty_like(offset_deltas)
    previous[1:] = offset_deltas[:-1]
    previous[firsts] = -1
    if (offset_deltas <= previous).any() or (offset_deltas > _spread(views, counts, "last_offset_delta")).any():
        raise CorruptBatch("an offset delta out of order")
    offsets = offset_deltas + _spread(views, counts, "base_offset")
    is_wanted = (offsets >= _spread(views, counts, "from_offset")) & (offsets < _spread(views, counts, "to_offset"))
    # Wraps around, as it does in Java.
    timestamps_ms = timestamp_deltas + _spread(views, counts, "base_timestamp_ms")
    for index, view in enumerate(views):
        if view.append_time_ms is not None:
            timestamps_ms[bounds[index] : bounds[index + 1]] = view.append_time_ms
    wanted_before = offsets_of(is_wanted.astype(np.int64))
    added: list[int] = (wanted_before[bounds[1:]] - wanted_before[bounds[:-1]]).tolist()
    return offsets, timestamps_ms, is_wanted, added


def _spread(views: Sequence[BatchView], counts: Numbers, name: str) -> Numbers:
    """A number of each batch, for each of its records."""
    return np.repeat(np.array([getattr(view, name) for view in views], np.int64), counts)


def _read_within(data: Bytes, positions: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    numbers, after = read_varints(data, positions)
    if (after > ends).any():
        raise CorruptBatch("a record ends within a number")
    return numbers, after


def _read_fields(data: Bytes, positions: Numbers, ends: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Where keys or values begin, their lengths (-1 for null), and the positions behind them."""
    lengths, starts = _read_within(data, positions, ends)
    if (lengths < -1).any() or (lengths > ends - starts).any():
        raise CorruptBatch("a field of a wrong length")
    return starts, lengths, starts + np.maximum(lengths, 0)


def _read_headers(
    body: bytes, data: Bytes, position: Numbers, ends: Numbers, counts: Numbers
) -> tuple[Numbers, Numbers]:
    """(key start, key length, value start, value length) of all headers in order, and the positions behind them."""
    offsets = offsets_of(counts)
    found = np.empty((int(offsets[-1]), 4), np.int64)
    position = position.copy()
    for index in range(min(int(counts.max(initial=0)), _VECTORED_HEADERS)):
        having = np.flatnonzero((counts > index) & (counts <= _VECTORED_HEADERS))
        key_starts, key_lengths, after = _read_fields(data, position[having], ends[having])
        if (key_lengths < 0).any():
            raise CorruptBatch("a header without a key")
        value_starts, value_lengths, after = _read_fields(data, after, ends[having])
        found[offsets[having] + index] = np.stack([key_starts, key_lengths, value_starts, value_lengths], axis=1)
        position[having] = after
    for record in np.flatnonzero(counts > _VECTORED_HEADERS).tolist():
        at = int(position[record])
        end = int(ends[record])
        for row in range(int(offsets[record]), int(offsets[record + 1])):
            key_length, key_start = decode_varint(body, at)
            value_length, value_start = decode_varint(body, key_start + max(key_length, 0))
            at = value_start + max(value_length, 0)
            if key_length < 0 or value_length < -1 or at > end:
                raise CorruptBatch("a header of a wrong length")
            found[row] = key_start, key_length, value_start, value_length
        position[record] = at
    return found, position


def _take(data: Bytes, starts: Numbers, lengths: Numbers) -> _Values:
    valid = lengths >= 0
    filled = np.maximum(lengths, 0)
    return _Values(valid, filled, cut_out(data, starts, filled))


def _microseconds(milliseconds: Numbers) -> Numbers:
    """Limits times to 64 bits."""
    inside = np.clip(milliseconds, -_MILLISECONDS_MAX, _MILLISECONDS_MAX) * 1000
    inside[milliseconds > _MILLISECONDS_MAX] = _INT64_MAX
    inside[milliseconds < -_MILLISECONDS_MAX] = -_INT64_MAX - 1
    return inside


def _joined(pieces: list[Any], dtype: type[Any]) -> Any:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype)


def _buffers(pieces: list[_Values]) -> tuple[Any, Any, Any]:
    """(validity bits or None, int32 offsets, data)."""
    valid = _joined([piece.valid for piece in pieces], np.bool_)
    offsets = offsets_of(_joined([piece.lengths for piece in pieces], np.int64)).astype(np.int32)
    data = _joined([piece.data for piece in pieces], np.uint8)
    return None if valid.all() else np.packbits(valid, bitorder="little"), offsets, data
