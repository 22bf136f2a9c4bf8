"""Events to the log tables on Cassandra: the driver judges ids, executors write the rows, then the ids are noted."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from ottla.pipeline.stores.cassandra.known_ids import KnownIds
from ottla.pipeline.stores.judging import Ids
from ottla.pipeline.stores.port import Appended, Batch, Origin
from ottla.pipeline.stores.splitting import judge_group, origins_at, split

# The columns that judging needs; the rows themselves stay where they are.
ID_COLUMNS = ("topic", "partition", "offset", "event_id", "event_time", "body_hash")

WriteAllBut = Callable[[frozenset[tuple[str, int, int]]], None]


class _Judged(NamedTuple):
    table: str
    day: str
    ids: Ids
    duplicates: int
    conflicts: list[Origin]


def append(known: KnownIds, ids: pa.Table, batch: Batch, write_all_but: WriteAllBut) -> Appended:
    """Writes duplicates again: under the same key and timestamp nothing changes."""
    judged = list(_judge(known, ids, batch))
    conflicts = sorted(origin for part in judged for origin in part.conflicts)
    write_all_but(frozenset(conflicts))
    written: dict[str, int] = {}
    duplicates: dict[str, int] = {}
    for part in judged:
        known.note(part.table, part.day, batch, part.ids)
        written[part.table] = written.get(part.table, 0) + len(part.ids.first)
        duplicates[part.table] = duplicates.get(part.table, 0) + part.duplicates
    return Appended(written, duplicates, conflicts)


def _judge(known: KnownIds, ids: pa.Table, batch: Batch) -> Iterator[_Judged]:
    for group in split(ids):
        name, day = group.table.name, group.day
        verdict = judge_group(group, known.without(name, day, batch))
        origins = origins_at(group.events, verdict.conflicts)
        yield _Judged(name, day, group.ids.at(verdict.kept), verdict.duplicates, origins)
