"""The detectors' jobs on a real broker and Spark: verdicts are those of the detectors in memory, however events come.

The traffic has repeated, bad and shuffled events. One run of all jobs serves most tests; another has other batches.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from ottla.pipeline.detection.alerts import ALERT_TOPIC
from ottla.pipeline.detection.phone_region import PhoneRegions
from ottla.pipeline.events.phone_hashing import phone_hasher
from ottla.pipeline.jobs.known import JOBS
from ottla.pipeline.scoring.offline import OfflineAlerts, OfflineDetectors
from ottla.pipeline.settings import DEVELOPMENT_HASH_KEY
from ottla.pipeline.topics import LOGIN, VERIFY
from ottla.pipeline.traffic.events import Event
from ottla.pipeline.traffic.generator import Settings, Traffic
from ottla.pipeline.traffic.noise import NoiseRates, with_noise
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import Pipeline, toml
from tests.processes import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.slow]

DETECTORS = ("device_switching", "invite_fraud", "phone_region")
SHUFFLED_WITHIN_MS = 3_000_000  # the allowed lateness is an hour
Rows = list[dict[str, Any]]


class Story(NamedTuple):
    pipeline: Pipeline
    clean: list[Event]
    expected: OfflineAlerts
    folder: Path

    def another(self, name: str) -> Pipeline:
        """The same topics, another store."""
        folder = self.folder / name
        folder.mkdir()
        return Pipeline(self.pipeline.bootstrap, folder)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("detection")
    broker = BrokerProcess(folder / "data").start()
    clean = list(Traffic(Settings(seed=5, accounts=250, days=2)).events())
    noisy = list(with_noise(iter(clean), NoiseRates(duplicates=0.05, bad=0.02), seed=5, counts={}))
    random = Random(5)
    noisy.sort(key=lambda event: event.event_time_ms + random.randrange(SHUFFLED_WITHIN_MS))
    pipeline = Pipeline(broker.address, folder / "first")
    pipeline.folder.mkdir()
    pipeline.make_topics(partitions=1)
    pipeline.send(noisy)
    # Three batches or so for the job that reads most; small enough for the others to have one.
    assert pipeline.run(spark, jobs=",".join(JOBS), batches__max_events=4_000), pipeline.reported
    yield Story(pipeline, clean, in_memory(clean), folder)
    broker.close()


def in_memory(events: list[Event]) -> OfflineAlerts:
    detectors = OfflineDetectors()
    sound = [(event.topic, event.value) for event in events if isinstance(event.value, dict)]
    for start in range(0, len(sound), 4_000):
        detectors.feed(sound[start : start + 4_000])
    return detectors.finish()


def without_times(rows: Rows) -> Rows:
    """All but when it was detected, which hangs on batches."""
    shown = [{name: value for name, value in row.items() if name != "detected_ms"} for row in rows]
    return sorted(shown, key=lambda row: row["alert_id"])


def check_verdicts(pipeline: Pipeline, expected: OfflineAlerts) -> None:
    assert without_times(pipeline.rows("device_alert")) == without_times(expected.device_alerts)
    assert without_times(pipeline.rows("invite_alert")) == without_times(expected.invite_alerts)


def test_verdicts_are_those_in_memory_though_events_are_repeated_shuffled_and_bad(story: Story) -> None:
    assert story.expected.device_alerts
    assert story.expected.invite_alerts
    check_verdicts(story.pipeline, story.expected)


def test_the_topic_of_alerts_tells_what_the_tables_hold(story: Story) -> None:
    held: dict[str, dict[str, Any]] = {}
    for record in story.pipeline.records(ALERT_TOPIC):
        assert record.key is not None
        assert record.value is not None
        alert = json.loads(record.value)
        if alert.get("withdrawn"):
            held.pop(alert["alert_id"], None)
            continue
        assert record.key.decode() == alert.get("device_id", alert.get("inviter_id"))
        assert alert["why"]
        held[alert["alert_id"]] = alert
    rows = {row["alert_id"]: row for table in ("device_alert", "invite_alert") for row in story.pipeline.rows(table)}
    assert held.keys() == rows.keys()
    for alert_id, row in rows.items():
        for name, value in row.items():
            reported = held[alert_id][name]
            assert reported == (json.loads(value) if name in ("accounts", "rules", "invitees") else value)


def test_regions_are_of_the_newest_number_that_an_account_was_seen_with(story: Story) -> None:
    regions = PhoneRegions()
    hash_phone = phone_hasher(DEVELOPMENT_HASH_KEY, calling_code="86")
    newest: dict[str, tuple[int, str, str]] = {}
    for event in story.clean:
        if event.topic == LOGIN.name or (event.topic == VERIFY.name and event.value["outcome"] == "ok"):
            phone = event.value["phone"]
            seen = (event.event_time_ms, hash_phone(phone), phone)
            newest[event.value["account_id"]] = max(seen, newest.get(event.value["account_id"], seen))
    expected = {
        account_id: (*regions.place_of(phone), phone_hash) for account_id, (_, phone_hash, phone) in newest.items()
    }
    rows = story.pipeline.rows("user_region")
    assert {row["account_id"]: tuple(row.values())[1:] for row in rows} == expected
    unknown = story.pipeline.progress["phone_region"].figures["unknown_regions"]
    assert unknown >= sum(row["country"] == "ZZ" for row in rows)


def test_each_job_has_read_its_topics_and_says_what_it_found(story: Story) -> None:
    progress = story.pipeline.progress
    assert all(each.lag == 0 for each in progress.values())
    assert progress["collect"].rows_read > progress["invite_fraud"].rows_read > progress["device_switching"].rows_read
    assert progress["invite_fraud"].figures["alerts"] >= len(story.expected.invite_alerts)
    assert progress["invite_fraud"].batches > 1


def test_no_raw_number_is_in_tables_alerts_or_what_is_said(story: Story) -> None:
    numbers = {
        event.value[name].removeprefix("+86").replace(" ", "").replace("-", "")
        for event in story.clean
        for name in ("phone", "invitee_phone")
        if event.value.get(name)
    }
    assert len(numbers) > 200
    folder = story.pipeline.folder
    texts = [record.value.decode() for record in story.pipeline.records(ALERT_TOPIC) if record.value is not None]
    texts += story.pipeline.reported
    texts.append((folder / "metrics.json").read_text())
    files = list((folder / "store" / "logs").rglob("*.parquet"))
    assert files
    for path in files:
        texts.append(json.dumps(pq.read_table(path).to_pylist()))
    with sqlite3.connect(folder / "store" / "serving.sqlite") as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for name in names:
            texts += [json.dumps(row) for row in connection.execute(f'SELECT * FROM "{name}"')]
    # Bytes of the files as well: pages that rows have left, and whatever else lies about.
    texts += [path.read_bytes().decode("latin-1") for path in (folder / "store").rglob("*") if path.is_file()]
    found = {run.removeprefix("86") for text in texts for run in re.findall(r"\d{11,13}", text)}
    assert numbers.isdisjoint(found)


def test_one_batch_gives_the_same_as_several(story: Story, spark: "SparkSession") -> None:
    whole = story.another("whole")

    assert whole.run(spark, jobs=",".join(DETECTORS)), whole.reported

    assert {whole.progress[job].batches for job in DETECTORS} == {1}
    check_verdicts(whole, story.expected)
    assert whole.rows("user_region") == story.pipeline.rows("user_region")


def test_a_stream_that_is_killed_and_a_run_of_all_that_is_left_change_no_verdict(story: Story) -> None:
    again = story.another("killed")
    config = again.folder / "pipeline.toml"
    config.write_text(toml(batches__max_events=4_000))
    arguments = ("--jobs", ",".join(DETECTORS), "--config", str(config))
    driver = DriverProcess(again.bootstrap, again.folder, *arguments, "--trigger", "100ms")
    try:
        # The next batch is then under way, or about to be.
        assert driver.wait_for(lambda: driver.finished("invite_fraud") >= 1), driver.log
    finally:
        driver.kill()

    driver = DriverProcess(again.bootstrap, again.folder, *arguments, "--once")
    try:
        assert driver.wait() == 0, driver.log
    finally:
        driver.close()

    check_verdicts(again, story.expected)
    assert again.rows("user_region") == story.pipeline.rows("user_region")
