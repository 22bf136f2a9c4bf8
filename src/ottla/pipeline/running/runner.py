"""Runs jobs until they are done, asked to stop, or given up: one streaming query for each.

Owns the connection to the cluster for checkpoints, lag and group offsets. Does not know what a job does with its
records.
"""

import re
import time
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py4j.protocol import Py4JNetworkError

from ottla.clients.admin import Admin
from ottla.clients.errors import ClientError
from ottla.clients.topics import EARLIEST
from ottla.core.types import TopicPartition
from ottla.pipeline.jobs.known import open_job
from ottla.pipeline.jobs.port import Job, JobContext, PreparingJob
from ottla.pipeline.retention import RetentionKeeper, retention_limits
from ottla.pipeline.running.checkpoints import About, Checkpoint
from ottla.pipeline.running.group_offsets import GroupOffsets
from ottla.pipeline.running.lag import JobPosition, LagWatch
from ottla.pipeline.running.progress import JobProgress, MetricsFile
from ottla.pipeline.running.query import FAILED, JobQuery, Restarts, Source, SparkEnded
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.port import Store
from ottla.pipeline.trimming import TrimRules
from ottla.spark.java_process import how_it_ended
from ottla.spark.mapped_source import register_mapped
from ottla.spark.source import NAME as OTTLA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S: Final = 0.1
_TASKS_PER_CORE: Final = 2  # one that takes longer than the others leaves no core idle for long
_CLUSTER_PATIENCE_MS: Final = 5_000
# A batch that runs when the run shall stop gets this long to end by itself.
_LAST_BATCH_S: Final = 30.0


class RunPlan(NamedTuple):
    """What to run, on what. `trigger_ms` None reads all that is on the topics now, once."""

    bootstrap: str
    jobs: tuple[str, ...]
    connector: str
    trigger_ms: int | None
    checkpoint: Path
    store_name: str
    metrics_json: Path | None
    replay: str | None = None  # the name of a replay, which has groups of its own and sends no dead letters


