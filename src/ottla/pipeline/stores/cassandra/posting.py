"""Posting to the ledger on Cassandra: find what is new, write entries and steps, then fold both.

There are no transactions: every step can be repeated, and a batch notes its ids last. So the next attempt completes a
batch that was cut short, and until then a balance may lack entries that the ledger has.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.stores.arrow_rows import DAY_MS, day_name
from ottla.pipeline.stores.cassandra.known_ids import KnownIds
from ottla.pipeline.stores.cassandra.working import FoldBalances, FoldTasks, Scatter, WriteRows
from ottla.pipeline.stores.digests import digest
from ottla.pipeline.stores.judging import Ids, judge
from ottla.pipeline.stores.port import Batch, Posted
from ottla.pipeline.tables import LEDGER, TASK_STEP, Table

_ACCOUNT_DAYS = pa.schema([("account_id", pa.string()), ("days", pa.list_(pa.int64()))])


class _Fresh(NamedTuple):
    """The rows of one day that this batch adds, or added in an earlier attempt."""

    day: str
    rows: pa.Table
    ids: Ids


class Moment(NamedTuple):
    """When a batch is posted: the timestamp of derived rows, and the clock."""

    timestamp_us: int
    now_ms: int


def post(
    known: KnownIds, keyspace: str, scatter: Scatter, entries: pa.Table, steps: pa.Table, batch: Batch, moment: Moment
) -> Posted:
    new_entries = list(_fresh(known, LEDGER, entries, "entry_id", batch))
    new_steps = list(_fresh(known, TASK_STEP, steps, "event_id", batch))
    touched: dict[str, set[int]] = {}
    tasks: set[tuple[str, str]] = set()
    if new_entries:
        rows = pa.concat_tables(fresh.rows for fresh in new_entries)
        scatter(rows, WriteRows(keyspace, LEDGER.name))
        days = pc.divide(rows.column("event_time_ms"), DAY_MS).to_pylist()
        for account_id, day in zip(rows.column("account_id").to_pylist(), days, strict=True):
            touched.setdefault(account_id, set()).add(day)
    if new_steps:
        rows = pa.concat_tables(fresh.rows for fresh in new_steps)
        scatter(rows, WriteRows(keyspace, TASK_STEP.name))
        tasks.update(zip(rows.column("account_id").to_pylist(), rows.column("task_id").to_pylist(), strict=True))
    tasks_done = 0
    for outcome in scatter(_task_table(tasks), FoldTasks(keyspace, *moment)):
        tasks_done += outcome["done"]
        for account_id, day in outcome["touched"]:
            touched.setdefault(account_id, set()).add(day)
    accounts = [{"account_id": account_id, "days": sorted(days)} for account_id, days in sorted(touched.items())]
    scatter(pa.Table.from_pylist(accounts, schema=_ACCOUNT_DAYS), FoldBalances(keyspace, *moment))
    for table, parts in ((LEDGER, new_entries), (TASK_STEP, new_steps)):
        for fresh in parts:
            known.note(table.name, fresh.day, batch, fresh.ids)
    written = sum(fresh.rows.num_rows for fresh in new_entries)
    return Posted(written, entries.num_rows - written, tasks_done)


def _fresh(known: KnownIds, table: Table, rows: pa.Table, id_column: str, batch: Batch) -> Iterator[_Fresh]:
    """Of one id with several contents the first stays: the store's, or the first of the batch's rows."""
    if not rows.num_rows:
        return
    days = rows.column("event_time_ms").to_numpy() // DAY_MS
    for day in np.unique(days).tolist():
        of_day = rows.take(np.nonzero(days == day)[0])
        content = [of_day.column(name).cast(pa.string()) for name in table.column_names]
        first, second = digest(of_day.column(id_column))
        body, _ = digest(pc.binary_join_element_wise(*content, "|", null_handling="replace"))
        ids = Ids(first, second, body)
        rows_in_order = np.arange(of_day.num_rows)
        name = day_name(day)
        index = known.without(table.name, name, batch)
        verdict = judge(ids, index, partition=np.zeros_like(rows_in_order), offset=rows_in_order)
        if len(verdict.kept):
            yield _Fresh(name, of_day.take(verdict.kept), ids.at(verdict.kept))


def _task_table(tasks: set[tuple[str, str]]) -> pa.Table:
    ordered = sorted(tasks)
    return pa.table(
        {
            "account_id": pa.array([account_id for account_id, _ in ordered], pa.string()),
            "task_id": pa.array([task_id for _, task_id in ordered], pa.string()),
        }
    )
