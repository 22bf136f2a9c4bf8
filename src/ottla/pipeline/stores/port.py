"""What the jobs ask of a store. Every call may be repeated: a batch that is run again leaves what it left before.

DataFrames go in where a store may write from executors; what comes back is small, or streamed as Arrow batches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StoreError(RuntimeError):
    """A store could not do what was asked; the message says what, why, and what to do. Nothing was lost by it."""


class Batch(NamedTuple):
    """One micro-batch of one job. `run` is the id of its streaming query, which lives in the checkpoint.

    Numbers begin anew with a new checkpoint, so that only both together tell a batch from all others.
    """

    job: str
    run: str
    number: int

    def __str__(self) -> str:
        return f"{self.run}-{self.number:010d}"


class Origin(NamedTuple):
    """Where on the topics an event lies."""

    topic: str
    partition: int
    offset: int


class Appended(NamedTuple):
    """What became of a batch's events: by table, and those whose id is known with another body."""

    written: Mapping[str, int]
    duplicates: Mapping[str, int]
    conflicts: Sequence[Origin]


class Posted(NamedTuple):
    """Entries that were new to the ledger, and tasks that were finished by this batch."""

    entries: int
    duplicates: int
    tasks_done: int


class Condition(NamedTuple):
    """`column operator value`; the operators are =, !=, <, <=, >, >=."""

    column: str
    operator: str
    value: str | int | float


class Difference(NamedTuple):
    """Rows of one table that two sets of tables do not share, and some of their keys."""

    table: str
    only_here: int
    only_there: int
    changed: int
    examples: Sequence[Mapping[str, Any]]


class Store(Protocol):
    """One set of tables. Owned by the driver; closed by who opened it."""

    # Whether events are best handed over in the driver, with `append_arrow`, as that is where they are written.
    writes_in_driver: bool

    def initialise(self) -> None:
        """Make the tables that are missing; refuse a set of another version in words."""

    def append_events(self, events: "DataFrame", batch: Batch) -> Appended:
        """Add sound events to their log tables: each id once, however often and however far apart it comes.

        Columns are those of `parsing.EVENTS`. Of one id with several bodies the first by origin stays. Ids are looked
        for in the event's own table and day.
        """

    def append_arrow(self, events: pa.Table, batch: Batch) -> Appended:
        """The same for events that are in the driver already."""

    def post(self, entries: "DataFrame", steps: "DataFrame", batch: Batch) -> Posted:
        """Add entries to the ledger (columns of LEDGER) and steps to their tasks, then fold both.

        `steps`: account_id, task_id, step, steps_total, reward, event_id, event_time_ms. A task whose steps 1 to
        steps_total are all done posts its reward once, with the rule `task_reward`. Of one entry id, or one step's
        event id, with several contents the first stays: of the store, or of the batch's rows in their order. Where the
        steps of a task disagree, the greatest steps_total and the greatest reward count.
        """

    def post_arrow(self, entries: pa.Table, steps: pa.Table, batch: Batch) -> Posted:
        """The same for rows that are in the driver already."""

    def upsert(self, table: str, rows: pa.Table, batch: Batch) -> None:
        """Rows of a serving table by their key; the newest batch wins."""

    def upsert_all(self, rows: Mapping[str, pa.Table], batch: Batch) -> None:
        """The same for several tables: all of it or nothing where a store can do that, else in this order."""

    def delete(self, table: str, keys: Iterable[tuple[Any, ...]], batch: Batch) -> None:
        """Rows of a serving table go, by their whole key; one that is not there is no error."""

    def event_time_high(self, job: str, starts: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], int]:
        """The largest event time before these offsets (topic and partition -> offset), where it was noted."""

    def note_event_time_high(self, job: str, highs: Mapping[tuple[str, int], tuple[int, int]]) -> None:
        """Topic and partition -> (offset, the largest event time before it)."""

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
        """Names of the tables that are there."""

    def days(self, table: str) -> Sequence[str]:
        """The days that a table has rows of, in order; of a log table or LOGIN_FACT."""

    def expire(self, table: str, *, before_day: str) -> int:
        """Drop the days of such a table before this one; how many were dropped."""

    def shadow(self, name: str) -> "Store":
        """A second set of all tables beside this one, for a replay; opened if it is there."""

    def compare(self, other: "Store") -> Iterator[Difference]:
        """Table by table, wall-clock columns aside; a table without a difference is not told."""

    def swap(self, name: str) -> None:
        """The shadow of this name takes the place of these tables, which stay as the shadow `<name>-before`."""

    def close(self) -> None: ...
