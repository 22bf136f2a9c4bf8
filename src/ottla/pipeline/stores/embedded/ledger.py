"""Posting to the ledger of the embedded store: entries, steps of tasks, and the folds of both, in one transaction."""

import json
import sqlite3
from collections.abc import Iterable
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

# Account -> what is added to its balance, and to the number of its entries.
Changes = dict[str, tuple[int, int]]


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
    """By day and id, as the index is: neighbours lie on one page. Rows with one id keep their order."""
    rows = in_schema(rows, schema_of(table))
    day = pc.divide(rows.column("event_time_ms"), DAY_MS)
    keys = pa.table({"day": day, "id": rows.column(id_column), "place": pa.array(range(rows.num_rows), pa.int64())})
    order = pc.sort_indices(keys, sort_keys=[("day", "ascending"), ("id", "ascending"), ("place", "ascending")])
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


def _add_steps(connection: sqlite3.Connection, rows: list[tuple[object, ...]]) -> list[tuple[str, str]]:
    """The tasks that have new steps."""
    before = _last_row(connection, TASK_STEP)
    connection.executemany("INSERT OR IGNORE INTO task_step VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return connection.execute(
        "SELECT DISTINCT account_id, task_id FROM task_step WHERE rowid > ?", (before,)
    ).fetchall()


def _fold_tasks(connection: sqlite3.Connection, tasks: Iterable[tuple[str, str]], now_ms: int) -> int:
    """How many of these tasks are done now and were not before."""
    changes: Changes = {}
    tasks_done = 0
    for account_id, task_id in tasks:
        steps = connection.execute(
            "SELECT step, steps_total, reward, event_id, event_time_ms FROM task_step"
            " WHERE account_id = ? AND task_id = ?",
            (account_id, task_id),
        )
        steps_done, steps_total, reward = fold_steps(account_id, task_id, map(Step._make, steps))
        row = connection.execute(
            "SELECT entry_id, event_id, amount, event_time_ms FROM task_reward WHERE account_id = ? AND task_id = ?",
            (account_id, task_id),
        ).fetchone()
        paid = None if row is None else Reward(*row)
        tasks_done += reward is not None and paid is None
        if reward != paid:
            _pay(connection, account_id, task_id, reward, paid, changes)
        connection.execute(
            "INSERT OR REPLACE INTO task_progress VALUES (?, ?, ?, ?, ?, ?, ?)",
            (account_id, task_id, steps_done, steps_total, *paid_columns(reward), now_ms),
        )
    connection.executemany(
        f"INSERT INTO balance VALUES (?, ?, ?, ?) {_ADD_TO_BALANCE}",
        [(account_id, amount, entries, now_ms) for account_id, (amount, entries) in changes.items()],
    )
    return tasks_done


def _pay(
    connection: sqlite3.Connection,
    account_id: str,
    task_id: str,
    reward: Reward | None,
    paid: Reward | None,
    changes: Changes,
) -> None:
    """The ledger's entry for a task becomes what its steps say.

    It is added once and stays, unless a later event of the task disagrees with what it was done by: then the rows must
    be those that come out when that event is there from the start.
    """
    amount, entries = changes.get(account_id, (0, 0))
    if paid is not None:
        connection.execute(
            "DELETE FROM ledger WHERE event_time_ms / 86400000 = ? AND entry_id = ?",
            (paid.event_time_ms // DAY_MS, paid.entry_id),
        )
        connection.execute("DELETE FROM task_reward WHERE account_id = ? AND task_id = ?", (account_id, task_id))
        amount, entries = amount - paid.amount, entries - 1
    if reward is not None:
        connection.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?)",
            (reward.entry_id, account_id, reward.event_id, REWARD_RULE, reward.amount, reward.event_time_ms),
        )
        connection.execute("INSERT INTO task_reward VALUES (?, ?, ?, ?, ?, ?)", (account_id, task_id, *reward))
        amount, entries = amount + reward.amount, entries + 1
    changes[account_id] = amount, entries


def _last_row(connection: sqlite3.Connection, table: Table) -> int:
    return int(connection.execute(f"SELECT COALESCE(MAX(rowid), 0) FROM {table.name}").fetchone()[0])


def _together(earlier: Posted, now: Posted) -> Posted:
    """A batch that is run again finds its own entries: they were new when it first came."""
    return Posted(
        earlier.entries + now.entries, max(earlier.duplicates - now.entries, 0), earlier.tasks_done + now.tasks_done
    )
