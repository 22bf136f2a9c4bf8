"""Rows of columns to the records of a batch with numpy, without the C kernel: the same bytes."""

from typing import Final, NamedTuple

import numpy as np

from ottla.columns.arrow_columns import Values
from ottla.columns.partitioning import value_ranges
from ottla.columns.vectors import Bytes, Numbers, offsets_of, ranges, varint_sizes, write_varints
from ottla.records.appender import PythonAppender

_FIRST_WINDOW: Final = 256
_BATCH_BYTES_MAX: Final = 2**31 - 1


class _Field(NamedTuple):
    """A key or value of each row: its position in the column, its length (-1 for null), and its size in a record."""

    starts: Numbers
    lengths: Numbers
    data: Bytes
    sizes: Numbers


class _HeaderBlock(NamedTuple):
    """The headers of some rows: the count of each, all of them in order, and their size without the count."""

    counts: Numbers
    keys: _Field
    values: _Field
    sizes: Numbers


class NumpyAppender(PythonAppender):
    """Replaces the kernel's Appender: single records in Python, rows of columns with numpy; has one owner."""

    __slots__ = ()

    def append_rows(
        self,
        rows: Numbers,
        first: int,
        timestamps_ms: Numbers,
        key: Values | None,
        value: Values | None,
        headers: tuple[Values, Values, Values] | None,
        /,
    ) -> int:
        """Append rows from `first` on until the batch is full; returns the first row that is left."""
        window = _FIRST_WINDOW
        while first < len(rows):
            part = rows[first : first + window]
            taken = self._append_window(part, timestamps_ms, key, value, headers)
            first += taken
            if taken < len(part):
                break
            window *= 4
        return first

    def _append_window(
        self,
        rows: Numbers,
        timestamps_ms: Numbers,
        key: Values | None,
        value: Values | None,
        headers: tuple[Values, Values, Values] | None,
    ) -> int:
        times = timestamps_ms[rows]
        base_timestamp_ms = self.base_timestamp_ms if self.record_count else int(times[0])
        timestamp_deltas = times - np.int64(base_timestamp_ms)
        offset_deltas = self.record_count + np.arange(len(rows))
        key_field = _field(key, rows)
        value_field = _field(value, rows)
        block = _header_block(headers, rows)
        lengths = 1 + varint_sizes(timestamp_deltas) + varint_sizes(offset_deltas)
        lengths += key_field.sizes + value_field.sizes + varint_sizes(block.counts) + block.sizes
        sizes = varint_sizes(lengths) + lengths
        totals = self.size_bytes + np.cumsum(sizes)
        taken = int(np.searchsorted(totals, self.limit_bytes, side="right"))
        if self.record_count == 0:
            taken = max(taken, 1)
        if taken and totals[taken - 1] > _BATCH_BYTES_MAX:
            raise ValueError("a batch of more than 2 GiB")
        if taken == 0:
            return 0
        kept = slice(0, taken)
        record_starts = offsets_of(sizes[kept])
        out = np.zeros(int(record_starts[-1]), np.uint8)
        position = write_varints(out, record_starts[:-1], lengths[kept])
        position = write_varints(out, position + 1, timestamp_deltas[kept])
        position = write_varints(out, position, offset_deltas[kept])
        position = _write_field(out, position, _part_of(key_field, kept))
        position = _write_field(out, position, _part_of(value_field, kept))
        position = write_varints(out, position, block.counts[kept])
        _write_headers(out, position, block, taken)
        self._builder.extend_encoded(
            out.tobytes(),
            record_count=taken,
            base_timestamp_ms=base_timestamp_ms,
            max_timestamp_ms=int(times[kept].max()),
        )
        return taken


def _field(values: Values | None, rows: Numbers) -> _Field:
    if values is None:
        nothing = np.full(len(rows), -1, np.int64)
        return _Field(nothing, nothing, np.empty(0, np.uint8), np.ones(len(rows), np.int64))
    starts, lengths, data = value_ranges(values, rows)
    return _Field(starts, lengths, data, varint_sizes(lengths) + np.maximum(lengths, 0))


def _part_of(field: _Field, kept: slice) -> _Field:
    return _Field(field.starts[kept], field.lengths[kept], field.data, field.sizes[kept])


def _header_block(headers: tuple[Values, Values, Values] | None, rows: Numbers) -> _HeaderBlock:
    if headers is None:
        nothing = np.zeros(len(rows), np.int64)
        empty = _field(None, nothing[:0])
        return _HeaderBlock(nothing, empty, empty, nothing)
    (offsets_buffer, _, validity, first, count), keys, values = headers
    # A list's offsets count headers where a value's count bytes: bytes enough make them the same.
    lists: Values = (offsets_buffer, b"\x00" * min(keys[4], values[4]), validity, first, count)
    starts, counts, _ = value_ranges(lists, rows)
    counts = np.maximum(counts, 0)
    entries = ranges(starts, counts)
    key_field = _field(keys, entries)
    if (key_field.lengths < 0).any():
        raise ValueError("a header without a key")
    value_field = _field(values, entries)
    totals = offsets_of(key_field.sizes + value_field.sizes)
    bounds = offsets_of(counts)
    return _HeaderBlock(counts, key_field, value_field, totals[bounds[1:]] - totals[bounds[:-1]])


def _write_field(out: Bytes, positions: Numbers, field: _Field) -> Numbers:
    positions = write_varints(out, positions, field.lengths)
    filled = np.maximum(field.lengths, 0)
    out[ranges(positions, filled)] = field.data[ranges(field.starts, filled)]
    return positions + filled


def _write_headers(out: Bytes, positions: Numbers, block: _HeaderBlock, taken: int) -> None:
    """Headers of a record follow one another, so each begins as far behind its record's first as those before take."""
    counts = block.counts[:taken]
    bounds = offsets_of(counts)
    kept = slice(0, int(bounds[-1]))
    before = offsets_of((block.keys.sizes + block.values.sizes)[kept])
    starts = np.repeat(positions - before[bounds[:-1]], counts) + before[:-1]
    after_keys = _write_field(out, starts, _part_of(block.keys, kept))
    _write_field(out, after_keys, _part_of(block.values, kept))
