"""`serving.sqlite`: the tables with lookups by key. Schema, transactions, upserts, reads.

One connection writes, with a transaction for each call that is durable when the call returns; each read has a
connection of its own and sees the tables as they were when it began. The caller lets one thread write at a time.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ottla.core.types import TopicPartition
from ottla.pipeline.stores.arrow_rows import in_schema, rows_of, schema_of
from ottla.pipeline.stores.conditions import as_sql
from ottla.pipeline.stores.embedded.files import Files
from ottla.pipeline.stores.port import Batch, Condition, StoreError
from ottla.pipeline.tables import LEDGER, SERVING_TABLES, TASK_STEP, Table

VERSION: Final = 1
_WAIT_SECONDS: Final = 60.0
_FETCHED_ROWS: Final = 16 * 1024
_NUL: Final = "\\u0000"
_NOTES_KEPT: Final = 32  # of a partition's event time highs: a batch that runs again needs one of the last

# Keyed by day first, so that a batch touches only pages of its own days, however many days there are.
# By whole days, not by time: an id that comes with two times in one day is one id.
_DAY_KEYED: Final = {LEDGER.name: ("event_time_ms", "entry_id"), TASK_STEP.name: ("event_time_ms", "event_id")}
_OWN_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS batch_mark"
    " (job TEXT, run TEXT, call TEXT, number INTEGER, outcome TEXT, PRIMARY KEY (job, run, call)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS event_time_high (job TEXT, topic TEXT, partition INTEGER, next_offset INTEGER,"
    " high_ms INTEGER, noted INTEGER, PRIMARY KEY (job, topic, partition, next_offset)) WITHOUT ROWID",
)

Clock = Callable[[], int]


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Serving:
    """Opened with the first write or read; `close` may be followed by another use."""

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self._files = files
        self._writer: sqlite3.Connection | None = None
        self._inode = 0

    def initialise(self) -> None:
        with self.transaction("making the tables") as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise StoreError(
                    f"{self.path} holds tables of version {version}, this is version {VERSION}: take the release of "
                    "Ottla that wrote them, or an empty folder and a replay"
                )
            for table in SERVING_TABLES.values():
                _make_table(connection, table, self.path)
            for statement in _OWN_TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        """Everything in it, or nothing."""
        try:
            connection = self._open_writer()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                self._files.commit(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except sqlite3.Error as problem:
            raise StoreError(
                f"{self.path}: {doing} failed: {problem}; nothing of it was kept, and it can be done again"
                f"{'; make room on the disk' if 'full' in str(problem) else ''}"
            ) from problem

    def upsert_all(self, rows: Mapping[Table, pa.Table], batch: Batch) -> None:
        doing = ", ".join(f"{each.num_rows} rows of {table.name}" for table, each in rows.items())
        with self.transaction(f"batch {batch}, {doing}") as connection:
            for table, each in rows.items():
                connection.executemany(_upsert_statement(table), rows_of(in_schema(each, schema_of(table))))
                mark(connection, batch, f"upsert {table.name}", "")

    def delete(self, table: Table, keys: Iterable[tuple[Any, ...]], batch: Batch) -> None:
        conditions = " AND ".join(f"{_q(name)} = ?" for name in table.key)
        values = list(keys)
        with self.transaction(f"batch {batch}, taking {len(values)} rows from {table.name}") as connection:
            connection.executemany(f"DELETE FROM {_q(table.name)} WHERE {conditions}", values)
            mark(connection, batch, f"delete {table.name}", "")

    def days(self, table: Table) -> list[str]:
        with closing(self._open_reader()) as connection:
            return [day for (day,) in connection.execute(f"SELECT DISTINCT day FROM {_q(table.name)} ORDER BY day")]

    def expire(self, table: Table, *, before_day: str) -> int:
        with self.transaction(f"dropping days of {table.name} before {before_day}") as connection:
            rest = f"FROM {_q(table.name)} WHERE day < ?"
            dropped = connection.execute(f"SELECT COUNT(DISTINCT day) {rest}", (before_day,)).fetchone()[0]
            connection.execute(f"DELETE {rest}", (before_day,))
            return int(dropped)

    def scan(self, table: Table, *, columns: Sequence[str], where: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        conditions, values = as_sql(where)
        schema = schema_of(table, columns)
        with closing(self._open_reader()) as connection:
            cursor = connection.execute(f"SELECT {_list(columns)} FROM {_q(table.name)}{conditions}", values)
            while rows := cursor.fetchmany(_FETCHED_ROWS):
                yield _batch(rows, schema)

    def lookup(self, table: Table, keys: Iterable[tuple[Any, ...]]) -> pa.Table:
        schema = schema_of(table)
        columns = ", ".join(f"t.{_q(name)}" for name in table.column_names)
        asked = list(dict.fromkeys(keys))
        by = table.asked_by(asked)
        as_json = json.dumps(asked)
        rows: list[tuple[Any, ...]] = []
        with closing(self._open_reader()) as connection:
            if _NUL in as_json:  # SQLite's JSON ends a text there
                conditions = " AND ".join(f"{_q(name)} = ?" for name in by)
                statement = f"SELECT {columns} FROM {_q(table.name)} AS t WHERE {conditions}"
                for key in asked:
                    rows += connection.execute(statement, key).fetchall()
            else:
                # One statement for thousands of keys: a call for each would cost more than finding its rows. The cross
                # join keeps them outside, so that each is looked up by the table's key.
                conditions = " AND ".join(
                    f"t.{_q(name)} = json_extract(asked.value, '$[{index}]')" for index, name in enumerate(by)
                )
                statement = (
                    f"SELECT {columns} FROM json_each(?) AS asked CROSS JOIN {_q(table.name)} AS t ON {conditions}"
                )
                rows = connection.execute(statement, (as_json,)).fetchall()
        return pa.Table.from_batches([_batch(rows, schema)] if rows else [], schema=schema)

    def tables(self) -> list[str]:
        if not self.path.exists():
            return []
        with closing(self._open_reader()) as connection:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        return [name for name in SERVING_TABLES if name in names]

    def event_time_high(self, job: str, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        statement = (
            "SELECT high_ms FROM event_time_high WHERE job = ? AND topic = ? AND partition = ? AND next_offset <= ? "
            "ORDER BY next_offset DESC LIMIT 1"
        )
        highs = {}
        with closing(self._open_reader()) as connection:
            for (topic, partition), offset in starts.items():
                row = connection.execute(statement, (job, topic, partition, offset)).fetchone()
                if row is not None:
                    highs[TopicPartition(topic, partition)] = row[0]
        return highs

    def note_event_time_high(self, job: str, highs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        with self.transaction(f"noting event times of {job}") as connection:
            last = connection.execute("SELECT COALESCE(MAX(noted), 0) FROM event_time_high WHERE job = ?", (job,))
            noted = last.fetchone()[0] + 1
            for (topic, partition), (offset, high_ms) in highs.items():
                key = (job, topic, partition)
                connection.execute(
                    "INSERT OR REPLACE INTO event_time_high VALUES (?, ?, ?, ?, ?, ?)", (*key, offset, high_ms, noted)
                )
                # By the time of the note, not by offset: a job that starts over notes small offsets again.
                connection.execute(
                    "DELETE FROM event_time_high WHERE job = ? AND topic = ? AND partition = ? AND noted <= "
                    "(SELECT noted FROM event_time_high WHERE job = ? AND topic = ? AND partition = ?"
                    " ORDER BY noted DESC LIMIT 1 OFFSET ?)",
                    (*key, *key, _NOTES_KEPT),
                )

    def fold_log(self) -> None:
        """Moves everything into the one file, so that it can be renamed; refused while someone else reads."""
        with closing(self._open_writer()) as connection:
            is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._writer = None
        log = self.path.with_name(f"{self.path.name}-wal")
        if is_busy or (log.exists() and log.stat().st_size):
            raise StoreError(f"{self.path} is in use: stop what reads or writes it, and try again")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()  # moves the log into the file, or keeps it where the disk is full
            self._writer = None

    def _open_writer(self) -> sqlite3.Connection:
        if self._writer is not None:
            if self.path.exists() and self.path.stat().st_ino == self._inode:
                return self._writer
            self._writer.close()  # another process has swapped the tables
        connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a batch that Spark counts as done survives a power cut
        connection.execute(
            "PRAGMA fullfsync = 1"
        )  # macOS: to the medium, not to the drive's cache; else without effect
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA wal_autocheckpoint = 16384")  # 64 MB: pages that many batches touch are moved once
        self._writer, self._inode = connection, self.path.stat().st_ino
        return connection

    def _open_reader(self) -> sqlite3.Connection:
        if not self.path.exists():
            raise StoreError(f"{self.path} is not there; `ottla pipeline init-store` makes it")
        connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only = 1")
        return connection


def _upsert_statement(table: Table) -> str:
    names = table.column_names
    others = [name for name in names if name not in table.key]
    action = f"UPDATE SET {', '.join(f'{_q(name)} = excluded.{_q(name)}' for name in others)}" if others else "NOTHING"
    return (
        f"INSERT INTO {_q(table.name)} ({_list(names)}) VALUES ({_marks(names)}) "
        f"ON CONFLICT ({_list(table.key)}) DO {action}"
    )


def mark(connection: sqlite3.Connection, batch: Batch, call: str, outcome: str) -> None:
    """What the batch did, in the transaction that does it."""
    connection.execute(
        "INSERT OR REPLACE INTO batch_mark VALUES (?, ?, ?, ?, ?)", (batch.job, batch.run, call, batch.number, outcome)
    )


def marked(connection: sqlite3.Connection, batch: Batch, call: str) -> str | None:
    """What this very batch has done before."""
    row = connection.execute(
        "SELECT outcome FROM batch_mark WHERE job = ? AND run = ? AND call = ? AND number = ?",
        (batch.job, batch.run, call, batch.number),
    ).fetchone()
    return None if row is None else str(row[0])


def _make_table(connection: sqlite3.Connection, table: Table, path: Path) -> None:
    there = [row[1] for row in connection.execute(f"PRAGMA table_info({_q(table.name)})")]
    if there and there != list(table.column_names):
        raise StoreError(
            f"{path}: {table.name} has the columns {', '.join(there)}, expected {', '.join(table.column_names)}: "
            "it was made by another release; take that one, or an empty folder and a replay"
        )
    columns = ", ".join(f"{_q(column.name)} {column.type.upper()}" for column in table.columns)
    if table.name not in _DAY_KEYED:
        key = f", PRIMARY KEY ({_list(table.key)})"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {_q(table.name)} ({columns}{key}) WITHOUT ROWID")
        return
    time_column, id_column = _DAY_KEYED[table.name]
    connection.execute(f"CREATE TABLE IF NOT EXISTS {_q(table.name)} ({columns})")
    connection.execute(
        f"CREATE UNIQUE INDEX IF NOT EXISTS {table.name}_by_day ON {table.name} ({time_column} / 86400000, {id_column})"
    )
    if table is TASK_STEP:
        connection.execute(f"CREATE INDEX IF NOT EXISTS {table.name}_by_task ON {table.name} (account_id, task_id)")


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _q(name: str) -> str:
    return f'"{name}"'


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_q, names))


def _marks(names: Sequence[str]) -> str:
    return ", ".join("?" * len(names))
