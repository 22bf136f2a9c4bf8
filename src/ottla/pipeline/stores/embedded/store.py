"""The embedded store: `DIR/logs` and `DIR/serving.sqlite` behind the port, one writer at a time.

Threads of one process wait for each other, processes for a lock on a file; readers wait for nobody.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.core.types import TopicPartition
from ottla.pipeline.stores import conditions
from ottla.pipeline.stores.arrow_rows import schema_of
from ottla.pipeline.stores.comparing import compare_stores
from ottla.pipeline.stores.embedded import ledger, swapping
from ottla.pipeline.stores.embedded.files import Files
from ottla.pipeline.stores.embedded.log_tables import LogTables
from ottla.pipeline.stores.embedded.serving import Clock, Serving, wall_clock_ms
from ottla.pipeline.stores.port import Appended, Batch, Condition, Difference, Posted, Store, StoreError
from ottla.pipeline.tables import LOG_TABLES, table_named, table_with_days

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOCK: Final = ".lock"


class EmbeddedStore:
    """One folder of tables. Thread-safe; several processes may have it open."""

    writes_in_driver = True

    def __init__(self, folder: Path, *, files: Files | None = None, clock: Clock = wall_clock_ms) -> None:
        self.folder = folder
        self._files = files or Files()
        self._clock = clock
        self._lock = threading.RLock()
        self._serving = Serving(folder / swapping.SERVING, self._files)
        self._logs = LogTables(folder / swapping.LOGS, folder / swapping.SCRATCH, self._files)

    def initialise(self) -> None:
        try:
            self._files.make_folders([self.folder / swapping.SCRATCH])
        except OSError as problem:
            raise StoreError(f"{self.folder}: the folder of the store can't be made: {problem}") from problem
        with self._writing():
            self._files.make_folders(self.folder / swapping.LOGS / name for name in LOG_TABLES)
            self._serving.initialise()

    def append_events(self, events: "DataFrame", batch: Batch) -> Appended:
        return self.append_arrow(events.toArrow(), batch)

    def append_arrow(self, events: pa.Table, batch: Batch) -> Appended:
        with self._writing():
            return self._logs.append(events, batch)

    def post(self, entries: "DataFrame", steps: "DataFrame", batch: Batch) -> Posted:
        return self.post_arrow(entries.toArrow(), steps.toArrow(), batch)

    def post_arrow(self, entries: pa.Table, steps: pa.Table, batch: Batch) -> Posted:
        with self._writing():
            return ledger.post(self._serving, entries, steps, batch, now_ms=self._clock())

    def upsert(self, table: str, rows: pa.Table, batch: Batch) -> None:
        self.upsert_all({table: rows}, batch)

    def upsert_all(self, rows: Mapping[str, pa.Table], batch: Batch) -> None:
        for table in rows:
            table_named(table)
            if table in LOG_TABLES:
                raise ValueError(f"{table} is a log table: its rows come by append_events")
        with self._writing():
            self._serving.upsert_all({table_named(table): each for table, each in rows.items()}, batch)

    def delete(self, table: str, keys: Iterable[tuple[Any, ...]], batch: Batch) -> None:
        declared = table_named(table)
        if table in LOG_TABLES:
            raise ValueError(f"{table} is a log table: its rows go by day, with expire")
        with self._writing():
            self._serving.delete(declared, keys, batch)

    def event_time_high(self, job: str, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return self._serving.event_time_high(job, starts)

    def note_event_time_high(self, job: str, highs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        with self._writing():
            self._serving.note_event_time_high(job, highs)

    def scan(
        self, table: str, *, columns: Sequence[str] | None = None, where: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        self._finish_swap()
        declared = table_named(table)
        names = conditions.checked_columns(declared, columns)
        checked = conditions.checked(declared, where)
        if table in LOG_TABLES:
            return self._logs.scan(declared, columns=names, where=checked)
        return self._serving.scan(declared, columns=names, where=checked)

    def lookup(self, table: str, keys: Iterable[tuple[Any, ...]]) -> pa.Table:
        self._finish_swap()
        declared = table_named(table)
        if table not in LOG_TABLES:
            return self._serving.lookup(declared, keys)
        subjects: dict[str, list[str]] = {}
        for subject, day in dict.fromkeys(keys):
            subjects.setdefault(day, []).append(subject)
        found = [
            rows.filter(
                pc.is_in(rows.column(declared.partition_key[0]), value_set=pa.array(subjects[day], pa.string()))
            )
            for day in subjects
            for rows in self._logs.scan(declared, columns=declared.column_names, where=[Condition("day", "=", day)])
        ]
        return pa.Table.from_batches(found, schema=schema_of(declared))

    def tables(self) -> Sequence[str]:
        self._finish_swap()
        logs = [name for name in LOG_TABLES if (self.folder / swapping.LOGS / name).is_dir()]
        return [*logs, *self._serving.tables()]

    def days(self, table: str) -> Sequence[str]:
        self._finish_swap()
        declared = table_with_days(table)
        return self._serving.days(declared) if table not in LOG_TABLES else self._logs.days(table)

    def expire(self, table: str, *, before_day: str) -> int:
        declared = table_with_days(table)
        with self._writing():
            if table not in LOG_TABLES:
                return self._serving.expire(declared, before_day=before_day)
            return self._logs.expire(table, before_day=before_day)

    def shadow(self, name: str) -> "EmbeddedStore":
        store = EmbeddedStore(swapping.shadow_folder(self.folder, name), files=self._files, clock=self._clock)
        store.initialise()
        return store

    def compare(self, other: Store) -> Iterator[Difference]:
        return compare_stores(self, other)

    def swap(self, name: str) -> None:
        with self._writing():
            self._serving.close()
            swapping.check(self.folder, name)
            for part in (self.folder, swapping.shadow_folder(self.folder, name)):
                Serving(part / swapping.SERVING, self._files).fold_log()
            swapping.swap(self.folder, name, self._files)
            self._logs.forget()
            self._serving.initialise()

    def close(self) -> None:
        with self._lock:
            self._serving.close()
            self._logs.forget()

    def _finish_swap(self) -> None:
        """Finishes a swap that was cut short, so that a reader finds tables."""
        if swapping.is_under_way(self.folder):
            with self._writing():
                pass

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if not (self.folder / swapping.SCRATCH).is_dir():
            raise StoreError(f"{self.folder} holds no tables; `ottla pipeline init-store` makes them")
        with self._lock, self._files.locked(self.folder / _LOCK):
            swapping.finish_swap(self.folder, self._files)
            yield
