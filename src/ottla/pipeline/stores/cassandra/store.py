"""The store on Cassandra behind the port. The driver owns it; executors have connections of their own.

One process at a time writes to a table: with two, rows would still be right, but nobody would see conflicts of ids
between them.
"""

import itertools
import json
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.core.types import TopicPartition
from ottla.pipeline.stores import conditions
from ottla.pipeline.stores.arrow_rows import day_number, in_schema, rows_of, schema_of
from ottla.pipeline.stores.cassandra import posting, schema
from ottla.pipeline.stores.cassandra.appending import ID_COLUMNS, append
from ottla.pipeline.stores.cassandra.connecting import Address, Connection, parse_address
from ottla.pipeline.stores.cassandra.known_ids import KnownIds
from ottla.pipeline.stores.cassandra.reading import days_of, lookup, scan
from ottla.pipeline.stores.cassandra.working import InDriver, InExecutors, Scatter, WriteEvents, run_in_executors
from ottla.pipeline.stores.comparing import compare_stores
from ottla.pipeline.stores.port import Appended, Batch, Condition, Difference, Posted, Store, StoreError
from ottla.pipeline.tables import LOG_TABLES, TABLES, table_named, table_with_days

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,29}")
_NOTES_KEPT: Final = 32
_POST: Final = "post"
_SHADOW: Final = "shadow "
_KEYSPACE_LETTERS_MAX: Final = 48
_ROWS_FOR_EXECUTORS: Final = 5000


def open_cassandra(text: str) -> "CassandraStore":
    return CassandraStore(parse_address(text))


