"""A small set of tables in an embedded store, filled without Spark: what the commands on tables are tried on."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from ottla.pipeline.events.parsing import EVENTS
from ottla.pipeline.ledger.ledger_rules import CREDIT, entry_id
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.tables import LEDGER, TASK_STEP
from ottla.pipeline.topics import CREDIT as CREDIT_TOPIC
from ottla.pipeline.topics import TASK as TASK_TOPIC
from ottla.pipeline.topics import Topic
from ottla.pipeline.viewing.table_view import arrow_schema

DAY_MS = 86_400_000
FIRST_MS = 20_332 * DAY_MS  # 2025-09-01
_INTEGERS = {"partition", "offset", "timestamp_ms", "schema_version", "event_time"}
_INTEGERS |= {"credit", "duration_ms", "step", "steps_total", "reward"}


def fill_books(folder: Path, *, days: int = 3) -> None:
    """On each day account `a` earns 5 and `b` 7; on the first `a` ends a task of two steps, which pays 30."""
    credits_ = [
        _event(CREDIT_TOPIC, f"c{day}{account}", day, account_id=account, credit=amount)
        for day in range(days)
        for account, amount in (("a", 5), ("b", 7))
    ]
    task = {"account_id": "a", "task_id": "t", "steps_total": 2, "reward": 30}
    steps = [_event(TASK_TOPIC, f"t{step}", 0, step=step, **task) for step in (1, 2)]
    store = EmbeddedStore(folder)
    store.initialise()
    schema = pa.schema([(name, pa.int64() if name in _INTEGERS else pa.string()) for name in EVENTS])
    store.append_arrow(pa.Table.from_pylist(credits_ + steps, schema=schema), Batch("collect", "r", 0))
    entries = [
        {**event, "entry_id": entry_id(event["event_id"], CREDIT), "rule": CREDIT, "amount": event["credit"]}
        | {"event_time_ms": event["event_time"]}
        for event in credits_
    ]
    store.post_arrow(
        pa.Table.from_pylist(entries, schema=arrow_schema(LEDGER, LEDGER.column_names)),
        pa.Table.from_pylist(
            [{**step, "event_time_ms": step["event_time"]} for step in steps],
            schema=arrow_schema(TASK_STEP, TASK_STEP.column_names),
        ),
        Batch("income_and_tasks", "r", 0),
    )
    store.close()


def _event(topic: Topic, event_id: str, day: int, **values: Any) -> dict[str, Any]:
    row = dict.fromkeys(EVENTS) | {"topic": topic.name, "partition": 0, "offset": day, "timestamp_ms": 0}
    row |= {"event_id": event_id, "event_type": topic.event_type, "schema_version": 1}
    return row | {"event_time": FIRST_MS + day * DAY_MS, "body_hash": "0" * 32} | values
