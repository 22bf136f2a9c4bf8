"""One job's query: it restarts after failures and reports why, gives up in the end, and stops between batches."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Producer, TopicPartition
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch
from ottla.pipeline.running.checkpoints import Checkpoint
from ottla.pipeline.running.group_offsets import GroupOffsets
from ottla.pipeline.running.progress import JobProgress
from ottla.pipeline.running.query import DONE, FAILED, STOPPED, WAITING, JobQuery, Restarts, Source
from tests.pipeline.fake_store import FakeStore
from tests.processes import BrokerProcess, eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process]


class Counting:
    """A job that counts records, after failing a number of times."""

    name = "counting"
    group = "ottla-counting"

    def __init__(self, topic: str, *, failures: int = 0) -> None:
        self.topics = (topic,)
        self.failures = failures
        self.batches: list[JobBatch] = []

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        self.batches.append(batch)
        if len(self.batches) <= self.failures:
            raise RuntimeError(f"attempt {len(self.batches)} went wrong")
        return BatchOutcome(rows_read=frame.count(), rows_written=0)


class Rig:
    def __init__(self, spark: "SparkSession", broker: BrokerProcess, topic: str, folder: Path) -> None:
        self._spark = spark
        self.bootstrap = broker.address
        self._folder = folder
        self.topic = topic
        self.admin = Admin(bootstrap_servers=broker.address)
        self.store = FakeStore()
        self.reported: list[str] = []

    def query(self, job: Counting, *, trigger_ms: int | None = None, most: int = 60) -> JobQuery:
        return JobQuery(
            self._spark,
            job,
            store=self.store,
            source=Source("ottla", {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic}, trigger_ms),
            checkpoint=Checkpoint(self._folder, job.name),
            group_offsets=GroupOffsets(self.admin, job.group, warn=self.reported.append),
            progress=JobProgress(job.name, job.group),
            restarts=Restarts(most, backoff_ms=1, backoff_max_ms=100),
            before_start=lambda: None,
            report=self.reported.append,
        )

    def run_to_end(self, query: JobQuery) -> None:
        query.start()
        try:
            eventually(lambda: self.look(query), within_s=600)
        finally:
            query.stop_now()

    def look(self, query: JobQuery) -> bool:
        query.look(time.monotonic())
        return query.is_over


@pytest.fixture
def rig(
    spark: "SparkSession", shared_broker: BrokerProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    rig = Rig(spark, shared_broker, request.node.name, tmp_path)
    rig.admin.create_topics([rig.topic])
    with Producer(bootstrap_servers=shared_broker.address) as producer:
        for number in range(7):
            producer.send(rig.topic, b"%d" % number)
    yield rig
    rig.admin.close()


def test_a_failed_batch_is_run_again_as_the_same_batch(rig: Rig) -> None:
    job = Counting(rig.topic, failures=2)
    query = rig.query(job)
    rig.run_to_end(query)
    assert query.progress.state == DONE
    assert (query.progress.rows_read, query.progress.batches) == (7, 1)
    # There may be others: Spark gives its Python processes ten seconds to start, which a busy machine may exceed.
    reported = [line for line in rig.reported if line.endswith("went wrong")]
    assert len(reported) == 2
    assert query.progress.restarts >= 2
    assert all(
        re.fullmatch(r"counting failed and starts again in [\d.]+ s: attempt \d went wrong", line) for line in reported
    )
    first, *others = job.batches
    assert first.ends == {(rig.topic, 0): 7}
    assert all((batch.id, batch.starts, batch.ends) == (first.id, first.starts, first.ends) for batch in others)
    committed = rig.admin.list_group_offsets("ottla-counting")
    assert committed[TopicPartition(rig.topic, 0)].offset == 7
    values = {row["name"]: row["value"] for row in rig.store.all("pipeline_metric")}
    assert (values["rows_read"], values["dead"]) == (7, 0)


def test_after_too_many_failures_it_is_given_up_and_the_next_run_goes_on(rig: Rig) -> None:
    query = rig.query(Counting(rig.topic, failures=99), most=1)
    rig.run_to_end(query)
    assert query.progress.state == FAILED
    assert rig.reported[-1].startswith("counting failed 2 times in a row and is given up: ")
    again = rig.query(Counting(rig.topic))
    rig.run_to_end(again)
    assert (again.progress.state, again.progress.rows_read) == (DONE, 7)


class Mapping(Counting):
    """Its records pass through a Python process of Spark's."""

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        self.batches.append(batch)
        mapped = frame.select("offset").mapInArrow(lambda batches: batches, "offset long")
        return BatchOutcome(rows_read=mapped.count(), rows_written=0)


def test_what_fails_the_same_way_each_time_is_given_up_at_once(
    rig: Rig, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nonexistent/python")
    job = Mapping(rig.topic)
    query = rig.query(job)
    rig.run_to_end(query)
    assert query.progress.state == FAILED
    reason = "Spark can't start /nonexistent/python: No such file or directory"
    assert query.progress.last_failure == reason
    assert rig.reported[-1] == f"counting is given up, it would fail again: {reason}"


def test_a_failure_that_repeats_is_said_once_and_counted_at_its_end(rig: Rig) -> None:
    class Stubborn(Counting):
        def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
            self.batches.append(batch)
            if len(self.batches) <= 4:
                raise RuntimeError("the same each time")
            return BatchOutcome(rows_read=frame.count(), rows_written=0)

    query = rig.query(Stubborn(rig.topic))
    rig.run_to_end(query)
    assert query.progress.state == DONE
    said = [line for line in rig.reported if "the same each time" in line]
    assert len(said) == 1
    assert re.fullmatch(r"counting goes on after \d+ failures", rig.reported[-1]), rig.reported


def test_a_checkpoint_that_can_not_be_written_is_tried_again(rig: Rig, tmp_path: Path) -> None:
    in_the_way = tmp_path / "counting" / "spark"
    in_the_way.parent.mkdir()
    in_the_way.touch()
    query = rig.query(Counting(rig.topic))
    query.start()
    assert query.progress.state == WAITING
    assert re.fullmatch(r"counting failed and starts again in [\d.]+ s: .*counting/spark.*", rig.reported[-1]), (
        rig.reported
    )
    in_the_way.unlink()
    rig.run_to_end(query)
    assert (query.progress.state, query.progress.rows_read) == (DONE, 7)


def test_asked_to_stop_no_further_batch_begins(rig: Rig) -> None:
    job = Counting(rig.topic)
    query = rig.query(job, trigger_ms=10)
    query.start()
    eventually(lambda: rig.look(query) or query.progress.batches == 1, within_s=600)
    query.ask_to_stop()
    with Producer(bootstrap_servers=rig.bootstrap) as producer:
        producer.send(rig.topic, b"one more").result()
    eventually(lambda: rig.look(query), within_s=600)
    assert query.progress.state == STOPPED
    assert len(job.batches) == 1
    query.stop_now()


def test_waits_between_restarts_double_up_to_a_bound() -> None:
    restarts = Restarts(9, backoff_ms=500, backoff_max_ms=3000)
    assert [restarts.wait_ms(count) for count in (1, 2, 3, 4, 99)] == [500, 1000, 2000, 3000, 3000]
