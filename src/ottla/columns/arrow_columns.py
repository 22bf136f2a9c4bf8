"""A table's columns in the encoder's types: binary keys and values, times in milliseconds, lists of headers.

Refuses a wrong column by its name, and drops nothing silently. Pure.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.columns.vectors import Numbers
from ottla.core.types import TimestampMs

# Columns of a table that was read and that a write ignores: the cluster sets them again. The caller names the topic.
_IGNORED: Final = frozenset({"topic", "offset", "timestampType"})
_KNOWN: Final = ("key", "value", "headers", "partition", "timestamp")

NO_PARTITION: Final = -1

# (int32 offsets, data or None, validity or None, first, count): Arrow's buffers, as the kernel takes them.
Values = tuple[Any, Any, Any, int, int]


class RowColumns(NamedTuple):
    """Some rows of a table, ready to encode."""

    row_count: int
    timestamps_ms: Numbers
    partitions: Numbers | None  # NO_PARTITION where the key decides
    key: Values | None
    value: Values | None
    headers: tuple[Values, Values, Values] | None
    data_bytes: int


def check_names(schema: pa.Schema) -> None:
    """ValueError for a column that is not part of a record, or that comes twice."""
    names = schema.names
    for name in names:
        if name not in _IGNORED and name not in _KNOWN:
            raise ValueError(f"column {name!r} has no place in a record; known are {', '.join(_KNOWN)}")
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} is there {names.count(name)} times")
    if "value" not in names:
        raise ValueError(f"no column 'value' among {', '.join(names) or 'none'}")


def columns_of(batch: pa.RecordBatch, *, now_ms: TimestampMs) -> RowColumns:
    """The rows of a RecordBatch; records without a time get `now_ms`."""
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    key = _binary(columns.get("key"), "key")
    value = _binary(columns.get("value"), "value")
    headers = _headers(columns.get("headers"))
    data_bytes = sum(array.nbytes for array in (columns.get("key"), columns.get("value")) if array is not None)
    return RowColumns(
        batch.num_rows,
        _timestamps_ms(columns.get("timestamp"), batch.num_rows, now_ms),
        _partitions(columns.get("partition")),
        key,
        value,
        headers,
        data_bytes,
    )


def _binary(array: Any, name: str) -> Values | None:
    if array is None or pa.types.is_null(array.type):
        return None
    kind = array.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not _is_bytes(kind):
        raise TypeError(f"column {name!r} is {array.type}; binary or string is expected, cast it first")
    return _values_of(array if array.type.equals(pa.binary()) else _as_binary(array))


def _is_bytes(kind: Any) -> bool:
    checks = (
        pa.types.is_binary,
        pa.types.is_string,
        pa.types.is_large_binary,
        pa.types.is_large_string,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
        pa.types.is_string_view,
    )
    return any(check(kind) for check in checks)


def _as_binary(array: Any) -> Any:
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    return array.cast(pa.binary())


def _values_of(array: Any) -> Values:
    validity, offsets, data = array.buffers()
    return offsets or b"\x00\x00\x00\x00", data, validity, array.offset, len(array)


def _timestamps_ms(array: Any, count: int, now_ms: TimestampMs) -> Numbers:
    if array is None or pa.types.is_null(array.type):
        return np.full(count, now_ms, np.int64)
    if pa.types.is_timestamp(array.type):
        # A time without a zone counts as UTC; Kafka has milliseconds, so finer parts are cut off.
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False).cast(pa.int64())
    elif pa.types.is_integer(array.type):
        array = array.cast(pa.int64())
    else:
        raise TypeError(f"column 'timestamp' is {array.type}; a timestamp, or milliseconds as int64, is expected")
    if array.null_count:
        array = pc.fill_null(array, now_ms)
    numbers: Numbers = np.ascontiguousarray(array.to_numpy(zero_copy_only=False), np.int64)
    return numbers


def _partitions(array: Any) -> Numbers | None:
    if array is None or pa.types.is_null(array.type):
        return None
    if not pa.types.is_integer(array.type):
        raise TypeError(f"column 'partition' is {array.type}; an integer is expected")
    filled = pc.fill_null(array.cast(pa.int64()), NO_PARTITION)
    numbers: Numbers = filled.to_numpy(zero_copy_only=False)
    return numbers


def _headers(array: Any) -> tuple[Values, Values, Values] | None:
    if array is None or pa.types.is_null(array.type):
        return None
    kind = array.type
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        array = array.cast(pa.list_(kind.value_type))
        kind = array.type
    if pa.types.is_map(kind):
        names, contents = array.keys, array.items
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        pairs = array.values
        fields = [pairs.type.field(index).name for index in range(pairs.type.num_fields)]
        if fields != ["key", "value"]:
            raise TypeError(f"column 'headers' has fields {', '.join(fields)}; key and value are expected")
        names, contents = pairs.flatten()
    else:
        raise TypeError(f"column 'headers' is {kind}; list<struct<key: string, value: binary>> is expected")
    keys = _binary(names, "headers.key")
    values = _binary(contents, "headers.value")
    if keys is None:
        if len(names):
            raise ValueError("column 'headers' has a header without a key")
        keys = (b"\x00\x00\x00\x00", None, None, 0, 0)
    if values is None:
        values = _values_of(pa.nulls(len(names), pa.binary()))
    buffers = array.buffers()
    return (buffers[1] or b"\x00\x00\x00\x00", None, buffers[0], array.offset, len(array)), keys, values
