"""Rows for the tests of stores: events, entries and steps in few words, and what a store holds as plain Python."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from ottla.pipeline.ledger.ledger_rules import CREDIT, entry_id
from ottla.pipeline.stores.arrow_rows import schema_of
from ottla.pipeline.stores.port import Batch, Condition, Store
from ottla.pipeline.tables import LEDGER, LOG_TABLES, TABLES, TASK_STEP
from ottla.pipeline.topics import BY_NAME

DAY_MS = 86_400_000
MONDAY_MS = 20_454 * DAY_MS  # 2026-01-01
MONDAY = "2026-01-01"
TUESDAY = "2026-01-02"

CREDITS = "ml_obtain_credit_log"
LOGINS = "ml_login_log"
TASKS = "ml_task_log"

_ORIGIN = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])


def batch(number: int, *, run: str = "run", job: str = "collect") -> Batch:
    return Batch(job, run, number)


def event(offset: int, event_id: str | None = None, *, topic: str = CREDITS, **fields: Any) -> dict[str, Any]:
    """A sound event; its body is what is said of it here, its origin aside."""
    row: dict[str, Any] = {
        "event_id": event_id or f"event-{offset}",
        "event_type": BY_NAME[topic].event_type,
        "schema_version": 1,
        "event_time": MONDAY_MS + 1000,
        "account_id": "account-1",
        "device_id": "device-1",
        "credit": 5 if topic == CREDITS else None,
        **fields,
    }
    row["body_hash"] = hashlib.md5(repr(sorted(row.items())).encode()).hexdigest()
    return {"topic": topic, "partition": fields.get("partition", 0), "offset": offset, **row}


def events(rows: Iterable[dict[str, Any]]) -> pa.Table:
    schemas = [_ORIGIN, *(schema_of(table) for table in LOG_TABLES.values())]
    schema = pa.unify_schemas(schemas)
    return pa.Table.from_pylist(list(rows), schema=schema.remove(schema.get_field_index("day")))


def entry(event_id: str, account_id: str, amount: int, event_time_ms: int = MONDAY_MS) -> dict[str, Any]:
    return {
        "entry_id": entry_id(event_id, CREDIT),
        "account_id": account_id,
        "event_id": event_id,
        "rule": CREDIT,
        "amount": amount,
        "event_time_ms": event_time_ms,
    }


def entries(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema_of(LEDGER))


def step(number: int, of: int, *, reward: int = 10, task: str = "task-1", **fields: Any) -> dict[str, Any]:
    row = {
        "account_id": "account-1",
        "task_id": task,
        "step": number,
        "steps_total": of,
        "reward": reward,
        "event_id": f"{task}-{number}",
        "event_time_ms": MONDAY_MS + number,
    }
    return row | fields


def steps(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema_of(TASK_STEP))


def rows_in(store: Store, table: str, columns: Sequence[str] | None = None, *where: Condition) -> list[tuple[Any, ...]]:
    """All rows in the order of their values; wall-clock columns only where they are asked for."""
    names = columns or [name for name in TABLES[table].column_names if name not in TABLES[table].wall_clock]
    found = [row for part in store.scan(table, columns=names, where=where) for row in part.to_pylist()]
    return sorted((tuple(row[name] for name in names) for row in found), key=repr)


def ids_in(store: Store, table: str = "credit_log") -> list[str]:
    return [event_id for (event_id,) in rows_in(store, table, ["event_id"])]


def contents(store: Store, tables: Sequence[str] = tuple(TABLES)) -> dict[str, list[tuple[Any, ...]]]:
    return {name: rows_in(store, name) for name in tables}
