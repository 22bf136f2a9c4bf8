"""The whole way on a real broker and Spark: traffic with repeats, shuffles and bad events, to tables that are right.

One story in several tests, in the order of the file: work it off, prove it, replay it, redrive after a fix, export it.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow.dataset as ds
import pytest

from ottla import Admin, NewTopic, Producer, TopicPartition
from ottla.pipeline.dead_letters.redrive import Choice, redrive
from ottla.pipeline.events.parsing import ParsingRules
from ottla.pipeline.export.export_files import DayRange
from ottla.pipeline.export.topic_bounds import find_bounds
from ottla.pipeline.jobs.export import ExportPlan, export
from ottla.pipeline.ledger.reconcile import reconcile
from ottla.pipeline.replay import Replay
from ottla.pipeline.running.progress import JobProgress
from ottla.pipeline.running.runner import Runner, RunPlan
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.stores.port import Store
from ottla.pipeline.tables import BALANCE, LOG_TABLES, TASK_PROGRESS
from ottla.pipeline.topics import BY_NAME, CREDIT, LOGIN, TASK, TOPIC_NAMES
from ottla.pipeline.traffic.events import Event, encode_value
from ottla.pipeline.traffic.generator import Settings as TrafficSettings
from ottla.pipeline.traffic.generator import Traffic
from ottla.pipeline.traffic.noise import NoiseRates, with_noise
from ottla.pipeline.viewing.table_view import whole
from tests.processes import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.slow]

BOOKED = (CREDIT.name, TASK.name)
NEW_VERSION = 99  # of the bad events that are sound after an update
# Spark gives a Python process ten seconds to start, which a machine that is busy enough does not keep: try again.
PATIENT = {"restarts.max": 40, "restarts.backoff_max_ms": 2_000}
USUAL = Settings(PATIENT)
UPDATED = Settings(PATIENT | {"events.schema_versions": ["1", str(NEW_VERSION)]})
SHUFFLED_WITHIN_MS = 1_800_000  # the allowed lateness is twice that


class Story(NamedTuple):
    bootstrap: str
    folder: Path
    spark: "SparkSession"
    truth: dict[str, Any]
    sound_ids: dict[str, set[str]]
    counts: dict[str, Any]

    def plan(self) -> RunPlan:
        return RunPlan(
            bootstrap=self.bootstrap,
            jobs=("collect", "income_and_tasks"),
            connector="ottla",
            trigger_ms=None,
            checkpoint=self.folder / "checkpoint",
            store_name="embedded, around it",
            metrics_json=None,
        )

    def open_store(self) -> EmbeddedStore:
        return EmbeddedStore(self.folder / "store")

    def run(self, settings: Settings) -> dict[str, JobProgress]:
        said: list[str] = []
        runner = Runner(
            self.plan(), settings, open_store=self.open_store, report=said.append, show=lambda progress: None
        )
        assert runner.run(lambda: self.spark), said
        return {each.job: each for each in runner.progress}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
    broker = BrokerProcess(folder / "data").start()
    traffic = Traffic(TrafficSettings(seed=11, accounts=40, days=1))
    counts: dict[str, Any] = {}
    noisy = list(with_noise(traffic.events(), NoiseRates(duplicates=0.05, bad=0.1), seed=11, counts=counts))
    random = Random(11)
    noisy.sort(key=lambda event: event.event_time_ms + random.randrange(SHUFFLED_WITHIN_MS))
    with Admin(bootstrap_servers=broker.address) as admin:
        # A task of Spark's for each partition: several only where the books are made of them.
        admin.create_topics([NewTopic(name, 2 if name in BOOKED else 1) for name in TOPIC_NAMES])
    with Producer(bootstrap_servers=broker.address) as producer:
        handles = [producer.send(event.topic, encode_value(event), key=event.key.encode()) for event in noisy]
        producer.flush()
        for handle in handles:
            handle.result()
    yield Story(broker.address, folder, spark, traffic.truth(), _sound_ids(noisy), counts)
    broker.close()


@pytest.fixture
def store(story: Story) -> Iterator[Store]:
    store = story.open_store()
    yield store
    store.close()


def _sound_ids(events: list[Event]) -> dict[str, set[str]]:
    ids: dict[str, set[str]] = {topic: set() for topic in TOPIC_NAMES}
    for event in events:
        if isinstance(event.value, dict) and "-bad-" not in str(event.value["event_id"]):
            ids[event.topic].add(str(event.value["event_id"]))
    return ids


def _ids(store: Store, table: str) -> list[str]:
    found: list[str] = whole(store, LOG_TABLES[table], ["event_id"]).column("event_id").to_pylist()
    return found


def test_jobs_work_off_the_topics_and_say_what_they_found(story: Story) -> None:
    progress = story.run(USUAL)

    bad = sum(story.counts["bad"].values())
    collect = progress["collect"]
    assert collect.duplicates == story.counts["duplicates"]
    assert collect.dead.total() == bad
    assert collect.dead["unknown_schema_version"] == story.counts["bad"]["unknown_schema_version"] > 0
    assert collect.rows_written == collect.rows_read - bad - collect.duplicates


def test_tables_hold_every_event_once_though_repeated_and_shuffled(story: Story, store: Store) -> None:
    for topic, ids in story.sound_ids.items():
        assert sorted(_ids(store, BY_NAME[topic].table)) == sorted(ids)


def test_balances_and_tasks_are_those_of_the_truth(story: Story, store: Store) -> None:
    balances = {
        row["account_id"]: (row["balance"], row["entries"])
        for row in whole(store, BALANCE, BALANCE.column_names).to_pylist()
    }
    done: dict[str, int] = {}
    for row in whole(store, TASK_PROGRESS, TASK_PROGRESS.column_names).to_pylist():
        done[row["account_id"]] = done.get(row["account_id"], 0) + row["done"]
    for account_id, account in story.truth["accounts"].items():
        assert balances.get(account_id, (0, 0)) == (account["balance"], account["entries"])
        assert done.get(account_id, 0) == account["tasks_done"]


def test_the_books_reconcile(store: Store) -> None:
    report = reconcile(store)

    assert report.is_clean, report.findings
    assert report.checked["entries"] > 100


def test_lag_tools_see_that_nothing_is_left(story: Story) -> None:
    with Admin(bootstrap_servers=story.bootstrap) as admin:
        committed = admin.list_group_offsets("ottla-income_and_tasks")
        topic_partitions = [TopicPartition(name, number) for name in BOOKED for number in (0, 1)]
        latest = admin.list_offsets(topic_partitions, Admin.LATEST)
    assert {topic_partition: committed[topic_partition].offset for topic_partition in topic_partitions} == {
        topic_partition: latest[topic_partition].offset for topic_partition in topic_partitions
    }


def test_a_replay_makes_the_same_tables_and_takes_their_place(story: Story, store: Store) -> None:
    letters = _letters(story)
    replay = Replay(store, story.plan(), USUAL, name="again", report=lambda text: None, show=lambda progress: None)

    with replay.jobs_stopped():
        replay.fill(lambda: story.spark)
        differences = replay.differences()
        kept_as = replay.swap(differences)

    assert differences == []
    assert _letters(story) == letters, "dead letters were sent by their first run"
    assert reconcile(store).is_clean
    before = store.shadow(kept_as)
    assert list(store.compare(before)) == []
    before.close()


def test_letters_sent_back_after_an_update_come_in_once(story: Story, store: Store) -> None:
    choice = Choice(TOPIC_NAMES, frozenset({"unknown_schema_version"}))
    updated = story.counts["bad"]["unknown_schema_version"]
    before = {table: len(_ids(store, table)) for table in LOG_TABLES}

    assert redrive(story.bootstrap, choice, execute=True).letters == updated
    assert redrive(story.bootstrap, choice, execute=True).letters == 0
    progress = story.run(UPDATED)

    assert progress["collect"].rows_written == updated
    assert progress["collect"].dead.total() == 0
    after = {table: _ids(store, table) for table in LOG_TABLES}
    assert sum(map(len, after.values())) == sum(before.values()) + updated
    assert all(len(set(ids)) == len(ids) for ids in after.values())
    assert reconcile(store).is_clean


def test_an_export_reads_the_same_in_arrow_duckdb_and_spark(story: Story) -> None:
    folder = story.folder / "export"
    with Admin(bootstrap_servers=story.bootstrap) as admin:
        bounds = find_bounds(admin, TOPIC_NAMES, start="earliest", end="latest")
    plan = ExportPlan(folder, bounds.starts, bounds.ends, days=DayRange(None, None))
    source = {"kafka.bootstrap.servers": story.bootstrap}

    def run() -> Any:
        rules = ParsingRules.of(UPDATED)
        return export(lambda: story.spark, plan, rules, source, connector="ottla", now_ms=2**50)

    done = run()

    ends = sum(offset for offsets in bounds.ends.values() for offset in offsets.values())
    assert done.read == ends == sum(done.rows.values()) + sum(done.dead.values())
    assert run().read == 0, "all of it is there"
    logins = folder / LOGIN.name
    columns = ["event_id", "offset", "partition", "phone_hash", "day"]
    by_arrow = ds.dataset(logins, partitioning="hive").to_table(columns=columns).to_pylist()
    names = ", ".join(f'"{name}"' for name in columns[:-1])
    query = f"SELECT {names}, day::VARCHAR AS day FROM read_parquet('{logins}/**/*.parquet')"
    by_duckdb = duckdb.connect().sql(query).to_arrow_table().to_pylist()
    frame = story.spark.read.parquet(str(logins)).select(*columns[:-1], "day")
    by_spark = [{**row.asDict(), "day": str(row["day"])} for row in frame.collect()]
    shown = [
        sorted(rows, key=lambda row: (row["partition"], row["offset"])) for rows in (by_arrow, by_duckdb, by_spark)
    ]
    assert shown[0] == shown[1] == shown[2]
    assert {row["event_id"] for row in shown[0]} >= story.sound_ids[LOGIN.name]
    assert all(row["phone_hash"] is None or len(row["phone_hash"]) == 64 for row in shown[0])


def _letters(story: Story) -> int:
    with Admin(bootstrap_servers=story.bootstrap) as admin:
        topics = [name for name in admin.list_topics() if name.endswith(".dlq")]
        latest = admin.list_offsets([TopicPartition(name, 0) for name in topics], Admin.LATEST)
    return sum(each.offset for each in latest.values())
