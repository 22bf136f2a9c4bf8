"""From the record batches of a fetch to one `pyarrow.RecordBatch`: checksum, decompression, columns.

Knows nothing of positions or transactions: the caller leaves out control batches and aborted ones.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.columns.numpy_decoding import BatchView, NumpySink
from ottla.columns.schema import HEADERS_TYPE, RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS, TIMESTAMP_TYPE
from ottla.core.types import Buffer, Offset
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, NAMES, decompress
from ottla.records.errors import CorruptBatch
from ottla.records.header import HEADER_BYTES, crc_of
from ottla.records.kernel import IS_COMPILED, kernel
from ottla.records.read import whole_batch_header

OFFSET_MAX: Final[Offset] = 2**63 - 1
# An Arrow binary column counts its bytes in 31 bits.
COLUMN_BYTES_MAX: Final = 2**31 - 1
# Enough work for numpy, and few enough that the decompressed batches need little memory.
_VECTORED_BATCHES: Final = 32
_RECORD_COUNT: Final = Struct(">i")


class ColumnDecoder:
    """Batches in by `add`, a RecordBatch out by `finish`, again and again; one owner.

    `data_bytes` says how much it holds: the caller must call `finish` in time, as `add` refuses more than 2 GiB.
    """

    __slots__ = ("_runs", "_sink", "_with_headers")

    def __init__(self, *, with_headers: bool = False, sink: "kernel.ColumnSink | NumpySink | None" = None) -> None:
        """`sink` chooses between the kernel and numpy, for tests; by default the kernel, if it was built."""
        self._with_headers = with_headers
        if sink is None:
            sink = kernel.ColumnSink(with_headers) if IS_COMPILED else NumpySink(with_headers)
        self._sink = sink
        # Topic, partition and kind of time, which neighbouring records have in common, and how many have.
        self._runs: list[tuple[str, int, int, int]] = []

    @property
    def count(self) -> int:
        return self._sink.count

    @property
    def data_bytes(self) -> int:
        return self._sink.data_bytes

    def add(
        self,
        buffer: Buffer,
        position: int = 0,
        *,
        topic: str,
        partition: int,
        from_offset: Offset = 0,
        to_offset: Offset = OFFSET_MAX,
        check_crc: bool = True,
        max_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> int:
        """Adds the records of the batch at `position` from `from_offset` to before `to_offset`; returns how many.

        CorruptBatch if anything in it is wrong; then nothing is added.
        """
        view = _view(buffer, position, from_offset, to_offset, check_crc, max_bytes)
        self._check_room(len(view.body))
        count = self._sink.append(*view)
        self._ran(topic, partition, view, count)
        return count

    def add_all(
        self,
        buffer: Buffer,
        positions: Sequence[int],
        *,
        topic: str,
        partition: int,
        from_offset: Offset = 0,
        to_offset: Offset = OFFSET_MAX,
        check_crc: bool = True,
        max_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> int:
        """The same for several batches; adds those before a damaged one before it raises.

        Without the kernel this is several times faster than one by one.
        """
        added = 0
        if positions and not isinstance(self._sink, NumpySink):
            self._sink.reserve(len(buffer) - positions[0], _record_count(buffer, positions))
        for first in range(0, len(positions), _VECTORED_BATCHES):
            part = positions[first : first + _VECTORED_BATCHES]
            if isinstance(self._sink, NumpySink):
                try:
                    views = [_view(buffer, position, from_offset, to_offset, check_crc, max_bytes) for position in part]
                    added += self._add_vectored(self._sink, views, topic, partition)
                    continue
                except CorruptBatch:
                    pass  # one by one, to add what is sound and to say which one is not
            for position in part:
                added += self.add(
                    buffer,
                    position,
                    topic=topic,
                    partition=partition,
                    from_offset=from_offset,
                    to_offset=to_offset,
                    check_crc=check_crc,
                    max_bytes=max_bytes,
                )
        return added

    def _add_vectored(self, sink: NumpySink, views: list[BatchView], topic: str, partition: int) -> int:
        self._check_room(sum(len(view.body) for view in views))
        counts = sink.append_all(views)
        for view, count in zip(views, counts, strict=True):
            self._ran(topic, partition, view, count)
        return sum(counts)

    def _check_room(self, more_bytes: int) -> None:
        held_bytes = self._sink.data_bytes
        if held_bytes + more_bytes > COLUMN_BYTES_MAX:
            raise OverflowError(f"{held_bytes} and {more_bytes} bytes are too many for one Arrow column")

    def _ran(self, topic: str, partition: int, view: BatchView, count: int) -> None:
        if count:
            run = (topic, partition, int(view.append_time_ms is not None), count)
            runs = self._runs
            if runs and runs[-1][:3] == run[:3]:
                runs[-1] = (*run[:3], runs[-1][3] + count)
            else:
                runs.append(run)

    def finish(self) -> pa.RecordBatch:
        """All records added since the last call, in that order."""
        count, offsets, timestamps_us, key, value, headers = self._sink.finish()
        runs = self._runs
        self._runs = []
        counts = [run[3] for run in runs]
        arrays = [
            _binary_array(pa.binary(), count, key),
            _binary_array(pa.binary(), count, value),
            _topics(runs),
            _int32_array(count, [run[1] for run in runs], counts),
            pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)]),
            pa.Array.from_buffers(TIMESTAMP_TYPE, count, [None, pa.py_buffer(timestamps_us)]),
            _int32_array(count, [run[2] for run in runs], counts),
        ]
        if not self._with_headers:
            return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)
        arrays.append(_header_lists(count, headers))
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA_WITH_HEADERS)


def _record_count(buffer: Buffer, positions: Sequence[int]) -> int:
    """The numbers in the headers, before any check."""
    end = len(buffer) - HEADER_BYTES
    return sum(
        _RECORD_COUNT.unpack_from(buffer, position + HEADER_BYTES - 4)[0]
        for position in positions
        if 0 <= position <= end
    )


def _view(
    buffer: Buffer, position: int, from_offset: Offset, to_offset: Offset, check_crc: bool, max_bytes: int
) -> BatchView:
    """A batch whose header and checksum are sound, decompressed."""
    header = whole_batch_header(buffer, position)
    size_bytes = header.size_bytes
    if check_crc:
        crc = crc_of(buffer, position, size_bytes)
        if crc != header.crc:
            raise CorruptBatch(
                f"batch of offset {header.base_offset}: checksum {crc:#010x}, header says {header.crc:#010x}"
            )
    codec = header.compression
    if codec >= len(NAMES):
        raise CorruptBatch(f"batch of offset {header.base_offset}: unknown codec {codec}")
    return BatchView(
        decompress(codec, memoryview(buffer)[position + HEADER_BYTES : position + size_bytes], max_bytes),
        header.base_offset,
        header.base_timestamp_ms,
        header.max_timestamp_ms if header.is_log_append_time else None,
        header.last_offset_delta,
        header.record_count,
        from_offset,
        to_offset,
    )


# Arrays are built from buffers: where pandas is installed, `pa.array` and `pa.scalar` import it, which takes half a
# second and 55 MB.


def _binary_array(kind: Any, count: int, buffers: tuple[Any, Any, Any]) -> Any:
    validity, offsets, data = buffers
    if count == 0:
        return pa.nulls(0, kind)
    return pa.Array.from_buffers(
        kind, count, [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _int32_array(count: int, numbers: list[int], counts: list[int]) -> Any:
    """Repeats each number."""
    if len(numbers) == 1:
        repeated = np.full(count, numbers[0], np.int32)
    else:
        repeated = np.repeat(np.array(numbers, np.int32), np.array(counts, np.int64))
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(repeated)])


def _topics(runs: list[tuple[str, int, int, int]]) -> Any:
    arrays = []
    at = 0
    while at < len(runs):
        topic, count = runs[at][0], 0
        while at < len(runs) and runs[at][0] == topic:
            count += runs[at][3]
            at += 1
        arrays.append(_repeated_text(topic, count))
    if not arrays:
        return pa.nulls(0, pa.string())
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _repeated_text(text: str, count: int) -> Any:
    encoded = text.encode()
    size = len(encoded)
    if size * count > COLUMN_BYTES_MAX:
        raise OverflowError(f"{count} times {text!r} is too much for one Arrow column; decode fewer batches at a time")
    offsets = np.arange(0, size * count + 1, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(encoded * count)])


def _header_lists(count: int, headers: tuple[Any, ...]) -> Any:
    """Records without headers have null there, as Spark gives it."""
    if count == 0:
        return pa.nulls(0, HEADERS_TYPE)
    list_offsets, header_count, keys, values, is_ascii = headers
    names = _binary_array(pa.string() if is_ascii else pa.binary(), header_count, keys)
    if not is_ascii:
        # As in Java: a key that is not UTF-8 doesn't make the record unreadable.
        names = pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
    pairs = pa.StructArray.from_arrays(
        [names, _binary_array(pa.binary(), header_count, values)], fields=list(HEADERS_TYPE.value_type)
    )
    bounds = np.frombuffer(list_offsets, np.int32)
    has_headers = np.packbits(bounds[1:] != bounds[:-1], bitorder="little")
    return pa.Array.from_buffers(
        HEADERS_TYPE, count, [pa.py_buffer(has_headers), pa.py_buffer(list_offsets)], children=[pairs]
    )
