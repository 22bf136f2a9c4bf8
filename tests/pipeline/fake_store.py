"""A store in memory, for tests of what stands on the port: rows are dicts, batches change nothing when repeated.

It keeps to the port's words in the plainest way, so that a test says what is in the tables by writing it there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa

from ottla.pipeline.ledger.ledger_rules import TASK_REWARD, reward_entry_id
from ottla.pipeline.stores.port import Appended, Batch, Condition, Difference, Posted
from ottla.pipeline.tables import TABLES, TABLES_WITH_DAYS
from ottla.pipeline.viewing.table_view import arrow_schema

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_BATCH_ROWS = 3  # small, so that every reader meets several batches

Row = dict[str, Any]


class FakeStore:
    """`rows` holds every table by the key of its rows; a test may change it as it likes."""

    writes_in_driver = True

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in TABLES}
        self.steps: dict[tuple[str, str], dict[int, Row]] = {}
        self.highs: dict[tuple[str, str, int], dict[int, int]] = {}
        self.shadows: dict[str, FakeStore] = {}
        self.is_closed = False

    def put(self, table: str, *rows: Row) -> None:
        for row in rows:
            whole = {**dict.fromkeys(TABLES[table].column_names), **row}
            self.rows[table][tuple(whole[name] for name in TABLES[table].key)] = whole

    def all(self, table: str) -> list[Row]:
        return [self.rows[table][key] for key in sorted(self.rows[table])]

    def initialise(self) -> None: ...

    def append_events(self, events: Any, batch: Batch) -> Appended:
        raise NotImplementedError("tests of collection use a real store")

    def append_arrow(self, events: pa.Table, batch: Batch) -> Appended:
        raise NotImplementedError("tests of collection use a real store")

    def post_arrow(self, entries: pa.Table, steps: pa.Table, batch: Batch) -> Posted:
        return self.post(entries.to_pylist(), steps.to_pylist(), batch)

    def post(self, entries: Any, steps: Any, batch: Batch) -> Posted:
        """From lists of dicts as well as from DataFrames."""
        new = again = done = 0
        known = {row["entry_id"] for row in self.rows["ledger"].values()}
        for entry in _dicts(entries):
            if entry["entry_id"] in known:
                again += 1
            else:
                known.add(entry["entry_id"])
                new += 1
                self.put("ledger", entry)
        for step in _dicts(steps):
            self.steps.setdefault((step["account_id"], step["task_id"]), {}).setdefault(step["step"], step)
        for (account_id, task_id), by_number in self.steps.items():
            total = max(step["steps_total"] for step in by_number.values())
            reward = max(step["reward"] for step in by_number.values())
            counted = [number for number in by_number if 1 <= number <= total]
            is_done = len(counted) == total
            entry = reward_entry_id(account_id, task_id)
            last = max(by_number.values(), key=lambda step: (step["event_time_ms"], step["event_id"]))
            if is_done and entry not in known:
                done += 1
                known.add(entry)
                paid = {"entry_id": entry, "account_id": account_id, "event_id": last["event_id"]}
                paid |= {"rule": TASK_REWARD, "amount": reward, "event_time_ms": last["event_time_ms"]}
                self.put("ledger", paid)
            progress = {"account_id": account_id, "task_id": task_id, "steps_done": len(counted)}
            progress |= {"steps_total": total, "done": int(is_done), "reward_paid": reward if is_done else 0}
            self.put("task_progress", progress | {"updated_ms": batch.number})
        self._fold(batch)
        return Posted(new, again, done)

    def _fold(self, batch: Batch) -> None:
        self.rows["balance"].clear()
        for account_id in {row["account_id"] for row in self.rows["ledger"].values()}:
            amounts = [row["amount"] for row in self.rows["ledger"].values() if row["account_id"] == account_id]
            balance = {"account_id": account_id, "balance": sum(amounts), "entries": len(amounts)}
            self.put("balance", balance | {"updated_ms": batch.number})

    def upsert(self, table: str, rows: pa.Table, batch: Batch) -> None:
        self.put(table, *rows.to_pylist())

    def upsert_all(self, rows: Mapping[str, pa.Table], batch: Batch) -> None:
        for table, each in rows.items():
            self.upsert(table, each, batch)

    def delete(self, table: str, keys: Iterable[tuple[Any, ...]], batch: Batch) -> None:
        for key in keys:
            self.rows[table].pop(key, None)

    def event_time_high(self, job: str, starts: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], int]:
        highs = {}
        for (topic, partition), offset in starts.items():
            noted = [high for at, high in self.highs.get((job, topic, partition), {}).items() if at <= offset]
            if noted:
                highs[topic, partition] = max(noted)
        return highs

    def note_event_time_high(self, job: str, highs: Mapping[tuple[str, int], tuple[int, int]]) -> None:
        for (topic, partition), (offset, high) in highs.items():
            self.highs.setdefault((job, topic, partition), {})[offset] = high

    def scan(
        self, table: str, *, columns: Sequence[str] | None = None, where: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        names = list(columns or TABLES[table].column_names)
        rows = [row for row in self.rows[table].values() if all(_holds(row, condition) for condition in where)]
        schema = arrow_schema(TABLES[table], names)
        for start in range(0, len(rows), _BATCH_ROWS):
            part = [{name: row[name] for name in names} for row in rows[start : start + _BATCH_ROWS]]
            yield pa.RecordBatch.from_pylist(part, schema=schema)

    def lookup(self, table: str, keys: Iterable[tuple[Any, ...]]) -> pa.Table:
        wanted = list(keys)
        by = TABLES[table].asked_by(wanted)
        rows = [row for row in self.all(table) if tuple(row[name] for name in by) in wanted]
        return pa.Table.from_pylist(rows, schema=arrow_schema(TABLES[table], TABLES[table].column_names))

    def tables(self) -> Sequence[str]:
        return list(TABLES)

    def days(self, table: str) -> Sequence[str]:
        return sorted({row["day"] for row in self.rows[table].values()})

    def expire(self, table: str, *, before_day: str) -> int:
        assert table in TABLES_WITH_DAYS
        old = {row["day"] for row in self.rows[table].values() if row["day"] < before_day}
        self.rows[table] = {key: row for key, row in self.rows[table].items() if row["day"] not in old}
        return len(old)

    def shadow(self, name: str) -> "FakeStore":
        return self.shadows.setdefault(name, FakeStore())

    def compare(self, other: "FakeStore") -> Iterator[Difference]:
        for name, table in TABLES.items():
            here, there = (
                {
                    key: {column: value for column, value in row.items() if column not in table.wall_clock}
                    for key, row in store.rows[name].items()
                }
                for store in (self, other)
            )
            changed = [key for key in here.keys() & there.keys() if here[key] != there[key]]
            apart = sorted([*(here.keys() ^ there.keys()), *changed])
            if apart:
                examples = [dict(zip(table.key, key, strict=True)) for key in apart[:5]]
                only_here, only_there = len(here.keys() - there.keys()), len(there.keys() - here.keys())
                yield Difference(name, only_here, only_there, len(changed), examples)

    def swap(self, name: str) -> None:
        shadow = self.shadows.pop(name)
        before = FakeStore()
        before.rows, self.rows = self.rows, shadow.rows
        self.shadows[f"{name}-before"] = before

    def close(self) -> None:
        self.is_closed = True


def _dicts(rows: Any) -> list[Row]:
    return rows if isinstance(rows, list) else [row.asDict() for row in rows.collect()]


def _holds(row: Row, condition: Condition) -> bool:
    value = row[condition.column]
    return value is not None and _OPERATORS[condition.operator](value, condition.value)
