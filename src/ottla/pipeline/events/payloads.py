"""Rows from Spark's workers to the driver as opaque Arrow payloads: Arrow streams, each one value of a binary column.

Spark would turn the rows into rows of its own and those into columns again, at several times the cost of parsing. A
payload holds rows of one schema. The schema's metadata names the kind of its rows, where a job has several kinds, and
carries what the task has counted.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from ottla.pipeline.events.preparing import ArrowFunction, Preparation, prepared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A payload of this size is closed: a worker and Spark hold one of them at a time.
_PAYLOAD_BYTES: Final = 8 << 20
_PAYLOAD: Final = StructType([StructField("payload", BinaryType(), nullable=False)])
_PAYLOAD_ARROW: Final = to_arrow_schema(_PAYLOAD)
_KIND: Final = b"kind"
_COUNTERS: Final = b"counters"


class ReadCounters(msgspec.Struct):
    """What tasks have read. `rows` and `highs_ms`, the largest event time of sound events, are by topic."""

    rows: dict[str, int] = {}
    highs_ms: dict[str, int] = {}
    dead: dict[str, int] = {}  # by error class

    @property
    def rows_read(self) -> int:
        return sum(self.rows.values())

    def add(self, topic: str, rows: int, high_ms: int | None = None) -> None:
        self.rows[topic] = self.rows.get(topic, 0) + rows
        if high_ms is not None:
            self.highs_ms[topic] = max(high_ms, self.highs_ms.get(topic, high_ms))

    def add_dead(self, error_class: str, rows: int) -> None:
        self.dead[error_class] = self.dead.get(error_class, 0) + rows

    def merge(self, other: "ReadCounters") -> None:
        for topic, rows in other.rows.items():
            self.add(topic, rows, other.highs_ms.get(topic))
        for error_class, rows in other.dead.items():
            self.add_dead(error_class, rows)

    def as_batch(self) -> pa.RecordBatch:
        """No rows, and the counters in the schema's metadata: a task yields it last."""
        return pa.RecordBatch.from_arrays([], schema=pa.schema([], metadata={_COUNTERS: msgspec.json.encode(self)}))


class Received(NamedTuple):
    """What the tasks of a batch sent: a table for each schema that the job named, in that order."""

    tables: tuple[pa.Table, ...]
    counters: ReadCounters


class ToDriver:
    """For a job whose rows all go to the driver. `function` yields batches of `schemas`; pickled to the workers."""

    def __init__(self, function: ArrowFunction, *schemas: pa.Schema) -> None:
        self.preparation = Preparation(PayloadWriter(function), _PAYLOAD)
        self._schemas = schemas

    def receive(self, frame: "DataFrame") -> Received:
        """What the function makes of the records of a batch."""
        return read_payloads(prepared(frame, self.preparation).toArrow(), self._schemas)

    def receive_rows(self, frame: "DataFrame") -> pa.Table:
        """The same for a function with one schema and no counters."""
        return self.receive(frame).tables[0]


def of_kind(schema: pa.Schema, kind: str) -> pa.Schema:
    """The schema with a name for its rows, for functions that yield batches of several schemas."""
    return schema.with_metadata({_KIND: kind})


class PayloadWriter:
    """Turns the batches of a function into payloads. Columns without any value are left out: most of PARSED, for one
    topic.
    """

    def __init__(self, function: ArrowFunction) -> None:
        self._function = function

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        payload: _Payload | None = None
        for batch in self._function(batches):
            filled = batch.select(
                [index for index, column in enumerate(batch.columns) if column.null_count < batch.num_rows]
            )
            if payload is not None and not payload.takes(filled):
                yield payload.finish()
                payload = None
            if payload is None:
                payload = _Payload(filled.schema)
            payload.writer.write_batch(filled)
        if payload is not None:
            yield payload.finish()


class _Payload:
    """A payload that is being written."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = pa.BufferOutputStream()
        self.writer = pa.ipc.new_stream(self._sink, schema)

    def takes(self, batch: pa.RecordBatch) -> bool:
        return self._sink.tell() < _PAYLOAD_BYTES and bool(batch.schema.equals(self._schema, check_metadata=True))

    def finish(self) -> pa.RecordBatch:
        self.writer.close()
        stream = self._sink.getvalue()
        offsets = pa.py_buffer(np.array([0, stream.size], dtype=np.int32))
        column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, stream])
        return pa.RecordBatch.from_arrays([column], schema=_PAYLOAD_ARROW)


def read_payloads(payloads: pa.Table, schemas: Iterable[pa.Schema]) -> Received:
    """The rows and the counters in a column of payloads."""
    by_kind: dict[bytes | None, tuple[pa.Schema, list[pa.Table]]] = {
        (schema.metadata or {}).get(_KIND): (schema, []) for schema in schemas
    }
    counters = ReadCounters()
    for payload in payloads.column(0):
        rows = pa.ipc.open_stream(payload.as_buffer()).read_all()
        metadata = rows.schema.metadata or {}
        counted = metadata.get(_COUNTERS)
        if counted is not None:
            counters.merge(msgspec.json.decode(counted, type=ReadCounters))
        else:
            schema, tables = by_kind[metadata.get(_KIND)]
            tables.append(_in_schema(rows, schema))
    return Received(
        tuple(pa.concat_tables(tables) if tables else schema.empty_table() for schema, tables in by_kind.values()),
        counters,
    )


def _in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """With the columns that were left out."""
    present = set(rows.column_names)
    columns = [
        rows.column(field.name) if field.name in present else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
