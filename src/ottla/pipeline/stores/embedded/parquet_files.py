"""A day's rows in Parquet files: names, encoding, reading. No two files share a row.

    DIR/logs/<table>/day=YYYY-MM-DD/part-<batch>-<n>.parquet

The column `day` is in the folder's name and in no file, as in Hive.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ottla.pipeline.stores.arrow_rows import schema_of
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.tables import Table

DAY: Final = "day"
_DAY_FOLDER: Final = re.compile(r"day=(\d{4}-\d\d-\d\d)")
_RUN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_FORMAT: Final = ds.ParquetFileFormat()
# Other columns have nearly as many values as rows: a dictionary of them would only cost time and space.
_FEW_VALUES: Final = (
    "event_type",
    "schema_version",
    "app_version",
    "slot",
    "reason",
    "login_kind",
    "outcome",
    "channel",
)
_ROW_GROUP_ROWS: Final = 128 * 1024  # as many are in memory when files are merged
_BATCH_ROWS: Final = 64 * 1024


class DayFile(NamedTuple):
    name: str
    size_bytes: int


def file_schema(table: Table) -> pa.Schema:
    return schema_of(table, [name for name in table.column_names if name != DAY])


def part_name(batch: Batch) -> str:
    if not _RUN.fullmatch(batch.run):
        raise ValueError(f"{batch.run!r} is no id of a run: letters, digits, _, - and ., at most 100")
    return f"part-{batch}-0.parquet"


def day_folder(table_folder: Path, day: str) -> Path:
    return table_folder / f"{DAY}={day}"


def days_in(table_folder: Path) -> list[str]:
    """The days that have a folder, in order."""
    try:
        names = [entry.name for entry in table_folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(found[1] for found in map(_DAY_FOLDER.fullmatch, names) if found is not None)


def files_in(folder: Path) -> list[DayFile]:
    """A day's Parquet files by name."""
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".parquet" and not path.name.startswith(".")]
        return sorted(DayFile(path.name, path.stat().st_size) for path in paths)
    except FileNotFoundError:
        # No such day, or it was merged between the list and the sizes; then the new list is complete.
        return files_in(folder) if folder.exists() else []


def encode(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with _writer(sink, rows.schema) as writer:
        writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
    return sink.getvalue()


def merge(paths: Sequence[Path], target: Path, schema: pa.Schema) -> int:
    """Writes all rows of these files into one new file; returns how many there are."""
    rows = waiting_rows = 0
    waiting: list[pa.Table] = []
    with _writer(_spelt(target), schema) as writer:
        for path in paths:
            table = pq.read_table(_spelt(path), schema=schema, partitioning=None)
            waiting.append(table)
            rows += table.num_rows
            waiting_rows += table.num_rows
            if waiting_rows >= _ROW_GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting), row_group_size=_ROW_GROUP_ROWS)
                waiting, waiting_rows = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(waiting), row_group_size=_ROW_GROUP_ROWS)
    return rows


def read(path: Path, columns: Sequence[str]) -> pa.Table:
    return pq.read_table(_spelt(path), columns=list(columns), partitioning=None)


def row_count(path: Path) -> int:
    return int(pq.read_metadata(_spelt(path)).num_rows)


def scan_day(
    folder: Path, schema: pa.Schema, *, columns: Sequence[str], filter_: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    """A snapshot of a day's rows, even if the folder changes during the read."""
    for file in _open_all(folder):
        fragment = _FORMAT.make_fragment(file)
        scanner = fragment.scanner(schema=schema, columns=list(columns), filter=filter_, batch_size=_BATCH_ROWS)
        yield from (batch for batch in scanner.to_batches() if batch.num_rows)


def _open_all(folder: Path) -> list[pa.NativeFile]:
    while True:
        try:
            return [pa.memory_map(_spelt(folder / file.name)) for file in files_in(folder)]
        except FileNotFoundError:
            continue  # merged meanwhile: what was listed is gone, its rows are under another name


def _spelt(path: Path) -> str:
    """For Arrow, which takes a relative name with a colon in it for a URI."""
    return str(path.absolute())


def _writer(target: pa.NativeFile | str, schema: pa.Schema) -> pq.ParquetWriter:
    few = [name for name in schema.names if name in _FEW_VALUES]
    return pq.ParquetWriter(target, schema, compression="zstd", compression_level=1, use_dictionary=few)
