"""Posting to the ledger of the embedded store: entries, steps of tasks, and the folds of both, in one transaction."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.ledger.ledger_rules import TASK_REWARD as REWARD_RULE
from ottla.pipeline.stores.arrow_rows import DAY_MS, in_schema, rows_of, schema_of
from ottla.pipeline.stores.embedded.serving import Serving, mark, marked
from ottla.pipeline.stores.folding import Reward, Step, fold_steps, paid_columns
from ottla.pipeline.stores.port import Batch, Posted
from ottla.pipeline.tables import LEDGER, TASK_STEP, Table

_CALL: Final = "post"
_ADD_TO_BALANCE: Final = (
    "ON CONFLICT (account_id) DO UPDATE SET balance = balance + excluded.balance,"
    " entries = entries + excluded.entries, updated_ms = excluded.updated_ms"
)

# Tasks with steps after a row. They are the outer side of both joins, so that each is found by its key.
_TOUCHED: Final = "(SELECT DISTINCT account_id, task_id FROM task_step WHERE rowid > ?) AS touched"
_STEPS_OF_TOUCHED: Final = (
    "SELECT s.account_id, s.task_id, s.step, s.steps_total, s.reward, s.event_id, s.event_time_ms"
    f" FROM {_TOUCHED} CROSS JOIN task_step AS s ON s.account_id = touched.account_id AND s.task_id = touched.task_id"
)
_REWARDS_OF_TOUCHED: Final = (
    "SELECT r.account_id, r.task_id, r.entry_id, r.event_id, r.amount, r.event_time_ms"
    f" FROM {_TOUCHED} CROSS JOIN task_reward AS r ON r.account_id = touched.account_id AND r.task_id = touched.task_id"
)

TaskKey = tuple[str, str]  # account and task


def post(serving: Serving, entries: pa.Table, steps: pa.Table, batch: Batch, *, now_ms: int) -> Posted:
    entry_rows = _ordered(LEDGER, entries, "entry_id")
    step_rows = _ordered(TASK_STEP, steps, "event_id")
    doing = f"batch {batch}, posting {len(entry_rows)} entries and {len(step_rows)} steps"
    with serving.transaction(doing) as connection:
        earlier = marked(connection, batch, _CALL)
        new_entries = _add_entries(connection, entry_rows, now_ms)
        tasks_done = _fold_tasks(connection, _add_steps(connection, step_rows), now_ms)
        posted = Posted(new_entries, len(entry_rows) - new_entries, tasks_done)
        if earlier is not None:
            posted = _together(Posted(*json.loads(earlier)), posted)
        mark(connection, batch, _CALL, json.dumps(posted))
    return posted


def _ordered(table: Table, rows: pa.Table, id_column: str) -> list[tuple[object, ...]]:
    """Sorts by day and id, like the index: neighbours are on one page. Rows with one id keep their order."""
    rows = in_schema(rows, schema_of(table))
    day = pc.divide(rows.column("event_time_ms"), DAY_MS)
    keys = pa.table({"day": day, "id": rows.column(id_column), "row": pa.array(range(rows.num_rows), pa.int64())})
    order = pc.sort_indices(keys, sort_keys=[("day", "ascending"), ("id", "ascending"), ("row", "ascending")])
    return rows_of(rows.take(order))


def _add_entries(connection: sqlite3.Connection, rows: list[tuple[object, ...]], now_ms: int) -> int:
    before = _last_row(connection, LEDGER)
    connection.executemany("INSERT OR IGNORE INTO ledger VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.execute(
        "INSERT INTO balance SELECT account_id, SUM(amount), COUNT(*), ? FROM ledger WHERE rowid > ?"
        f" GROUP BY account_id {_ADD_TO_BALANCE}",
        (now_ms, before),
    )
    return int(connection.execute("SELECT COUNT(*) FROM ledger WHERE rowid > ?", (before,)).fetchone()[0])


def _add_steps(connection: sqlite3.Connection, rows: list[tuple[object, ...]]) -> int:
    """The last row before them: those after it are new."""
    before = _last_row(connection, TASK_STEP)
    connection.executemany("INSERT OR IGNORE INTO task_step VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return before


def _fold_tasks(connection: sqlite3.Connection, after_row: int, now_ms: int) -> int:
    """Tasks that have steps after this row; how many of them are done now and were not before."""
    steps: dict[TaskKey, list[Step]] = {}
    for account_id, task_id, *step in connection.execute(_STEPS_OF_TOUCHED, (after_row,)):
        steps.setdefault((account_id, task_id), []).append(Step(*step))
    paid = {
        (account_id, task_id): Reward(*reward)
        for account_id, task_id, *reward in connection.execute(_REWARDS_OF_TOUCHED, (after_row,))
    }
    progress = []
    owed: dict[TaskKey, Reward | None] = {}
    tasks_done = 0
    # In the order of the tables' keys: neighbours are on one page.
    for key in sorted(steps):
        steps_done, steps_total, reward = fold_steps(*key, steps[key])
        progress.append((*key, steps_done, steps_total, *paid_columns(reward), now_ms))
        tasks_done += reward is not None and key not in paid
        if reward != paid.get(key):
            owed[key] = reward
    connection.executemany("INSERT OR REPLACE INTO task_progress VALUES (?, ?, ?, ?, ?, ?, ?)", progress)
    _pay(connection, owed, paid, now_ms)
    return tasks_done


def _pay(
    connection: sqlite3.Connection,
    owed: Mapping[TaskKey, Reward | None],
    paid: Mapping[TaskKey, Reward],
    now_ms: int,
) -> None:
    """Makes the ledger's entries for these tasks follow from their steps.

    An entry is added once and stays, unless a later event of the task disagrees with those that finished it: then the
    rows become those that would have resulted had that event been there from the start.
    """
    withdrawn = [(key, paid[key]) for key in owed if key in paid]
    added = [(key, reward) for key, reward in owed.items() if reward is not None]
    connection.executemany(
        "DELETE FROM ledger WHERE event_time_ms / 86400000 = ? AND entry_id = ?",
        [(reward.event_time_ms // DAY_MS, reward.entry_id) for _, reward in withdrawn],
    )
    connection.executemany(
        "DELETE FROM task_reward WHERE account_id = ? AND task_id = ?", [key for key, _ in withdrawn]
    )
    entries = [
        (reward.entry_id, account_id, reward.event_id, REWARD_RULE, reward.amount, reward.event_time_ms)
        for (account_id, _), reward in added
    ]
    entries.sort(key=lambda row: (row[-1] // DAY_MS, row[0]))
    connection.executemany("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?)", entries)
    connection.executemany(
        "INSERT INTO task_reward VALUES (?, ?, ?, ?, ?, ?)", [(*key, *reward) for key, reward in added]
    )
    changes: dict[str, tuple[int, int]] = {}  # account -> what its balance and the number of its entries change by
    for sign, rewards in ((-1, withdrawn), (1, added)):
        for (account_id, _), reward in rewards:
            amount, count = changes.get(account_id, (0, 0))
            changes[account_id] = (amount + sign * reward.amount, count + sign)
    connection.executemany(
        f"INSERT INTO balance VALUES (?, ?, ?, ?) {_ADD_TO_BALANCE}",
        [(account_id, *change, now_ms) for account_id, change in sorted(changes.items())],
    )


def _last_row(connection: sqlite3.Connection, table: Table) -> int:
    return int(connection.execute(f"SELECT COALESCE(MAX(rowid), 0) FROM {table.name}").fetchone()[0])


def _together(earlier: Posted, now: Posted) -> Posted:
    """A batch that runs again finds its own entries, which were new when it first ran."""
    return Posted(
        earlier.entries + now.entries, max(earlier.duplicates - now.entries, 0), earlier.tasks_done + now.tasks_done
    )
