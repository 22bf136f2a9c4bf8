"""Credits to entries and task events to steps, on Arrow batches without Spark."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.pipeline.events.parsing import parsed_schema
from ottla.pipeline.ledger.ledger_rules import CREDIT, entry_id, reward_entry_id
from ottla.pipeline.ledger.postings import LOOKED_AT, entries_of, postings, steps_of
from ottla.pipeline.topics import CREDIT as CREDIT_TOPIC
from ottla.pipeline.topics import TASK as TASK_TOPIC


def parsed(topic: str, offset: int, **values: Any) -> dict[str, Any]:
    row = {"topic": topic, "partition": 0, "offset": offset, "event_id": f"e{offset}"}
    return row | {"event_time": 1_000 + offset, "account_id": "a"} | values


@pytest.fixture
def rows() -> Any:
    """Written out of order, as several partitions give them."""
    batch = pa.RecordBatch.from_pylist(
        [
            parsed(CREDIT_TOPIC.name, 3, credit=-2, partition=1),
            parsed(CREDIT_TOPIC.name, 7, credit=9, event_id="e5"),
            parsed(CREDIT_TOPIC.name, 5, credit=4),
            parsed(CREDIT_TOPIC.name, 6, error_class="not_json", event_id=None, account_id=None),
            parsed(TASK_TOPIC.name, 1, task_id="t", step=1, steps_total=2, reward=30),
        ],
        schema=to_arrow_schema(parsed_schema(LOOKED_AT)),
    )
    return pa.Table.from_batches([postings(batch)])


def test_every_credit_event_is_an_entry_in_the_order_of_the_origins(rows: Any) -> None:
    entries = entries_of(rows).to_pylist()

    assert [(row["event_id"], row["amount"]) for row in entries] == [("e5", 4), ("e5", 9), ("e3", -2)]
    assert entries[0] == {
        "entry_id": entry_id("e5", CREDIT),
        "account_id": "a",
        "event_id": "e5",
        "rule": "credit",
        "amount": 4,
        "event_time_ms": 1_005,
    }


def test_every_task_event_is_a_step(rows: Any) -> None:
    step = {"account_id": "a", "task_id": "t", "step": 1, "steps_total": 2, "reward": 30}
    assert steps_of(rows).to_pylist() == [{**step, "event_id": "e1", "event_time_ms": 1_001}]


def test_ids_of_entries_hang_on_event_and_rule_alone() -> None:
    assert entry_id("e", "credit") == entry_id("e", "credit")
    assert len({entry_id("e", "credit"), entry_id("e", "task_reward"), entry_id("f", "credit")}) == 3
    assert len({reward_entry_id("a", "t"), reward_entry_id("a", "u"), reward_entry_id("b", "t")}) == 3
