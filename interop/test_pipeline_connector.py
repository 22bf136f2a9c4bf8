"""The pipeline's jobs on Spark's own Kafka connector: `--connector kafka` leaves the rows that ours leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import PeerMissingError
from interop.spark_connector import connector_jars
from ottla.pipeline.topics import TOPIC_NAMES
from ottla.pipeline.traffic.generator import Settings as TrafficSettings
from ottla.pipeline.traffic.generator import Traffic
from ottla.spark.connector_jars import VARIABLE
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import Pipeline, check_tables, expected_balances, expected_of, noisy_events, toml
from tests.pipeline.test_detection_jobs import check_verdicts, in_memory
from tests.processes import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "data").start()
    yield broker
    broker.close()


@pytest.fixture(autouse=True)
def jars(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv(VARIABLE, str(connector_jars()[0].parent))
    except PeerMissingError as missing:
        pytest.skip(str(missing))


def test_jobs_run_on_the_official_connector(broker: BrokerProcess, tmp_path: Path) -> None:
    pipeline = Pipeline(broker.address, tmp_path)
    # One topic is missing at first.
    pipeline.make_topics(*(name for name in TOPIC_NAMES if name != "ml_task_log"))
    events = noisy_events(seed=9)
    pipeline.send(event for event in events if event.topic != "ml_task_log")
    _run(broker, tmp_path)  # all jobs
    # By now there are topics of dead letters, whose names have those of the topics in them.
    pipeline.make_topics("ml_task_log")
    pipeline.send(event for event in events if event.topic == "ml_task_log")
    _run(broker, tmp_path, "--jobs", "collect,income_and_tasks")
    expected = expected_of(pipeline.records(*TOPIC_NAMES))
    check_tables(pipeline, expected)
    balances = {row["account_id"]: row["balance"] for row in pipeline.rows("balance")}
    assert balances == expected_balances(expected.logs)


def test_verdicts_are_the_same_on_the_official_connector(broker: BrokerProcess, tmp_path: Path) -> None:
    pipeline = Pipeline(broker.address, tmp_path)
    pipeline.make_topics()
    events = list(Traffic(TrafficSettings(seed=5, accounts=250, days=2)).events())
    pipeline.send(events)
    _run(broker, tmp_path, "--jobs", "device_switching,invite_fraud")
    expected = in_memory(events)
    assert expected.device_alerts
    assert expected.invite_alerts
    check_verdicts(pipeline, expected)


def _run(broker: BrokerProcess, folder: Path, *jobs: str) -> None:
    config = folder / "pipeline.toml"
    config.write_text(toml())
    driver = DriverProcess(broker.address, folder, *jobs, "--config", str(config), "--connector", "kafka", "--once")
    try:
        assert driver.wait() == 0, driver.log
    finally:
        driver.close()