class Runner:
    """One run. `run` returns whether all went well; a signal handler may call `ask_to_stop`."""

    def __init__(
        self,
        plan: RunPlan,
        settings: Settings,
        *,
        open_store: Callable[[], Store],
        report: Callable[[str], None],
        show: Callable[[Sequence[JobProgress]], None],
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._open_store = open_store
        self._report = report
        self._show = show
        self._is_asked_to_stop = False
        self._metrics_problem = ""
        self.progress: list[JobProgress] = []

    def ask_to_stop(self) -> None:
        self._is_asked_to_stop = True

    def run(self, start_spark: Callable[[], "SparkSession"]) -> bool:
        """Raises ClientError if the cluster can't be reached, CheckpointRefused, SparkEnded, or StoreError."""
        with ExitStack() as stack:
            admin = stack.enter_context(
                Admin(bootstrap_servers=self._plan.bootstrap, default_api_timeout_ms=_CLUSTER_PATIENCE_MS)
            )
            # At once, and before Spark takes its seconds.
            admin.connect()
            checkpoints = [Checkpoint(self._plan.checkpoint, name) for name in self._plan.jobs]
            for checkpoint in checkpoints:
                stack.enter_context(checkpoint.claimed())
            store = self._open_store()
            stack.callback(store.close)
            store.initialise()
            jobs = []
            for name, checkpoint in zip(self._plan.jobs, checkpoints, strict=True):
                context = JobContext(
                    store, self._settings, self._plan.bootstrap, is_replay=self._plan.replay is not None
                )
                job = open_job(name, context)
                self._check(admin, job, checkpoint)
                jobs.append((job, store, checkpoint))
            self._warn_of_missing(admin, [job for job, _, _ in jobs])
            self.progress = [JobProgress(job.name, self._group(job)) for job, _, _ in jobs]
            metrics = MetricsFile(self._plan.metrics_json, self.progress)
            metrics.write()  # fails now, not after the first batch, if the file can't be written
            spark = start_spark()
            if self._is_asked_to_stop:
                return True  # nothing has started
            queries = [
                self._query(spark, admin, progress, *parts) for progress, parts in zip(self.progress, jobs, strict=True)
            ]
            retention = RetentionKeeper(
                store, retention_limits(self._settings), TrimRules.of(self._settings), report=self._report
            )
            try:
                self._start_all(queries)
                self._watch(queries, admin, metrics, retention)
            except (SparkEnded, Py4JNetworkError) as error:
                # Spark ends together with us if one signal went to all processes.
                if not self._is_asked_to_stop:
                    how = how_it_ended(is_expected=True) or "Spark does not answer any more"
                    for query in queries:
                        query.lose(how)
                    raise SparkEnded(self._reported_end(how)) from error
            finally:
                for query in queries:
                    query.stop_now()
                self._write(metrics)
            return all(query.progress.state != FAILED for query in queries)

    def _start_all(self, queries: Sequence[JobQuery]) -> None:
        for query in queries:
            query.start()
            if query.progress.state == FAILED:
                # They share one Spark, so the others would fail the same way.
                for other in queries:
                    other.ask_to_stop()
                return

    def _watch(
        self, queries: Sequence[JobQuery], admin: Admin, metrics: MetricsFile, retention: RetentionKeeper
    ) -> None:
        stop_by_s: float | None = None
        lag = LagWatch(partial(_latest_offsets, admin))
        while True:
            now_s = time.monotonic()
            for query in queries:
                query.look(now_s)
            if self._is_asked_to_stop and stop_by_s is None:
                stop_by_s = now_s + _LAST_BATCH_S
                for query in queries:
                    query.ask_to_stop()
            if stop_by_s is not None:
                for query in queries:
                    if not query.is_in_batch or now_s > stop_by_s:
                        query.stop_now()
            is_over = all(query.is_over for query in queries)
            # A job that is given up ends the others too, each after its batch: nobody wants tables of which only a
            # part goes on.
            if any(query.progress.state == FAILED for query in queries):
                self._is_asked_to_stop = True
            lag.look(
                [JobPosition(query.progress, query.ends, query.is_over) for query in queries],
                now_s=now_s,
                is_last=is_over,
            )
            retention.look(now_s, is_last=is_over)
            self._write(metrics)
            self._show(self.progress)
            if is_over:
                return
            time.sleep(_LOOK_EVERY_S)

    def _reported_end(self, how: str) -> str:
        checkpoint = self._plan.checkpoint
        return (
            f"{how}; with it ended the jobs {', '.join(self._plan.jobs)}. Its log: {checkpoint / 'spark.log'}. "
            f"Run the same command again: each job goes on from its checkpoint in {checkpoint}, and a batch that was "
            "not finished is done again, no event twice"
        )

    def _write(self, metrics: MetricsFile) -> None:
        try:
            metrics.write()
        except OSError as error:
            if self._metrics_problem != str(error):
                self._metrics_problem = str(error)
                self._report(f"metrics can't be written, the jobs go on: {error}")

    def _query(
        self,
        spark: "SparkSession",
        admin: Admin,
        progress: JobProgress,
        job: Job,
        store: Store,
        checkpoint: Checkpoint,
    ) -> JobQuery:
        settings = self._settings
        return JobQuery(
            spark,
            job,
            store=store,
            source=Source(self._format(job, spark), self._source_options(job, spark), self._plan.trigger_ms),
            checkpoint=checkpoint,
            group_offsets=GroupOffsets(admin, progress.group, warn=self._report),
            progress=progress,
            restarts=Restarts(
                settings.get_int("restarts.max"),
                settings.get_int("restarts.backoff_ms"),
                settings.get_int("restarts.backoff_max_ms"),
            ),
            before_start=lambda: self._check(admin, job, checkpoint),
            report=self._report,
        )

    def _group(self, job: Job) -> str:
        return job.group if self._plan.replay is None else f"{job.group}-{self._plan.replay}"

    def _format(self, job: Job, spark: "SparkSession") -> str:
        """The source's name for Spark: our own source applies a job's preparation where it reads records."""
        preparation = job.preparation if isinstance(job, PreparingJob) else None
        if self._plan.connector != OTTLA or preparation is None:
            return self._plan.connector
        name = f"{OTTLA}_{job.name}"
        register_mapped(spark, name, preparation.function, preparation.schema)
        return name

    def _source_options(self, job: Job, spark: "SparkSession") -> dict[str, str]:
        # By pattern, so that later topics and partitions are found, and a missing topic is not an error.
        options = {
            "kafka.bootstrap.servers": self._plan.bootstrap,
            # Anchored: Spark's own source takes a topic in which the pattern matches anywhere.
            "subscribePattern": f"^(?:{'|'.join(re.escape(topic) for topic in job.topics)})$",
            "maxOffsetsPerTrigger": str(self._settings.get_int("batches.max_events")),
            "failOnDataLoss": "true" if self._settings["source.fails_on_data_loss"] else "false",
        }
        if self._plan.connector == OTTLA:
            # Topics times partitions are many small slices, and each task costs time.
            options["maxPartitions"] = str(_TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
        return options

    def _check(self, admin: Admin, job: Job, checkpoint: Checkpoint) -> None:
        """Checks that the checkpoint belongs to this cluster, job and store; if topics changed, begins it anew."""
        there = [topic for topic in admin.list_topics() if topic in job.topics]
        described = admin.describe_topics(there) if there else {}
        ids = {name: topic.topic_id for name, topic in described.items() if topic.topic_id is not None}
        cluster_id = admin.describe_cluster().cluster_id
        plan = self._plan
        about = About(job.name, cluster_id, plan.connector, plan.store_name, job.topics, ids)
        made_anew = checkpoint.check(about)
        gone = sorted(checkpoint.topics_read() - set(there))
        if not made_anew and not gone:
            return
        read = checkpoint.last_finished_ends()
        topic_partitions = [
            TopicPartition(name, each.partition) for name, topic in described.items() for each in topic.partitions
        ]
        checkpoint.begin_anew(
            about,
            {
                topic_partition: EARLIEST if topic_partition.topic in made_anew else read.get(topic_partition, EARLIEST)
                for topic_partition in topic_partitions
            },
        )
        if made_anew:
            self._report(
                f"{job.name}: deleted and created again, now read from the beginning: {', '.join(made_anew)}; "
                "records that were not read before are lost"
            )
        if gone:
            self._report(f"{job.name}: deleted, records that were not read are lost: {', '.join(gone)}")

    def _warn_of_missing(self, admin: Admin, jobs: Sequence[Job]) -> None:
        there = set(admin.list_topics())
        missing = sorted({topic for job in jobs for topic in job.topics} - there)
        if missing:
            what = "counted as empty" if self._plan.trigger_ms is None else "read as soon as they are created"
            self._report(f"these topics do not exist, they are {what}: {', '.join(missing)}")


def _latest_offsets(admin: Admin, topic_partitions: Set[TopicPartition]) -> dict[TopicPartition, int] | None:
    try:
        latest = admin.list_offsets(topic_partitions, Admin.LATEST, waits_for_leaders=False)
    except ClientError:
        return None
    return {topic_partition: found.offset for topic_partition, found in latest.items()}
