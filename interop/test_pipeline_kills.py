"""The pipeline under five kills of its driver at random moments and a killed broker, with repeated and shuffled events.

The rows are those of a quiet run on the events as they happened. `OTTLA_KILL_SEED=…` repeats the moments of a run.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.tables import LOG_TABLES
from ottla.pipeline.topics import TOPIC_NAMES
from ottla.pipeline.traffic.events import Event
from ottla.pipeline.traffic.generator import DEFAULT_START_MS, Traffic
from ottla.pipeline.traffic.generator import Settings as TrafficSettings
from ottla.pipeline.traffic.noise import NoiseRates, with_noise
from ottla.pipeline.traffic.scenarios import Hardness
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import (
    ALLOWED_MS,
    Pipeline,
    Row,
    check_tables,
    expected_balances,
    expected_of,
    toml,
)
from tests.processes import BrokerProcess

KILLS = 5
ACCOUNTS = 100
JOBS = ("--jobs", "collect,income_and_tasks")
COMPARED = (*LOG_TABLES, "late_event", "ledger", "balance", "task_progress", "task_step", "task_reward")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    with ExitStack() as stack:
        started = [BrokerProcess(tmp_path / name).start() for name in ("noisy", "plain")]
        for broker in started:
            stack.callback(broker.close)
        yield started[0], started[1]


def test_rows_after_kills_are_those_of_a_quiet_run(
    brokers: tuple[BrokerProcess, BrokerProcess], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = int(os.environ.get("OTTLA_KILL_SEED", time.time_ns() % 1_000_000))
    print(f"OTTLA_KILL_SEED={seed}")
    dice = random.Random(seed)
    broker, quiet_broker = brokers
    killed = Pipeline(broker.address, _folder(tmp_path / "killed"))
    quiet = Pipeline(quiet_broker.address, _folder(tmp_path / "quiet"))
    for pipeline in (killed, quiet):
        pipeline.make_topics()
    plain = list(Traffic(TrafficSettings(seed, ACCOUNTS, 1, Hardness.EASY, DEFAULT_START_MS)).events())
    noisy = _noisy(plain, seed)
    part = len(noisy) // KILLS + 1
    config = tmp_path / "killed.toml"
    config.write_text(toml(batches__max_events=part // 3))  # some batches to each kill

    for number in range(KILLS):
        killed.send(noisy[number * part : (number + 1) * part])
        driver = DriverProcess(broker.address, killed.folder, *JOBS, "--config", str(config), "--trigger", "50ms")
        try:
            job = dice.choice(("collect", "income_and_tasks"))
            begun = driver.begun(job) + dice.randrange(2 if job == "collect" else 1)
            driver.wait_for(lambda: driver.begun(job) > begun)  # noqa: B023
            time.sleep(dice.uniform(0, 1.5))
            if number == KILLS // 2:
                broker.kill()
                time.sleep(dice.uniform(0, 2))
                broker.start()
                time.sleep(dice.uniform(0, 2))
        finally:
            driver.kill()
    _run_once(killed)
    quiet.send(plain)
    _run_once(quiet)

    expected = expected_of(killed.records(*TOPIC_NAMES))
    assert expected.duplicates
    assert not expected.late
    check_tables(killed, expected)
    for name in COMPARED:
        assert killed.rows(name) == quiet.rows(name), name
    balances = {row["account_id"]: row["balance"] for row in killed.rows("balance")}
    assert balances == expected_balances(expected.logs)
    _check_readers(killed, request.getfixturevalue("spark"))  # started last: the drivers have one of their own


def _noisy(events: list[Event], seed: int) -> list[Event]:
    """Repeated and broken ones among them, and all out of order: within what counts as in time."""
    noisy = list(with_noise(events, NoiseRates(duplicates=0.05, bad=0.05), seed=seed, counts={}))
    dice = random.Random(seed)
    moments = [event.event_time_ms + dice.randrange(ALLOWED_MS) for event in noisy]
    return [noisy[place] for place in sorted(range(len(noisy)), key=moments.__getitem__)]


def _check_readers(pipeline: Pipeline, session: SparkSession) -> None:
    """Arrow, DuckDB and Spark read from the files what the store does."""
    for name, table in LOG_TABLES.items():
        folder = pipeline.folder / "store" / "logs" / name
        columns = [each for each in table.column_names if each != "day"]
        rows = [{each: row[each] for each in columns} for row in pipeline.rows(name)]
        if not rows:
            continue
        by_arrow = ds.dataset(folder, format="parquet", partitioning="hive").to_table(columns=columns).to_pylist()
        names = ", ".join(f'"{each}"' for each in columns)
        query = f"SELECT {names} FROM read_parquet('{folder}/*/*.parquet')"
        by_duckdb = duckdb.connect().sql(query).to_arrow_table().to_pylist()
        by_spark = [row.asDict() for row in session.read.parquet(str(folder)).select(*columns).collect()]
        assert _in_order(by_arrow) == _in_order(by_duckdb) == _in_order(by_spark) == _in_order(rows), name


def _run_once(pipeline: Pipeline) -> None:
    config = pipeline.folder / "once.toml"
    config.write_text(toml())
    driver = DriverProcess(pipeline.bootstrap, pipeline.folder, *JOBS, "--config", str(config), "--once")
    try:
        assert driver.wait() == 0, driver.log
    finally:
        driver.close()


def _in_order(rows: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