class CassandraStore:
    """The tables of one keyspace, or of the keyspace that has replaced it. Thread-safe."""

    writes_in_driver = False

    def __init__(self, address: Address, *, keyspace: str | None = None, connection: Connection | None = None) -> None:
        """`keyspace` holds the tables, even after a shadow has replaced those of the address."""
        self._address = address
        self._lock = threading.RLock()
        self._connection = connection or Connection(address)
        self._last_timestamp_us = 0
        self._enter(keyspace or schema.active_keyspace(self._connection, address))

    def initialise(self) -> None:
        with self._lock:
            schema.make_keyspace(self._connection, self._keyspace)
            schema.make_tables(self._connection, self._keyspace)

    def append_events(self, events: "DataFrame", batch: Batch) -> Appended:
        def write_all_but(conflicts: frozenset[tuple[str, int, int]]) -> None:
            run_in_executors(events, self._address, WriteEvents(self._keyspace, conflicts))

        with self._lock:
            return append(self._known, events.select(*ID_COLUMNS).toArrow(), batch, write_all_but)

    def append_arrow(self, events: pa.Table, batch: Batch) -> Appended:
        def write_all_but(conflicts: frozenset[tuple[str, int, int]]) -> None:
            InDriver(self._connection)(events, WriteEvents(self._keyspace, conflicts))

        with self._lock:
            return append(self._known, events.select(ID_COLUMNS), batch, write_all_but)

    def post(self, entries: "DataFrame", steps: "DataFrame", batch: Batch) -> Posted:
        return self._post(InExecutors(entries.sparkSession, self._address), entries.toArrow(), steps.toArrow(), batch)

    def post_arrow(self, entries: pa.Table, steps: pa.Table, batch: Batch) -> Posted:
        scatter = _scatter(self._connection, self._address, entries.num_rows + steps.num_rows)
        return self._post(scatter, entries, steps, batch)

    def upsert(self, table: str, rows: pa.Table, batch: Batch) -> None:
        declared = table_named(table)
        if table in LOG_TABLES:
            raise ValueError(f"{table} is a log table: its rows come by append_events")
        with self._lock:
            timestamp_us = self._next_timestamp_us()
            values = rows_of(in_schema(rows, schema_of(declared)))
            statement = schema.insert_statement(self._keyspace, declared)
            self._connection.write_all(statement, ((*row, timestamp_us) for row in values))

    def upsert_all(self, rows: Mapping[str, pa.Table], batch: Batch) -> None:
        for table, each in rows.items():
            self.upsert(table, each, batch)

    def delete(self, table: str, keys: Iterable[tuple[Any, ...]], batch: Batch) -> None:
        declared = table_named(table)
        if table in LOG_TABLES:
            raise ValueError(f"{table} is a log table: its rows go by day, with expire")
        conditions = " AND ".join(f'"{name}" = ?' for name in declared.key)
        with self._lock:
            timestamp_us = self._next_timestamp_us()
            self._connection.write_all(
                f"DELETE FROM {self._keyspace}.{table} USING TIMESTAMP ? WHERE {conditions}",
                ((timestamp_us, *key) for key in keys),
            )

    def event_time_high(self, job: str, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        highs = {}
        for topic_partition, notes in self._notes(job, list(starts)).items():
            before = [(offset, high_ms) for _, offset, high_ms in notes if offset <= starts[topic_partition]]
            if before:
                highs[topic_partition] = max(before)[1]
        return highs

    def note_event_time_high(self, job: str, highs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """In a ring of slots for each partition: nothing grows, and nothing has to be deleted."""
        rows = []
        for topic_partition, notes in self._notes(job, list(highs)).items():
            noted = max((number for number, _, _ in notes), default=0) + 1
            rows.append((job, *topic_partition, noted % _NOTES_KEPT, noted, *highs[topic_partition]))
        self._connection.write_all(
            f"INSERT INTO {self._keyspace}.{schema.EVENT_TIME_HIGH} "
            "(job, topic, partition, slot, noted, next_offset, high_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def scan(
        self, table: str, *, columns: Sequence[str] | None = None, where: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        declared = table_named(table)
        names = conditions.checked_columns(declared, columns)
        checked = conditions.checked(declared, where)
        return scan(self._connection, self._keyspace, declared, columns=names, where=checked)

    def lookup(self, table: str, keys: Iterable[tuple[Any, ...]]) -> pa.Table:
        return lookup(self._connection, self._keyspace, table_named(table), keys)

    def tables(self) -> Sequence[str]:
        there = schema.tables_in(self._connection, self._keyspace)
        return [name for name in TABLES if name in there]

    def days(self, table: str) -> Sequence[str]:
        return sorted({day for _, day in days_of(self._connection, self._keyspace, table_with_days(table))})

    def expire(self, table: str, *, before_day: str) -> int:
        """By deletion: events of a dropped day that come again stay deleted, as their own times are older."""
        day_number(before_day)
        declared = table_with_days(table)
        with self._lock:
            old = [key for key in days_of(self._connection, self._keyspace, declared) if key[1] < before_day]
            self._connection.write_all(
                f"DELETE FROM {self._keyspace}.{table} WHERE {declared.partition_key[0]} = ? AND day = ?", old
            )
            days = {day for _, day in old}
            for day in days if table in LOG_TABLES else ():
                self._known.drop(table, day)
        return len(days)

    def shadow(self, name: str) -> "CassandraStore":
        """A keyspace of its own, with the replication of this one."""
        with self._lock:
            keyspace = self._shadow_keyspace(name)
            if keyspace is None:
                keyspace = self._new_keyspace(name)
                schema.make_keyspace(self._connection, keyspace, like=self._address.keyspace)
                self._connection.execute(self._set_meta(), [f"{_SHADOW}{name}", keyspace])
        store = CassandraStore(self._address._replace(keyspace=keyspace), keyspace=keyspace)
        store.initialise()
        return store

    def compare(self, other: Store) -> Iterator[Difference]:
        return compare_stores(self, other)

    def swap(self, name: str) -> None:
        """Cassandra can't rename tables: the swap changes which keyspace holds the tables of this store."""
        with self._lock:
            before = f"{name}-before"
            shadow, kept = self._shadow_keyspace(name), self._shadow_keyspace(before)
            if shadow is None:
                raise StoreError(f"{self._address}: there is no shadow {name} to swap in")
            if kept is not None:
                raise StoreError(
                    f"{self._address}: {kept} is kept from an earlier swap of {name}; name the replay otherwise"
                )
            set_meta = self._set_meta()
            delete_meta = f"DELETE FROM {self._address.keyspace}.{schema.META} WHERE name = ?"
            self._connection.execute(
                f"BEGIN BATCH {set_meta}; {set_meta}; {delete_meta}; APPLY BATCH",
                [f"{_SHADOW}{before}", self._keyspace, schema.ACTIVE, shadow, f"{_SHADOW}{name}"],
            )
            self._enter(shadow)

    def close(self) -> None:
        self._connection.close()

    def _post(self, scatter: Scatter, entries: pa.Table, steps: pa.Table, batch: Batch) -> Posted:
        with self._lock:
            earlier = self._marked(batch)
            moment = posting.Moment(self._next_timestamp_us(), time.time_ns() // 1_000_000)
            posted = posting.post(self._known, self._keyspace, scatter, entries, steps, batch, moment)
            # Entries are counted the same each time; a task that is done already is not finished again.
            posted = posted._replace(tasks_done=posted.tasks_done + earlier)
            self._connection.execute(
                f"INSERT INTO {self._keyspace}.{schema.BATCH_MARK} (job, run, call, number, outcome) "
                "VALUES (?, ?, ?, ?, ?)",
                [batch.job, batch.run, _POST, batch.number, json.dumps(posted)],
            )
            return posted

    def _marked(self, batch: Batch) -> int:
        rows = self._connection.execute(
            f"SELECT number, outcome FROM {self._keyspace}.{schema.BATCH_MARK} WHERE job = ? AND run = ? AND call = ?",
            [batch.job, batch.run, _POST],
        )
        return Posted(*json.loads(rows[0][1])).tasks_done if rows and rows[0][0] == batch.number else 0

    def _next_timestamp_us(self) -> int:
        """Greater than any before, even if the clock was set back."""
        meta = f"{self._keyspace}.{schema.META}"
        rows = self._connection.execute(f"SELECT value FROM {meta} WHERE name = ?", ["timestamp_us"])
        last = max(self._last_timestamp_us, int(rows[0][0]) if rows else 0)
        # Two apart: a deletion gets the timestamp just before that of its replacement.
        self._last_timestamp_us = max(time.time_ns() // 1000, last + 2)
        self._connection.execute(
            f"INSERT INTO {meta} (name, value) VALUES (?, ?)", ["timestamp_us", str(self._last_timestamp_us)]
        )
        return self._last_timestamp_us

    def _notes(
        self, job: str, topic_partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[tuple[int, int, int]]]:
        rows = self._connection.read_all(
            f"SELECT noted, next_offset, high_ms FROM {self._keyspace}.{schema.EVENT_TIME_HIGH} "
            "WHERE job = ? AND topic = ? AND partition = ?",
            [(job, *topic_partition) for topic_partition in topic_partitions],
        )
        return {
            topic_partition: [(row[0], row[1], row[2]) for row in notes]
            for topic_partition, notes in zip(topic_partitions, rows, strict=True)
        }

    def _enter(self, keyspace: str) -> None:
        self._keyspace = keyspace
        self._known = KnownIds(self._connection, keyspace)

    def _shadow_keyspace(self, name: str) -> str | None:
        """The keyspace of this shadow, if it exists."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for a shadow: letters, digits, _ and -, at most 30")
        rows = self._connection.execute(
            f"SELECT value FROM {self._address.keyspace}.{schema.META} WHERE name = ?", [f"{_SHADOW}{name}"]
        )
        return str(rows[0][0]) if rows else None

    def _new_keyspace(self, name: str) -> str:
        """A name that no keyspace has yet: an earlier shadow of this name may hold the tables by now."""
        there = {row[0] for row in self._connection.execute("SELECT keyspace_name FROM system_schema.keyspaces")}
        wanted = f"{self._address.keyspace}_{name.replace('-', '_').lower()}"
        names = (wanted if number == 1 else f"{wanted}_{number}" for number in itertools.count(1))
        keyspace = next(name for name in names if name not in there)
        if len(keyspace) > _KEYSPACE_LETTERS_MAX:
            raise ValueError(f"{keyspace} is longer than the 48 letters that Cassandra allows; take a shorter name")
        return keyspace

    def _set_meta(self) -> str:
        return f"INSERT INTO {self._address.keyspace}.{schema.META} (name, value) VALUES (?, ?)"


def _scatter(connection: Connection, address: Address, rows: int) -> Scatter:
    """Executors where Spark runs and there is enough to do: the driver limits what a single process can do."""
    if rows >= _ROWS_FOR_EXECUTORS and "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            return InExecutors(session, address)
    return InDriver(connection)
