"""Rows to topics, for batch and streaming queries: Arrow batches straight to the producer, at least once.

The columns are those of Spark's own Kafka sink: value, and optionally key, topic, partition and headers; others are
ignored. A task that Spark runs again writes its rows again.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from ottla import Producer
from ottla.clients.errors import TimedOut
from ottla.clients.producer.tables import TableHandle
from ottla.spark.options import OptionError, WriteOptions

_BYTES: Final = (BinaryType(), StringType())
_HEADER_FIELDS: Final = [("key", StringType()), ("value", BinaryType())]
_EXPECTED: Final = {
    "key": "binary or string",
    "value": "binary or string",
    "topic": "string",
    "partition": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
# No waiting for more rows: all are there.
_SETTINGS: Final = {"linger.ms": "0"}
# A handle keeps its rows in memory: a task that writes more than memory holds must not keep all handles.
_TABLES_UNDER_WAY: Final = 16

_idle: dict[tuple[tuple[str, str], ...], Producer] = {}


class RowPlan(NamedTuple):
    """The columns to write, and the topic; None if a column names it."""

    columns: tuple[str, ...]
    topic: str | None


class Written(WriterCommitMessage):
    """What one task wrote."""

    def __init__(self, row_count: int) -> None:
        self.row_count = row_count


def plan_rows(schema: StructType, options: WriteOptions) -> RowPlan:
    """OptionError for rows that can't be records, before anything is written."""
    by_name = {field.name.lower(): field for field in schema.fields}
    if "value" not in by_name:
        raise OptionError(f"no column value among {', '.join(schema.fieldNames()) or 'none'}; name one so, or cast")
    if options.topic is None and "topic" not in by_name:
        raise OptionError("no topic to write to: set the option topic, or have a column topic")
    columns = []
    for name in _EXPECTED:
        field = by_name.get(name)
        if field is None or (name == "topic" and options.topic is not None):
            continue
        if not _is_expected(name, field.dataType):
            raise OptionError(f"column {name} is {field.dataType.simpleString()}; {_EXPECTED[name]} is expected")
        columns.append(field.name)
    return RowPlan(tuple(columns), options.topic)


def _is_expected(name: str, kind: DataType) -> bool:
    if name in ("key", "value"):
        return kind in _BYTES
    if name == "topic":
        return kind == StringType()
    if name == "partition":
        return kind == IntegerType()
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    return [(field.name, field.dataType) for field in kind.elementType.fields] == _HEADER_FIELDS


class OttlaBatchWriter(DataSourceArrowWriter):
    """Pickled to the workers: holds options, no connection."""

    def __init__(self, options: WriteOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_rows(self._options, self._plan, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The rows are stored already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Written rows stay: a log can't take them back."""


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """The same for micro-batches."""

    def __init__(self, options: WriteOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_rows(self._options, self._plan, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The rows are stored already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Written rows stay: a log can't take them back."""


def write_rows(options: WriteOptions, plan: RowPlan, batches: Iterator[Any]) -> Written:
    """All rows of a task; returns when the cluster has acknowledged them."""
    key = tuple(sorted((_SETTINGS | options.client).items()))
    producer = _idle.pop(key, None) or Producer(dict(key))
    try:
        row_count = _write(producer, options, plan, batches)
    except BaseException:
        producer.close(0)
        raise
    _idle[key] = producer
    return Written(row_count)


def _write(producer: Producer, options: WriteOptions, plan: RowPlan, batches: Iterator[Any]) -> int:
    row_count = 0
    handles: deque[TableHandle] = deque()
    for batch in batches:
        rows = _with_known_names(batch.select(list(plan.columns)))
        for topic, part in _by_topic(rows, plan.topic):
            try:
                handles.append(producer.send_arrow(topic, part))
            except TimedOut as error:
                raise RuntimeError(f"topic {topic} at {options.client['bootstrap.servers']}: {error}") from error
        row_count += batch.num_rows
        while len(handles) > _TABLES_UNDER_WAY:
            handles.popleft().result()
    for handle in handles:
        handle.result()
    return row_count


def _with_known_names(batch: Any) -> Any:
    names = [name.lower() for name in batch.schema.names]
    return batch if names == batch.schema.names else batch.rename_columns(names)


def _by_topic(rows: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """The rows of each topic, in their order."""
    if topic is not None:
        yield topic, rows
        return
    if not rows.num_rows:
        return
    topics = rows.column(rows.schema.get_field_index("topic"))
    if topics.null_count:
        raise ValueError(f"{topics.null_count} rows have no topic; set the option topic, or fill the column")
    names = pc.unique(topics).to_pylist()
    plain = rows.drop_columns(["topic"])
    if len(names) == 1:
        yield names[0], plain
        return
    for name in names:
        yield name, plain.filter(pc.equal(topics, pa.scalar(name)))
