"""The workers' half of an export: a slice of a partition's records to Parquet files, one for each day or one in all.

Runs in Spark's Python workers on Arrow batches. A file has a name that nobody else uses, and is complete and on disk
before the worker reports it; the driver (`jobs/export.py`) moves it to its final name.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.core.operating_system import sync_file
from ottla.pipeline.events.frames import PARSED
from ottla.pipeline.events.parsing import Parser, ParsingRules
from ottla.pipeline.events.payloads import ReadCounters
from ottla.pipeline.tables import LOG_TABLES
from ottla.pipeline.topics import BY_NAME
from ottla.pipeline.viewing.table_view import arrow_schema

_ROW_GROUP_ROWS: Final = 128 * 1024
_COMPRESSION: Final = "zstd"
_DAY: Final = "day"

# What a task reports: a row for each file. Its counters say how many bad records it has read.
FILES: Final = pa.schema(
    [
        ("path", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("day", pa.string()),
        ("rows", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
    ]
)


class DayRange(NamedTuple):
    """Days of events as YYYY-MM-DD, both ends included; None is open."""

    first: str | None
    last: str | None

    def holds(self, days: pa.Array) -> pa.Array | None:
        """Which of these days are in it; None when all are."""
        kept = None
        if self.first is not None:
            kept = pc.greater_equal(days, self.first)
        if self.last is not None:
            is_before = pc.less_equal(days, self.last)
            kept = is_before if kept is None else pc.and_(kept, is_before)
        return kept


def export_schema(topic: str) -> pa.Schema:
    """Columns of a topic's files: a record's position, then those of its log table. Phone numbers are hashed."""
    table = LOG_TABLES[BY_NAME[topic].table]
    names = [name for name in table.column_names if name != _DAY]
    origin = [("partition", pa.int32()), ("offset", pa.int64()), ("timestamp_ms", pa.int64())]
    return pa.schema([*origin, *arrow_schema(table, names)])


class ExportTask:
    """Pickled to the workers: called there with the Arrow batches of one slice, it writes files and reports them."""

    def __init__(self, folder: Path, rules: ParsingRules, *, now_ms: int, days: DayRange, is_by_day: bool) -> None:
        self._folder = folder
        self._parser = Parser(rules, now_ms=now_ms, schema=PARSED)
        self._days = days
        self._is_by_day = is_by_day

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files: dict[tuple[str, int, str | None], _File] = {}
        counters = ReadCounters()
        try:
            for parsed in self._parser(batches):
                self._take(pa.Table.from_batches([parsed]), files, counters)
            finished = [file.finish() for file in files.values()]
        except BaseException:
            for file in files.values():
                file.abandon()
            raise
        if finished:
            yield pa.RecordBatch.from_pylist(finished, schema=FILES)
        if counters.rows:
            yield counters.as_batch()

    def _take(
        self,
        parsed: pa.Table,
        files: "dict[tuple[str, int, str | None], _File]",
        counters: ReadCounters,
    ) -> None:
        """Of one topic, and most often of one partition."""
        topic = parsed.column("topic")[0].as_py()
        counters.add(topic, parsed.num_rows)
        for partition in parsed.column("partition").unique().to_pylist():
            rows = parsed.filter(pc.equal(parsed.column("partition"), partition))
            is_sound = pc.is_null(rows.column("error_class"))
            for counted in pc.value_counts(rows.filter(pc.invert(is_sound)).column("error_class")).to_pylist():
                counters.add_dead(counted["values"], counted["counts"])
            for day, of_day in self._by_day(rows.filter(is_sound)):
                if (topic, partition, day) not in files:
                    files[topic, partition, day] = _File(self._folder, topic, partition, day)
                files[topic, partition, day].add(of_day)

    def _by_day(self, rows: pa.Table) -> Iterator[tuple[str | None, pa.Table]]:
        if rows.num_rows == 0:
            return
        days = pc.strftime(pc.cast(rows.column("event_time"), pa.timestamp("ms")), format="%Y-%m-%d")
        kept = self._days.holds(days)
        if kept is not None:
            rows, days = rows.filter(kept), days.filter(kept)
        if not self._is_by_day:
            if rows.num_rows:
                yield None, rows
            return
        for day in days.unique().to_pylist():
            yield day, rows.filter(pc.equal(days, day))


class _File:
    """A file that is being written, in row groups of a bounded size."""

    def __init__(self, folder: Path, topic: str, partition: int, day: str | None) -> None:
        self._path = folder / f"{uuid4().hex}.part"
        self._report: dict[str, Any] = {"path": str(self._path), "topic": topic, "partition": partition, "day": day}
        self._schema = export_schema(topic)
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._rows = 0
        self._writer = pq.ParquetWriter(self._path, self._schema, compression=_COMPRESSION)

    def add(self, rows: pa.Table) -> None:
        self._report.setdefault("first_offset", rows.column("offset")[0].as_py())
        self._report["last_offset"] = rows.column("offset")[-1].as_py()
        self._waiting.append(rows.select(self._schema.names).cast(self._schema))
        self._waiting_rows += rows.num_rows
        self._rows += rows.num_rows
        if self._waiting_rows >= _ROW_GROUP_ROWS:
            self._write()

    def finish(self) -> dict[str, Any]:
        """Completes it on disk; what the task reports of it."""
        self._write()
        self._writer.close()
        with open(self._path, "rb+") as written:
            sync_file(written.fileno())
        return self._report | {"rows": self._rows}

    def abandon(self) -> None:
        self._writer.close()
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks(), row_group_size=_ROW_GROUP_ROWS)
            self._waiting, self._waiting_rows = [], 0
