"""The pipeline under five kills of its driver at random moments and a killed broker: the rows are those of a quiet run.

`OTTLA_KILL_SEED=…` repeats the moments of a run.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest

from ottla.pipeline.tables import LOG_TABLES, SERVING_TABLES
from ottla.pipeline.topics import TOPIC_NAMES
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import Pipeline, check_tables, expected_balances, expected_of, noisy_events, toml
from tests.processes import BrokerProcess

KILLS = 5
# Their keys have the batch in them, and batches are not the same after kills.
OF_BATCHES = ("dead_event_count", "pipeline_metric")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "data").start()
    yield broker
    broker.close()


def test_rows_after_kills_are_those_of_a_quiet_run(broker: BrokerProcess, tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_KILL_SEED", time.time_ns() % 1_000_000))
    print(f"OTTLA_KILL_SEED={seed}")
    dice = random.Random(seed)
    killed, quiet = (Pipeline(broker.address, tmp_path / name) for name in ("killed", "quiet"))
    for pipeline in (killed, quiet):
        pipeline.folder.mkdir()
    config = tmp_path / "pipeline.toml"
    config.write_text(toml(batches__max_events=500))
    killed.make_topics(partitions=4)
    killed.send(noisy_events(seed=seed, accounts=150))
    for number in range(KILLS):
        driver = DriverProcess(broker.address, killed.folder, "--config", str(config), "--trigger", "50ms")
        try:
            before = driver.begun("collect")
            driver.wait_for(lambda: driver.begun("collect") > before or bool(driver.metrics()))  # noqa: B023
            time.sleep(dice.uniform(0, 3))
            if number == KILLS // 2:
                broker.kill()
                time.sleep(dice.uniform(0, 2))
                broker.start()
                time.sleep(dice.uniform(0, 3))
        finally:
            driver.kill()
    for pipeline in (killed, quiet):
        driver = DriverProcess(broker.address, pipeline.folder, "--config", str(config), "--once")
        try:
            assert driver.wait() == 0, driver.log
        finally:
            driver.close()

    expected = expected_of(quiet.records(*TOPIC_NAMES))
    check_tables(quiet, expected)
    check_tables(killed, expected)
    for name in (*LOG_TABLES, *(name for name in SERVING_TABLES if name not in OF_BATCHES)):
        assert killed.rows(name) == quiet.rows(name), name
    balances = {row["account_id"]: row["balance"] for row in killed.rows("balance")}
    assert balances == expected_balances(expected.logs)
    for name, rows in expected.logs.items():
        folder = killed.folder / "store" / "logs" / name
        ids = sorted(row["event_id"] for row in rows)
        read = ds.dataset(folder, format="parquet", partitioning="hive").to_table(columns=["event_id"])
        assert sorted(read.column("event_id").to_pylist()) == ids
        if ids:
            found = duckdb.sql(f"SELECT event_id FROM read_parquet('{folder}/*/*.parquet') ORDER BY 1").fetchall()
            assert [row[0] for row in found] == ids
