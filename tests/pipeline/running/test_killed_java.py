"""Spark's Java process is killed under a run: one message in words, and the next run goes on from the checkpoint."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.pipeline.topics import TOPIC_NAMES
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import Pipeline, check_tables, expected_of, noisy_events, toml
from tests.processes import BrokerProcess

# No fixture `spark`: the processes have their own, one after the other.
pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.slow]


def test_a_run_whose_java_is_killed_says_so_once_and_the_next_goes_on(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker()
    pipeline = Pipeline(broker.address, tmp_path)
    config = tmp_path / "pipeline.toml"
    config.write_text(toml(batches__max_events=120))
    pipeline.make_topics()
    pipeline.send(noisy_events(seed=7))
    arguments = ("--jobs", "collect,device_switching", "--config", str(config))

    driver = DriverProcess(broker.address, tmp_path, *arguments, "--trigger", "100ms")
    try:
        assert driver.wait_for(lambda: driver.finished("collect") >= 1), driver.log
        (java,) = driver.children("java")
        os.kill(java, signal.SIGKILL)
        assert driver.wait() == 1, driver.log
    finally:
        driver.close()

    said = driver.log.splitlines()
    errors = [line for line in said if "Error" in line]
    assert len(errors) == 1, driver.log
    assert errors == said[-1:]
    assert errors[0].startswith(f"Error: Spark's Java process {java} was killed (SIGKILL)")
    assert "with it ended the jobs collect, device_switching." in errors[0]
    assert f"Its log: {tmp_path / 'checkpoint' / 'spark.log'}." in errors[0]
    assert "Run the same command again: each job goes on from its checkpoint" in errors[0]
    for word in ("Traceback", "Connection refused", "Py4J", "Warning"):
        assert word not in driver.log
    assert {job["state"] for job in driver.metrics().values()} == {"failed"}
    assert all("was killed (SIGKILL)" in job["last_failure"] for job in driver.metrics().values())

    finished = driver.finished("collect")
    driver = DriverProcess(broker.address, tmp_path, *arguments, "--once")
    try:
        assert driver.wait() == 0, driver.log
    finally:
        driver.close()
    assert driver.metrics()["collect"]["batches"] == driver.finished("collect") - finished
    check_tables(pipeline, expected_of(pipeline.records(*TOPIC_NAMES)))
