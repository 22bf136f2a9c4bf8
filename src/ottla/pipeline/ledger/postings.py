"""Events to postings: credits become entries of the ledger, task events the steps of their tasks.

Pure functions of Arrow batches: `postings` runs in Spark's workers, `entries_of` and `steps_of` split its rows in the
driver. Reads and writes nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.events.preparing import ArrowFunction
from ottla.pipeline.ledger.ledger_rules import CREDIT, entry_id
from ottla.pipeline.tables import LEDGER, TASK_STEP
from ottla.pipeline.topics import CREDIT as CREDIT_TOPIC
from ottla.pipeline.topics import TASK as TASK_TOPIC

# The columns of PARSED that postings need.
LOOKED_AT: Final = (
    "topic",
    "partition",
    "offset",
    "error_class",
    "event_id",
    "event_time",
    "account_id",
    "credit",
    "task_id",
    "step",
    "steps_total",
    "reward",
)
POSTINGS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("error_class", pa.string()),
        ("entry_id", pa.string()),
        ("rule", pa.string()),
        ("account_id", pa.string()),
        ("event_id", pa.string()),
        ("amount", pa.int64()),
        ("event_time_ms", pa.int64()),
        ("task_id", pa.string()),
        ("step", pa.int64()),
        ("steps_total", pa.int64()),
        ("reward", pa.int64()),
    ]
)
_FROM: Final = {"amount": "credit", "event_time_ms": "event_time"}


class Postings:
    """`postings` of all batches of a parser; pickled to the workers."""

    def __init__(self, parser: ArrowFunction) -> None:
        self._parser = parser

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(postings, self._parser(batches))


def postings(parsed: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each row: the columns of an entry for a credit event, those of a step for a task event.

    An event that comes twice gives the same entry twice: the store keeps one, and counts the duplicates.
    """
    is_credit = pc.and_(
        pc.equal(parsed.column("topic"), CREDIT_TOPIC.name), pc.is_null(parsed.column("error_class"))
    ).to_pylist()
    ids = [
        entry_id(event_id, CREDIT) if is_own else None
        for event_id, is_own in zip(parsed.column("event_id").to_pylist(), is_credit, strict=True)
    ]
    rules = [CREDIT if is_own else None for is_own in is_credit]
    made = {"entry_id": pa.array(ids, pa.string()), "rule": pa.array(rules, pa.string())}
    return pa.RecordBatch.from_arrays(
        [made[name] if name in made else parsed.column(_FROM.get(name, name)) for name in POSTINGS.names],
        schema=POSTINGS,
    )


def entries_of(rows: pa.Table) -> pa.Table:
    """Columns of LEDGER, in the order of the events' origins: of one id with two bodies the store keeps the first."""
    return _sound(rows, CREDIT_TOPIC.name).select(list(LEDGER.column_names))


def steps_of(rows: pa.Table) -> pa.Table:
    """Columns of TASK_STEP, in the order of the events' origins."""
    return _sound(rows, TASK_TOPIC.name).select(list(TASK_STEP.column_names))


def _sound(rows: pa.Table, topic: str) -> pa.Table:
    found = rows.filter(pc.and_(pc.equal(rows.column("topic"), topic), pc.is_null(rows.column("error_class"))))
    return found.sort_by([("partition", "ascending"), ("offset", "ascending")])
