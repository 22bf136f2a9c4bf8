"""What a job is: the topics that it reads, the group that shows its progress, and its work on one batch.

A job owns no query and no offsets; `running` does. `open_job(context)` in a job's module, which `known.py` names, makes
a new job for every run.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from ottla.core.types import TopicPartition
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.port import Batch, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipeline.events.preparing import Preparation


class JobBatch(NamedTuple):
    """One micro-batch: its id, and its offsets on the topics. `now_ms` is when it began.

    A batch that runs again after a failure has the same `id`, `starts` and `ends`, and holds the same records.
    """

    id: Batch
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    now_ms: int


class BatchOutcome(NamedTuple):
    """What became of a batch, in rows. A batch that ran again counts what it did this time."""

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
    is_replay: bool = False  # a replay sends no dead letters and no alerts: the first run has sent them


class Job(Protocol):
    """`run_batch` may be called again with the same batch, and must leave what one call would have left."""

    name: str
    topics: tuple[str, ...]
    group: str

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        """Process the records of `frame`, which has the columns of Spark's Kafka source. Raises to be run again."""


@runtime_checkable
class PreparingJob(Protocol):
    """A job that names a function for Spark's workers to apply to the records.

    Our own source applies it while it reads, so that `frame` has the function's results in place of records;
    `preparing.prepared` applies it where that was not done. None where it depends on more than the job's settings.
    """

    preparation: "Preparation | None"


@runtime_checkable
class FinishingJob(Protocol):
    """A job with work left after the last batch of a run that ends by itself (`--once`)."""

    def finish(self, batch: Batch) -> BatchOutcome:
        """Called after the last batch, which is `batch`. If a run is cut short before, the next one calls it."""
