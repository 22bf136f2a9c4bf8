"""Work on rows where they are: in an executor, or in the driver for rows that are there already.

Each function writes the rows of a part and returns JSON. All of them can be repeated.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
from cassandra.query import UNSET_VALUE

from ottla.pipeline.ledger.ledger_rules import TASK_REWARD as REWARD_RULE
from ottla.pipeline.stores.arrow_rows import DAY_MS, in_schema, rows_of, schema_of
from ottla.pipeline.stores.cassandra.connecting import Address, Connection, worker_connection
from ottla.pipeline.stores.cassandra.schema import BALANCE_DAY, insert_statement
from ottla.pipeline.stores.folding import Reward, Step, fold_steps, paid_columns
from ottla.pipeline.stores.splitting import split
from ottla.pipeline.tables import BALANCE, LEDGER, TABLES, TASK_PROGRESS, TASK_REWARD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Outcome = dict[str, Any]


class Work(Protocol):
    """Pickled to the executors."""

    def __call__(self, connection: Connection, rows: pa.Table) -> Outcome: ...


class Scatter(Protocol):
    """Runs work on all rows, in parts; rows of one partition key are in one part."""

    def __call__(self, rows: pa.Table, work: Work) -> list[Outcome]: ...


class WriteEvents(NamedTuple):
    """Writes events into their log tables, with their own times: the same event again changes nothing."""

    keyspace: str
    conflicts: frozenset[tuple[str, int, int]]

    def __call__(self, connection: Connection, rows: pa.Table) -> Outcome:
        if self.conflicts:
            origins = rows_of(rows.select(["topic", "partition", "offset"]))
            rows = rows.filter(pa.array([origin not in self.conflicts for origin in origins], pa.bool_()))
        written = 0
        for table, day, events, _ in split(rows):
            events = events.append_column("day", pa.array([day] * events.num_rows, pa.string()))
            values = rows_of(in_schema(events, schema_of(table)))
            time_index = table.column_names.index("event_time")
            # Nulls are left out: each would be a tombstone.
            bound = (
                [*(UNSET_VALUE if value is None else value for value in row), row[time_index] * 1000] for row in values
            )
            written += connection.write_all(insert_statement(self.keyspace, table), bound)
        return {"written": written}


class WriteRows(NamedTuple):
    """Writes entries of the ledger and steps of tasks, with their own times."""

    keyspace: str
    table: str

    def __call__(self, connection: Connection, rows: pa.Table) -> Outcome:
        table = TABLES[self.table]
        time_index = table.column_names.index("event_time_ms")
        bound = ([*row, row[time_index] * 1000] for row in rows_of(in_schema(rows, schema_of(table))))
        return {"written": connection.write_all(insert_statement(self.keyspace, table), bound)}


class FoldTasks(NamedTuple):
    """Folds tasks into their progress and rewards. Rows: account_id, task_id; each task once.

    A reward is derived, so it has the batch's timestamp: if the steps change later, it can be deleted and replaced,
    which event times would not allow.
    """

    keyspace: str
    timestamp_us: int
    now_ms: int

    def __call__(self, connection: Connection, rows: pa.Table) -> Outcome:
        tasks = rows_of(rows.select(["account_id", "task_id"]))
        of_task = "WHERE account_id = ? AND task_id = ?"
        steps_of = connection.read_all(
            f"SELECT step, steps_total, reward, event_id, event_time_ms FROM {self.keyspace}.task_step {of_task}", tasks
        )
        paid_of = connection.read_all(
            f"SELECT entry_id, event_id, amount, event_time_ms FROM {self.keyspace}.task_reward {of_task}", tasks
        )
        progress, entries, rewards, revoked = [], [], [], []
        touched: set[tuple[str, int]] = set()
        tasks_done = 0
        for (account_id, task_id), steps, paid_rows in zip(tasks, steps_of, paid_of, strict=True):
            steps_done, steps_total, reward = fold_steps(account_id, task_id, map(Step._make, steps))
            paid = Reward(*paid_rows[0]) if paid_rows else None
            tasks_done += reward is not None and paid is None
            progress.append(
                (account_id, task_id, steps_done, steps_total, *paid_columns(reward), self.now_ms, self.timestamp_us)
            )
            if paid is not None and reward != paid:
                revoked.append((self.timestamp_us - 1, account_id, task_id, paid))
            # Each day on which the task was ever paid, also one that lost its reward in an attempt that was cut short.
            touched.update((account_id, step[-1] // DAY_MS) for step in steps)
            if reward is not None:
                entries.append(
                    (
                        *(reward.entry_id, account_id, reward.event_id, REWARD_RULE, reward.amount),
                        *(reward.event_time_ms, self.timestamp_us),
                    )
                )
                rewards.append((account_id, task_id, *reward, self.timestamp_us))
        # The entry before the row that points to it: a fold that was cut short finds too little, and repeats it.
        connection.write_all(
            f"DELETE FROM {self.keyspace}.ledger USING TIMESTAMP ? "
            "WHERE account_id = ? AND event_time_ms = ? AND entry_id = ?",
            [(moment, account_id, paid.event_time_ms, paid.entry_id) for moment, account_id, _, paid in revoked],
        )
        connection.write_all(insert_statement(self.keyspace, LEDGER), entries)
        connection.write_all(
            f"DELETE FROM {self.keyspace}.task_reward USING TIMESTAMP ? {of_task}",
            [(moment, account_id, task_id) for moment, account_id, task_id, _ in revoked],
        )
        connection.write_all(insert_statement(self.keyspace, TASK_REWARD), rewards)
        connection.write_all(insert_statement(self.keyspace, TASK_PROGRESS), progress)
        return {"done": tasks_done, "touched": sorted(touched)}


class FoldBalances(NamedTuple):
    """Folds accounts into balances, by the subtotals of their days. Rows: account_id, days; each account once."""

    keyspace: str
    timestamp_us: int
    now_ms: int

    def __call__(self, connection: Connection, rows: pa.Table) -> Outcome:
        accounts = rows.column("account_id").to_pylist()
        pairs = [
            (account_id, day)
            for account_id, days in zip(accounts, rows.column("days").to_pylist(), strict=True)
            for day in days
        ]
        subtotals = connection.read_all(
            f"SELECT SUM(amount), COUNT(amount) FROM {self.keyspace}.ledger "
            "WHERE account_id = ? AND event_time_ms >= ? AND event_time_ms < ?",
            [(account_id, day * DAY_MS, (day + 1) * DAY_MS) for account_id, day in pairs],
        )
        connection.write_all(
            f"INSERT INTO {self.keyspace}.{BALANCE_DAY} (account_id, day, subtotal, entry_count) VALUES (?, ?, ?, ?) "
            "USING TIMESTAMP ?",
            [
                (account_id, day, amount, count, self.timestamp_us)
                for (account_id, day), ((amount, count),) in zip(pairs, subtotals, strict=True)
            ],
        )
        totals = connection.read_all(
            f"SELECT SUM(subtotal), SUM(entry_count) FROM {self.keyspace}.{BALANCE_DAY} WHERE account_id = ?",
            [(account_id,) for account_id in accounts],
        )
        connection.write_all(
            insert_statement(self.keyspace, BALANCE),
            [
                (account_id, amount, count, self.now_ms, self.timestamp_us)
                for account_id, ((amount, count),) in zip(accounts, totals, strict=True)
            ],
        )
        return {"accounts": len(accounts)}


class InDriver(NamedTuple):
    """Everything in this process, over its own connection."""

    connection: Connection

    def __call__(self, rows: pa.Table, work: Work) -> list[Outcome]:
        return [work(self.connection, rows)] if rows.num_rows else []


class InExecutors(NamedTuple):
    """Rows that are in the driver, spread over the executors."""

    session: "SparkSession"
    address: Address

    def __call__(self, rows: pa.Table, work: Work) -> list[Outcome]:
        if not rows.num_rows:
            return []
        return run_in_executors(self.session.createDataFrame(rows), self.address, work)


def run_in_executors(rows: "DataFrame", address: Address, work: Work) -> list[Outcome]:
    """Where the rows are already."""
    import json

    def on_part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = worker_connection(address)
        outcomes = [json.dumps(work(connection, pa.Table.from_batches([batch]))) for batch in batches if batch.num_rows]
        yield pa.RecordBatch.from_pydict({"outcome": pa.array(outcomes, pa.string())})

    return [json.loads(row.outcome) for row in rows.mapInArrow(on_part, "outcome string").collect()]
