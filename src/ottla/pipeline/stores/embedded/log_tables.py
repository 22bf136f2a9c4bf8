"""The log tables of the embedded store: a batch's new events become one Parquet file for each table and day.

Owns `DIR/logs` and the scratch folder beside it; the caller holds the store's lock around everything that writes.
A batch that runs again finds its own files: they don't count in the search for duplicates, and stay or are replaced.
"""

import errno
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.stores.arrow_rows import in_schema
from ottla.pipeline.stores.conditions import as_expression, holds
from ottla.pipeline.stores.digests import digest
from ottla.pipeline.stores.embedded import parquet_files
from ottla.pipeline.stores.embedded.files import Files
from ottla.pipeline.stores.embedded.merging import merge_small_files
from ottla.pipeline.stores.id_index import BYTES_PER_ID, INDEX_BYTES_MAX, IdIndex
from ottla.pipeline.stores.judging import Ids, Rows
from ottla.pipeline.stores.port import Appended, Batch, Condition, Origin, StoreError
from ottla.pipeline.stores.splitting import Group, judge_group, origins_at, split
from ottla.pipeline.tables import Table

_ID_COLUMNS: Final = ("event_id", "body_hash")
_ENCODING_THREADS: Final = 4

_log = logging.getLogger(__name__)


class _KnownIds:
    """The ids in some files of one day."""

    __slots__ = ("files", "index")

    def __init__(self, scratch: Path) -> None:
        self.files: set[str] = set()
        self.index = IdIndex(scratch)


