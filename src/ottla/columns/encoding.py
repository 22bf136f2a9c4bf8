"""From an Arrow table to record batches for a producer, each of one partition.

Columns: `value`, and optionally `key`, `headers`, `partition`, `timestamp`, with the schema of reading (text counts as
its bytes in UTF-8). Pure: the caller knows the topic, its number of partitions, and the time.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ottla.columns.arrow_columns import check_names, columns_of
from ottla.columns.numpy_encoding import NumpyAppender
from ottla.columns.partitioning import partitions_of
from ottla.core.types import TimestampMs
from ottla.records.appender import BatchAppender
from ottla.records.compression import codec_named
from ottla.records.kernel import IS_COMPILED

# Kafka's default batch is small because records trickle in; a table is complete.
LIMIT_BYTES: Final = 512 * 1024
# Bounds the memory beside the table: row numbers, and columns that had to be cast.
_ROWS_AT_ONCE: Final = 1024 * 1024

Table: TypeAlias = "pa.Table | pa.RecordBatch | pa.RecordBatchReader"


class ColumnBatch(NamedTuple):
    """A full batch for one partition."""

    partition: int
    batch: BatchAppender


def batches_of(
    table: Table,
    *,
    partition_count: int,
    now_ms: TimestampMs,
    limit_bytes: int = LIMIT_BYTES,
    first_run: int = 0,
    ignores_keys: bool = False,
) -> Iterator[ColumnBatch]:
    """The rows of a table as batches of at most `limit_bytes` (uncompressed), in the order of the rows by partition.

    Rows without a key begin with the partition `first_run`; with `ignores_keys` all rows count as such.
    """
    check_names(table.schema)
    filling: dict[int, Any] = {}
    run = first_run
    appender_class: Any = BatchAppender if IS_COMPILED else NumpyAppender
    for piece in _pieces(table):
        columns = columns_of(piece, now_ms=now_ms)
        partitions, run = partitions_of(
            columns._replace(key=None) if ignores_keys else columns,
            partition_count=partition_count,
            run_bytes=limit_bytes,
            run=run,
        )
        order = np.argsort(partitions, kind="stable")
        bounds = np.searchsorted(partitions[order], np.arange(partition_count + 1))
        for partition in np.flatnonzero(np.diff(bounds)).tolist():
            rows = np.ascontiguousarray(order[bounds[partition] : bounds[partition + 1]], np.int64)
            at = 0
            while True:
                batch = filling.get(partition)
                if batch is None:
                    batch = filling[partition] = appender_class(limit_bytes)
                at = batch.append_rows(rows, at, columns.timestamps_ms, columns.key, columns.value, columns.headers)
                if at == len(rows):
                    break
                yield ColumnBatch(partition, filling.pop(partition))
    for partition, batch in filling.items():
        yield ColumnBatch(partition, batch)


def encode_batches(
    table: Table,
    *,
    partition_count: int = 1,
    now_ms: TimestampMs,
    compression: str = "none",
    limit_bytes: int = LIMIT_BYTES,
) -> Iterator[tuple[int, bytearray]]:
    """(partition, finished batch) of a table, for a producer without sequences."""
    codec = codec_named(compression)
    for partition, batch in batches_of(table, partition_count=partition_count, now_ms=now_ms, limit_bytes=limit_bytes):
        yield partition, batch.build(codec=codec)


def _pieces(table: Table) -> Iterator[pa.RecordBatch]:
    if isinstance(table, pa.RecordBatch):
        whole: list[pa.RecordBatch] | pa.RecordBatchReader = [table]
    elif isinstance(table, pa.Table):
        whole = table.to_batches(max_chunksize=_ROWS_AT_ONCE)
    else:
        whole = table
    for piece in whole:
        for start in range(0, piece.num_rows, _ROWS_AT_ONCE):
            yield piece.slice(start, _ROWS_AT_ONCE)
