"""One job as a streaming query: start, watch, restart with back-off after a failure, stop between batches.

The runner owns it and calls `look` again and again from one thread; batches run in one of Spark's threads.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ottla.clients.errors import ClientError
from ottla.core.types import TopicPartition
from ottla.pipeline.jobs.port import BatchOutcome, FinishingJob, Job, JobBatch
from ottla.pipeline.running.checkpoints import Checkpoint, CheckpointRefused
from ottla.pipeline.running.failures import describe_failure, is_lasting
from ottla.pipeline.running.group_offsets import GroupOffsets
from ottla.pipeline.running.progress import JobProgress
from ottla.pipeline.stores.port import Batch, Store, StoreError
from ottla.pipeline.tables import PIPELINE_METRIC
from ottla.spark.java_text import java_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STARTING: Final = "starting"
RUNNING: Final = "running"
WAITING: Final = "waiting to restart"
DONE: Final = "done"
STOPPED: Final = "stopped"
FAILED: Final = "failed"

_METRIC_NAMES: Final = ("rows_read", "rows_written", "duplicates", "late", "dead", "batch_ms")


class Restarts(NamedTuple):
    """How often a failed query restarts, and after which waits."""

    most: int
    backoff_ms: int
    backoff_max_ms: int

    def wait_ms(self, failures_in_a_row: int) -> int:
        return min(self.backoff_max_ms, self.backoff_ms << min(failures_in_a_row - 1, 20))


class Source(NamedTuple):
    """Where records come from, and how many at a time. `trigger_ms` None reads all that is there, once."""

    connector: str
    options: Mapping[str, str]
    trigger_ms: int | None


class SparkEnded(Exception):
    """Spark's process is gone, and no query can restart without it. The runner's message says how, and what to do."""


class StopAsked(Exception):
    """Not a failure: raised in place of another batch when the run shall end."""


class JobQuery:
    """Lives from `start` until `is_over`. `wait`s and clocks are monotonic seconds."""

    def __init__(
        self,
        spark: "SparkSession",
        job: Job,
        *,
        store: Store,
        source: Source,
        checkpoint: Checkpoint,
        group_offsets: GroupOffsets,
        progress: JobProgress,
        restarts: Restarts,
        before_start: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        self.job = job
        self.progress = progress
        self._spark = spark
        self._store = store
        self._source = source
        self._checkpoint = checkpoint
        self._group_offsets = group_offsets
        self._restarts = restarts
        self._before_start = before_start
        self._report = report
        self._query: StreamingQuery | None = None
        self._failures_in_a_row = 0
        self._said_reason: str | None = None  # of the failures in a row
        self._start_again_at_s = 0.0
        self._is_in_batch = threading.Event()
        self._is_stopping = threading.Event()
        self._batch_failure: BaseException | None = None
        self.ends: dict[TopicPartition, int] = {}  # of the last batch that was finished

    @property
    def is_over(self) -> bool:
        return self.progress.state in (DONE, STOPPED, FAILED)

    @property
    def is_in_batch(self) -> bool:
        return self._is_in_batch.is_set()

    def start(self) -> None:
        """Start or restart. Reports a failure and tries again later, unless that can't help."""
        self.progress.state = STARTING
        self._batch_failure = None
        try:
            self._before_start()
            self._start_query()
        except CheckpointRefused as error:
            self.progress.last_failure = str(error)
            self.progress.state = FAILED
            self._report(f"{self.job.name} can't go on: {error}")
        except ConnectionError as error:  # the cluster's are ClientErrors
            raise SparkEnded from error
        except (ClientError, PySparkException, Py4JJavaError, OSError) as error:
            self._fail(error, time.monotonic())
        except Py4JError as error:  # no answer at all, not even one that it went wrong
            raise SparkEnded from error

    def _start_query(self) -> None:
        self.ends = self._checkpoint.last_finished_ends()
        # An earlier run may have finished a batch and ended before its commit.
        self._group_offsets.commit(self.ends)
        options = {**self._source.options, "startingOffsets": self._checkpoint.starting_offsets}
        stream = self._spark.readStream.format(self._source.connector).options(**options).load()
        writer = stream.writeStream.queryName(self.job.name).foreachBatch(self._run_batch)
        writer = writer.option("checkpointLocation", java_path(self._checkpoint.spark_folder))
        if self._source.trigger_ms is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self._source.trigger_ms} milliseconds")
        self._query = writer.start()
        self.progress.state = RUNNING

    def look(self, now_s: float) -> None:
        """Check the query and do what is due. SparkEnded if Spark is gone."""
        if self.is_over:
            return
        if self._query is None:
            if now_s >= self._start_again_at_s:
                self.progress.restarts += 1
                self.start()
            return
        try:
            if self._query.isActive:
                return
            error = self._query.exception()
        except (Py4JError, OSError) as gone:
            raise SparkEnded from gone
        self._query = None
        if self._is_stopping.is_set():
            self.progress.state = STOPPED
        elif error is None:
            self._finish(now_s)
        else:
            self._fail(self._batch_failure or error, now_s)

    def _finish(self, now_s: float) -> None:
        """All is read. If this fails, it is repeated after the query has found nothing more to read."""
        last = self._checkpoint.last_finished()
        if last is not None and isinstance(self.job, FinishingJob):
            began_s = time.monotonic()
            try:
                self.progress.add_figures(self.job.finish(last), took_ms=int((time.monotonic() - began_s) * 1000))
            except (StoreError, ClientError, PySparkException, OSError) as error:
                self._fail(error, now_s)
                return
        self.progress.state = DONE

    def ask_to_stop(self) -> None:
        """Start no further batch."""
        self._is_stopping.set()
        if self._query is None and not self.is_over:
            self.progress.state = STOPPED

    def stop_now(self) -> None:
        """Stop even within a batch: the next start runs it again from its beginning."""
        self.ask_to_stop()
        if self._query is not None:
            try:
                self._query.stop()
            except (Py4JError, PySparkException, OSError):
                pass  # Spark is gone, and the query with it; or it ended by itself just now
            self._query = None
        if not self.is_over:
            self.progress.state = STOPPED

    def lose(self, reason: str) -> None:
        """Spark is gone: there is nothing to stop."""
        self._is_stopping.set()
        self._query = None
        if not self.is_over:
            self.progress.last_failure = reason
            self.progress.state = FAILED

    def _fail(self, error: BaseException, now_s: float) -> None:
        self._failures_in_a_row += 1
        reason = describe_failure(error)
        self.progress.last_failure = reason
        # After the first batch Spark has all that it needs: what is missing later may come back.
        if is_lasting(error) and not self.progress.batches:
            self.progress.state = FAILED
            self._report(f"{self.job.name} is given up, it would fail again: {reason}")
            return
        if self._failures_in_a_row > self._restarts.most:
            self.progress.state = FAILED
            self._report(f"{self.job.name} failed {self._failures_in_a_row} times in a row and is given up: {reason}")
            return
        wait_ms = self._restarts.wait_ms(self._failures_in_a_row)
        self.progress.state = WAITING
        self._start_again_at_s = now_s + wait_ms / 1000
        if reason != self._said_reason:
            self._said_reason = reason
            self._report(f"{self.job.name} failed and starts again in {wait_ms / 1000:.1f} s: {reason}")

    # In the query's thread.

    def _run_batch(self, frame: "DataFrame", number: int) -> None:
        if self._is_stopping.is_set():
            raise StopAsked(self.job.name)
        self._is_in_batch.set()
        try:
            self._work_off(frame, number)
        except BaseException as error:
            self._batch_failure = error
            raise
        finally:
            self._is_in_batch.clear()

    def _work_off(self, frame: "DataFrame", number: int) -> None:
        began_s = time.monotonic()
        ends = self._checkpoint.ends(number)
        starts = self._checkpoint.ends(number - 1) if number > 0 else {}
        batch = self._checkpoint.batch(number)
        outcome = self.job.run_batch(frame, JobBatch(batch, starts, ends, now_ms=time.time_ns() // 1_000_000))
        took_ms = int((time.monotonic() - began_s) * 1000)
        self._store.upsert(PIPELINE_METRIC.name, metric_rows(batch, outcome, took_ms=took_ms), batch)
        self._group_offsets.commit(ends)
        self.progress.add(outcome, took_ms=took_ms)
        self.ends = ends
        if self._failures_in_a_row > 1:
            self._report(f"{self.job.name} goes on after {self._failures_in_a_row} failures")
        self._failures_in_a_row = 0
        self._said_reason = None


def metric_rows(batch: Batch, outcome: BatchOutcome, *, took_ms: int) -> pa.Table:
    """A batch's figures as rows of PIPELINE_METRIC."""
    values = (
        outcome.rows_read,
        outcome.rows_written,
        outcome.duplicates,
        outcome.late,
        sum(outcome.dead.values()),
        took_ms,
        *outcome.figures.values(),
    )
    names = (*_METRIC_NAMES, *outcome.figures)
    count = len(names)
    return pa.table(
        {
            "job": [batch.job] * count,
            "batch": [str(batch)] * count,
            "name": list(names),
            "value": pa.array(values, pa.float64()),
            "noted_ms": pa.array([time.time_ns() // 1_000_000] * count, pa.int64()),
        }
    )