class LogTables:
    """Of one store. The first write to a day reads its ids; they are dropped when other days need the memory."""

    def __init__(self, folder: Path, scratch: Path, files: Files, *, index_bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._folder = folder
        self._scratch = scratch
        self._files = files
        self._index_bytes_max = index_bytes_max
        self._known: OrderedDict[tuple[str, str], _KnownIds] = OrderedDict()

    def append(self, events: pa.Table, batch: Batch) -> Appended:
        part_name = parquet_files.part_name(batch)
        written: dict[str, int] = {}
        duplicates: dict[str, int] = {}
        conflicts: list[Origin] = []
        renames: list[tuple[Path, Path]] = []
        learned: list[tuple[_KnownIds, Ids]] = []
        files: list[pa.Table] = []
        groups = list(split(events))
        try:
            self.clear_scratch()
            for group in groups:
                name = group.table.name
                known = self._known_ids(name, group.day, without=part_name)
                verdict = judge_group(group, known.index)
                written[name] = written.get(name, 0) + len(verdict.kept)
                duplicates[name] = duplicates.get(name, 0) + verdict.duplicates
                conflicts += origins_at(group.events, verdict.conflicts)
                target = self._day_folder(name, group.day) / part_name
                rows = _rows_at(group, verdict.kept)
                if target.exists():
                    rows = _with_earlier_attempt(target, rows)
                    self._known.pop((name, group.day))
                if rows.num_rows:
                    renames.append((self._scratch / f"{len(files)}.tmp", target))
                    files.append(rows)
                learned.append((known, group.ids.at(verdict.kept)))
            for (temporary, _), encoded in zip(renames, _encoded(files), strict=True):
                self._files.write(temporary, encoded)
            self._publish(renames)
        except OSError as problem:
            self._known.clear()
            raise StoreError(
                f"batch {batch}: writing {len(groups)} files below {self._folder} failed: {problem}; what is not "
                f"written is written when the batch is run again{_advice(problem)}"
            ) from problem
        for known, ids in learned:
            known.index.add(*ids)
            known.files.add(part_name)
        self._merge(groups, batch)
        self._bound_indexes()
        return Appended(written, duplicates, sorted(conflicts))

    def scan(self, table: Table, *, columns: Sequence[str], where: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        """Each day as a snapshot."""
        folder = self._folder / table.name
        schema = parquet_files.file_schema(table)
        filter_ = as_expression([condition for condition in where if condition.column != parquet_files.DAY])
        by_day = [condition for condition in where if condition.column == parquet_files.DAY]
        read = [name for name in columns if name != parquet_files.DAY]
        for day in parquet_files.days_in(folder):
            if not all(holds(day, condition) for condition in by_day):
                continue
            # A batch without columns would not know its number of rows.
            for batch in parquet_files.scan_day(
                parquet_files.day_folder(folder, day), schema, columns=read or ["event_id"], filter_=filter_
            ):
                days = pa.repeat(pa.scalar(day), batch.num_rows)
                arrays = [days if name == parquet_files.DAY else batch.column(name) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def days(self, table: str) -> list[str]:
        folder = self._folder / table
        return [day for day in parquet_files.days_in(folder) if parquet_files.files_in(self._day_folder(table, day))]

    def expire(self, table: str, *, before_day: str) -> int:
        """Drops a day as a whole: its folder leaves the table first and is emptied then."""
        old = [day for day in parquet_files.days_in(self._folder / table) if day < before_day]
        self.clear_scratch()
        for day in old:
            away = self._scratch / f"expired-{day}"
            self._files.rename(self._day_folder(table, day), away)
            self._known.pop((table, day), None)
        if old:
            self._files.sync_folders([self._folder / table])
        self.clear_scratch()
        return len(old)

    def forget(self) -> None:
        """The files are no longer those that were seen last."""
        self._known.clear()

    def clear_scratch(self) -> None:
        """Removes the leftovers of an attempt that was cut short."""
        for path in self._scratch.iterdir():
            self._files.remove_tree(path)

    def _publish(self, renames: Sequence[tuple[Path, Path]]) -> None:
        """Makes contents durable first, then names; a crash in between leaves some of the batch's files."""
        self._files.sync_files([temporary for temporary, _ in renames])
        folders = sorted({target.parent for _, target in renames})
        self._files.make_folders(folder for folder in folders if not folder.exists())
        for temporary, target in renames:
            self._files.rename(temporary, target)
        self._files.sync_folders(folders)

    def _known_ids(self, table: str, day: str, *, without: str) -> _KnownIds:
        """The ids of a day in all files but one. Reads files that other processes have written meanwhile."""
        folder = self._day_folder(table, day)
        names = {file.name for file in parquet_files.files_in(folder)} - {without}
        known = self._known.get((table, day))
        if known is None or not known.files <= names:
            known = self._known[table, day] = _KnownIds(self._scratch)
        self._known.move_to_end((table, day))
        for name in sorted(names - known.files):
            rows = parquet_files.read(folder / name, _ID_COLUMNS)
            known.index.add(*digest(rows.column("event_id")), digest(rows.column("body_hash"))[0])
            known.files.add(name)
        return known

    def _merge(self, groups: Sequence[Group], batch: Batch) -> None:
        """Merges small files of the days that were written to. The batch's own stay apart: it may run again."""
        for group in groups:
            name, day = group.table.name, group.day
            try:
                merged = merge_small_files(
                    self._day_folder(name, day),
                    self._scratch / f"{name}-{day}",
                    parquet_files.file_schema(group.table),
                    self._files,
                    without=parquet_files.part_name(batch),
                )
            except OSError as problem:
                # The batch itself is safe, and small files only cost time.
                _log.warning("%s of %s: small files stay as they are, merging failed: %s", day, name, problem)
                return
            known = self._known.get((name, day))
            if merged is not None and known is not None:
                known.files.difference_update(merged.inputs)
                known.files.add(merged.output)

    def _bound_indexes(self) -> None:
        used = sum(len(known.index) for known in self._known.values()) * BYTES_PER_ID
        while used > self._index_bytes_max and len(self._known) > 1:
            _, dropped = self._known.popitem(last=False)
            used -= len(dropped.index) * BYTES_PER_ID

    def _day_folder(self, table: str, day: str) -> Path:
        return parquet_files.day_folder(self._folder / table, day)


def _rows_at(group: Group, kept: Rows) -> pa.Table:
    rows = in_schema(group.events, parquet_files.file_schema(group.table))
    return rows if len(kept) == rows.num_rows else rows.take(kept)


def _encoded(files: Sequence[pa.Table]) -> Iterator[pa.Buffer]:
    """In parallel: encoding and compressing is most of the work of a batch here, and runs without Python's lock."""
    with ThreadPoolExecutor(_ENCODING_THREADS) as threads:
        yield from threads.map(parquet_files.encode, files)


def _with_earlier_attempt(path: Path, rows: pa.Table) -> pa.Table:
    """The rows that this batch's file must have; none if it has them already.

    A batch that runs again has the same events, and writes nothing. If it has others (someone restored an older
    checkpoint), the rows of its file stay: nothing that was once collected is lost.
    """
    earlier = in_schema(parquet_files.read(path, rows.schema.names), rows.schema)
    is_there = pc.is_in(rows.column("event_id"), value_set=earlier.column("event_id").combine_chunks())
    added = rows.filter(pc.invert(is_there))
    return pa.concat_tables([earlier, added]) if added.num_rows else added


def _advice(problem: OSError) -> str:
    return "; make room on the disk" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else ""
