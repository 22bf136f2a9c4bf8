"""What jobs need of a store. Every call may be repeated: a batch that runs again leaves the same rows.

A store that may write from executors takes DataFrames; results are small, or streams of Arrow batches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from ottla.core.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StoreError(RuntimeError):
    """A store call failed; the message says what failed, why, and what to do. Nothing is lost."""


class Batch(NamedTuple):
    """One micro-batch of one job. `run` is the id of its streaming query, which lives in the checkpoint.

    A new checkpoint starts its numbers at 0, so only both together identify a batch.
    """

    job: str
    run: str
    number: int

    def __str__(self) -> str:
        return f"{self.run}-{self.number:010d}"


class Origin(NamedTuple):
    """An event's position on the topics."""

    topic: str
    partition: int
    offset: int


class Appended(NamedTuple):
    """What became of a batch's events: by table, and those whose id is known with another body."""

    written: Mapping[str, int]
    duplicates: Mapping[str, int]
    conflicts: Sequence[Origin]


class Posted(NamedTuple):
    """Entries that were new to the ledger, and tasks that this batch finished."""

    entries: int
    duplicates: int
    tasks_done: int


class Condition(NamedTuple):
    """`column operator value`; the operators are =, !=, <, <=, >, >=."""

    column: str
    operator: str
    value: str | int | float


class Difference(NamedTuple):
    """Rows of one table in which two sets of tables differ, and some of their keys."""

    table: str
    only_here: int
    only_there: int
    changed: int
    examples: Sequence[Mapping[str, Any]]


class Store(Protocol):
    """One set of tables. Owned by the driver; whoever opened it closes it."""

    # Whether the store writes in the driver, so that `append_arrow` is the better call.
    writes_in_driver: bool

    def initialise(self) -> None:
        """Create missing tables; StoreError for a set of another version."""

    def append_events(self, events: "DataFrame", batch: Batch) -> Appended:
        """Add sound events to their log tables: each id once, however often and however far apart it comes.

        The columns are those of `parsing.EVENTS`. Of one id with several bodies the first by origin stays. An id is
        unique within its table and day.
        """

    def append_arrow(self, events: pa.Table, batch: Batch) -> Appended:
        """The same for events in the driver."""

    def post(self, entries: "DataFrame", steps: "DataFrame", batch: Batch) -> Posted:
        """Add entries to the ledger (columns of LEDGER) and steps to their tasks, then fold both.

        `steps`: account_id, task_id, step, steps_total, reward, event_id, event_time_ms. A task whose steps 1 to
        steps_total are all done posts its reward once, with the rule `task_reward`. Of one entry id, or one step's
        event id, with several contents the first stays: of the store, or of the batch's rows in their order. Where the
        steps of a task disagree, the greatest steps_total and the greatest reward count.
        """

    def post_arrow(self, entries: pa.Table, steps: pa.Table, batch: Batch) -> Posted:
        """The same for rows in the driver."""

    def upsert(self, table: str, rows: pa.Table, batch: Batch) -> None:
        """Rows of a serving table by their key; the newest batch wins."""

    def upsert_all(self, rows: Mapping[str, pa.Table], batch: Batch) -> None:
        """The same for several tables: atomically where a store can do that, else in this order."""

    def delete(self, table: str, keys: Iterable[tuple[Any, ...]], batch: Batch) -> None:
        """Delete rows of a serving table by their whole keys; a missing row is not an error."""

    def event_time_high(self, job: str, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The largest event time before each of these offsets, where `note_event_time_high` has noted it."""

    def note_event_time_high(self, job: str, highs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """For each partition an offset, and the largest event time before it."""

    def scan(
        self, table: str, *, columns: Sequence[str] | None = None, where: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of any table, in no particular order."""

    def lookup(
        self,
        table: str,
        keys: Iterable[tuple[Any, ...]],
    ) -> pa.Table:
        """The rows of these partition keys; of a serving table also by whole keys, all or none of them."""

    def tables(self) -> Sequence[str]:
        """Names of the tables that exist."""

    def days(self, table: str) -> Sequence[str]:
        """The days of a table's rows, in order; for a log table or LOGIN_FACT."""

    def expire(self, table: str, *, before_day: str) -> int:
        """Drop the days of such a table before this one; returns how many."""

    def shadow(self, name: str) -> "Store":
        """A second set of all tables beside this one, for a replay; opened if it exists."""

    def compare(self, other: "Store") -> Iterator[Difference]:
        """The differences, table by table, without wall-clock columns; tables without a difference are left out."""

    def swap(self, name: str) -> None:
        """The shadow of this name replaces these tables, which stay as the shadow `<name>-before`."""

    def close(self) -> None: ...
