"""What a job is: the topics that it reads, the group under which its progress shows, and its work on one batch.

A job owns no query and no offsets: those are `running`'s. It is made anew for every run, by `open_job(context)` in its
module, which `known.py` names.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.port import Batch, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipeline.events.preparing import Preparation

Place = tuple[str, int]  # topic and partition


class JobBatch(NamedTuple):
    """One micro-batch: who it is, and where it lies on the topics. `now_ms` is when it was begun.

    A batch that is run again after a failure has the same `id`, `starts` and `ends`, and holds the same records.
    """

    id: Batch
    starts: Mapping[Place, int]
    ends: Mapping[Place, int]
    now_ms: int


class BatchOutcome(NamedTuple):
    """What became of a batch, in rows; a batch that was run again tells what it did this time."""

    rows_read: int
    rows_written: int
    duplicates: int = 0
    late: int = 0
    dead: Mapping[str, int] = {}  # by error class
    figures: Mapping[str, int] = {}  # what only this job counts, by name


class JobContext(NamedTuple):
    """What a job works with; all of it outlives the job."""

    store: Store
    settings: Settings
    bootstrap: str
    sends_letters: bool = True  # a replay finds letters that were sent when their events first came


class Job(Protocol):
    """`run_batch` may be called again with the same batch, and must leave what one call would have left."""

    name: str
    topics: tuple[str, ...]
    group: str

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        """Work off the records of `frame`, which has the columns of Spark's Kafka source. Raises to be run again."""


@runtime_checkable
class PreparingJob(Protocol):
    """A job that says beforehand what becomes of records in Spark's workers.

    Where the source can do that while it reads, `frame` has its outcome in place of records: `preparing.prepared` makes
    the two the same. None where it hangs on something that the job's settings don't say.
    """

    preparation: "Preparation | None"


@runtime_checkable
class FinishingJob(Protocol):
    """A job that has something left to say when the topics are read to their ends and the run is over (`--once`)."""

    def finish(self, batch: Batch) -> BatchOutcome:
        """After the last batch, which is `batch`; a run that was cut short before is followed by one that calls it."""
