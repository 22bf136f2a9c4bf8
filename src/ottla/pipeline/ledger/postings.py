"""Events to postings: credits become entries of the ledger, task events the steps of their tasks.

Pure: `postings` is a function of DataFrames, `entries_of` and `steps_of` divide what it gave, in Arrow. Nothing is read
or written here.
"""

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import col, concat, lit, sha2, substring, when

from ottla.pipeline.ledger.ledger_rules import CREDIT, ENTRY_ID_DIGITS, SEPARATOR
from ottla.pipeline.tables import LEDGER, TASK_STEP
from ottla.pipeline.topics import CREDIT as CREDIT_TOPIC
from ottla.pipeline.topics import TASK as TASK_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# What is looked at of PARSED.
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


def postings(parsed: "DataFrame") -> "DataFrame":
    """A row for each row: what an entry needs of a credit event, what a step needs of a task event.

    An event that is there twice gives the same entry twice: the store keeps one, and says how many more there were.
    """
    is_credit = (col("topic") == CREDIT_TOPIC.name) & col("error_class").isNull()
    return parsed.select(
        "topic",
        "partition",
        "offset",
        "error_class",
        when(is_credit, _entry_id(col("event_id"), CREDIT)).alias("entry_id"),
        when(is_credit, lit(CREDIT)).alias("rule"),
        "account_id",
        "event_id",
        col("credit").alias("amount"),
        col("event_time").alias("event_time_ms"),
        "task_id",
        "step",
        "steps_total",
        "reward",
    )


def entries_of(rows: pa.Table) -> pa.Table:
    """Columns of LEDGER, in the order of the events' origins: of one id with two bodies the first stays."""
    return _sound(rows, CREDIT_TOPIC.name).select(list(LEDGER.column_names))


def steps_of(rows: pa.Table) -> pa.Table:
    """Columns of TASK_STEP, in the order of the events' origins."""
    return _sound(rows, TASK_TOPIC.name).select(list(TASK_STEP.column_names))


def _sound(rows: pa.Table, topic: str) -> pa.Table:
    found = rows.filter(pc.and_(pc.equal(rows.column("topic"), topic), pc.is_null(rows.column("error_class"))))
    return found.sort_by([("partition", "ascending"), ("offset", "ascending")])


def _entry_id(event_id: "Column", rule: str) -> "Column":
    """`ledger_rules.entry_id` as Spark computes it."""
    return substring(sha2(concat(lit(rule + SEPARATOR), event_id), 256), 1, ENTRY_ID_DIGITS)
