"""A driver that is killed and restarted, and one that is asked to stop: the same rows as if nothing had happened."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla import Admin
from ottla.pipeline.topics import TOPIC_NAMES
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import Pipeline, check_tables, expected_balances, expected_of, noisy_events, toml
from tests.processes import BrokerProcess

# No fixture `spark`: the processes have their own, one after the other.
pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.slow]
JOBS = ("--jobs", "collect,income_and_tasks")


def test_rows_are_the_same_after_kills_and_a_stop(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    broker = start_broker()
    pipeline = Pipeline(broker.address, tmp_path)
    config = tmp_path / "pipeline.toml"
    config.write_text(toml(batches__max_events=120))
    pipeline.make_topics()
    events = noisy_events(seed=5)
    half = len(events) // 2
    pipeline.send(events[:half])

    # Killed as soon as a batch is under way, then after some were finished and another one is begun.
    driver = DriverProcess(broker.address, tmp_path, *JOBS, "--config", str(config), "--trigger", "100ms")
    try:
        assert driver.wait_for(lambda: driver.begun("collect") > 0), driver.log
    finally:
        driver.kill()
    driver = DriverProcess(broker.address, tmp_path, *JOBS, "--config", str(config), "--once")
    try:
        driver.wait_for(lambda: driver.begun("collect") > driver.finished("collect") >= 1)
    finally:
        driver.kill()

    driver = DriverProcess(broker.address, tmp_path, *JOBS, "--config", str(config), "--trigger", "100ms")
    try:
        assert driver.wait_for(lambda: bool(driver.metrics())), driver.log
        pipeline.send(events[half:])
        records = pipeline.records(*TOPIC_NAMES)
        assert driver.wait_for(lambda: _is_all_read(pipeline, len(records))), driver.log
        assert driver.stop() == 0, driver.log
    finally:
        driver.close()
    assert {job["state"] for job in driver.metrics().values()} == {"stopped"}

    expected = expected_of(records)
    check_tables(pipeline, expected)
    balances = {row["account_id"]: row["balance"] for row in pipeline.rows("balance")}
    assert balances == expected_balances(expected.logs)


def _is_all_read(pipeline: Pipeline, count: int) -> bool:
    with Admin(bootstrap_servers=pipeline.bootstrap) as admin:
        collected = admin.list_group_offsets("cassandra-logger-consumer")
        posted = admin.list_group_offsets("ottla-income_and_tasks")
    of_income = sum(each.offset for topic_partition, each in collected.items() if topic_partition in posted)
    return (
        sum(each.offset for each in collected.values()) == count
        and sum(each.offset for each in posted.values()) == of_income > 0
    )
