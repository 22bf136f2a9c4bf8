"""The pipeline wherever it runs: on Cassandra, on a Spark cluster, on Apache Kafka. The rows are those of one machine.

The reference is a run on this machine into an embedded store, which a plain reading of the topics proves.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop.cassandra_peer import CassandraPeer
from interop.kafka_peer import KafkaPeer
from interop.spark_cluster import SparkCluster
from ottla.pipeline.stores.cassandra.connecting import Connection, parse_address
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.tables import LOG_TABLES, TABLES
from ottla.pipeline.topics import TOPIC_NAMES
from ottla.pipeline.traffic.events import Event
from ottla.pipeline.traffic.generator import Settings as TrafficSettings
from ottla.pipeline.traffic.generator import Traffic
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import Pipeline, Row, check_tables, expected_balances, expected_of, noisy_events, toml
from tests.pipeline.test_detection_jobs import in_memory, without_times
from tests.processes import BrokerProcess

SEED = 21
JOBS = ("--jobs", "collect,income_and_tasks")
BOOKS = ("ledger", "balance", "task_progress", "task_step", "task_reward")
COMPARED = (*LOG_TABLES, *BOOKS, "late_event")


class Reference(NamedTuple):
    events: list[Event]
    broker: BrokerProcess
    pipeline: Pipeline


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    folder = tmp_path_factory.mktemp("places")
    broker = BrokerProcess(folder / "data").start()
    pipeline = Pipeline(broker.address, _folder(folder / "reference"))
    pipeline.make_topics()
    events = noisy_events(seed=SEED)
    pipeline.send(events)
    run_once(broker.address, pipeline.folder)
    expected = expected_of(pipeline.records(*TOPIC_NAMES))
    check_tables(pipeline, expected)
    balances = {row["account_id"]: row["balance"] for row in pipeline.rows("balance")}
    assert balances == expected_balances(expected.logs)
    yield Reference(events, broker, pipeline)
    broker.close()


def test_on_cassandra_by_the_command_line(reference: Reference, cassandra: CassandraPeer, tmp_path: Path) -> None:
    place = f"{cassandra.bootstrap}/pipeline"
    options = ("--store", "cassandra", "--cassandra", place)
    assert f"created {len(TABLES)} tables" in ottla("pipeline", "init-store", *options).stderr
    run_once(reference.broker.address, tmp_path, store=options)

    of_cassandra = open_store("cassandra", cassandra=place)
    embedded = EmbeddedStore(reference.pipeline.folder / "store")
    assert [each for each in of_cassandra.compare(embedded) if each.table in COMPARED] == []
    embedded.close()
    of_cassandra.close()
    for table in ("balance", "credit_log", "late_event"):
        shown = ottla("pipeline", "show", table, "--json", "--limit", "0", *options).stdout
        assert in_order(table, rows_shown(shown)) == reference.pipeline.rows(table)
    ottla("pipeline", "reconcile", *options)
    # Nothing new: the next run reads nothing, and one from the beginning changes nothing.
    run_once(reference.broker.address, _folder(tmp_path / "again"), store=options)
    counts = {row["table"]: row["rows"] for row in rows_shown(ottla("pipeline", "show", "--json", *options).stdout)}
    assert {name: counts[name] for name in COMPARED} == {name: len(reference.pipeline.rows(name)) for name in COMPARED}
    ottla("pipeline", "reconcile", *options)

    account_id = reference.pipeline.rows("balance")[0]["account_id"]
    connection = Connection(parse_address(place))
    connection.execute("UPDATE pipeline.balance SET balance = 123456 WHERE account_id = ?", [account_id])
    connection.close()
    found = ottla("pipeline", "reconcile", *options, exit_code=1)
    assert account_id in found.stdout + found.stderr


def test_on_a_spark_master_with_two_workers(reference: Reference, tmp_path: Path) -> None:
    cluster = SparkCluster(_folder(tmp_path / "cluster"))
    cluster.start()
    try:
        run_once(reference.broker.address, tmp_path, "--master", cluster.master)
        assert all(count > 0 for count in cluster.executors())
    finally:
        cluster.stop()
    assert_same(Pipeline(reference.broker.address, tmp_path), reference, COMPARED)


def test_a_cluster_whose_workers_lack_the_python_ends_the_run_with_the_first_failure(
    reference: Reference, tmp_path: Path
) -> None:
    cluster = SparkCluster(_folder(tmp_path / "cluster"))
    cluster.start()
    try:
        driver = DriverProcess(
            reference.broker.address,
            tmp_path,
            *("--once", "--master", cluster.master),
            environment={**os.environ, "PYSPARK_PYTHON": "/nonexistent/python"},
        )
        try:
            assert driver.wait() == 1, driver.log
        finally:
            driver.close()
    finally:
        cluster.stop()
    reason = "Spark can't start /nonexistent/python: No such file or directory"
    _, given_up, error = driver.log.splitlines()
    assert given_up == f"collect is given up, it would fail again: {reason}"
    assert error.startswith(f"Error: collect was given up: {reason}. ")
    assert all(job["restarts"] == 0 for job in driver.metrics().values())


def test_detectors_on_a_spark_cluster_with_cassandra(cassandra: CassandraPeer, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    cluster = SparkCluster(_folder(tmp_path / "cluster"))
    place = f"{cassandra.bootstrap}/detectors"
    options = ("--store", "cassandra", "--cassandra", place)
    events = list(Traffic(TrafficSettings(seed=5, accounts=250, days=2)).events())
    try:
        cluster.start()
        pipeline = Pipeline(broker.address, tmp_path)
        pipeline.make_topics()
        pipeline.send(events)
        ottla("pipeline", "init-store", *options)
        run_once(broker.address, tmp_path, "--master", cluster.master, store=options, jobs=())
        assert all(count > 0 for count in cluster.executors())
    finally:
        cluster.stop()
        broker.close()

    expected = in_memory(events)
    store = open_store("cassandra", cassandra=place)
    for table, alerts in zip(("device_alert", "invite_alert"), expected, strict=True):
        stored = [row for batch in store.scan(table) for row in batch.to_pylist()]
        assert alerts
        assert without_times(stored) == without_times(alerts), table
    store.close()
    alert = expected.invite_alerts[0]
    told = ottla("pipeline", "explain", alert["alert_id"], "--json", *options)
    assert json.loads(told.stdout)[0]["alert_id"] == alert["alert_id"]
    ottla("pipeline", "reconcile", *options)
    ottla("pipeline", "expire", "--execute", *options)


def test_on_apache_kafka(reference: Reference, tmp_path: Path, kafka_tools: None) -> None:
    with KafkaPeer(tmp_path / "kafka") as kafka:
        pipeline = Pipeline(kafka.bootstrap, tmp_path)
        pipeline.make_topics()
        pipeline.send(reference.events)
        run_once(kafka.bootstrap, tmp_path)
        check_tables(pipeline, expected_of(pipeline.records(*TOPIC_NAMES)))
        assert_same(pipeline, reference, (*LOG_TABLES, *BOOKS))


def assert_same(pipeline: Pipeline, reference: Reference, tables: Iterable[str]) -> None:
    for table in tables:
        assert pipeline.rows(table) == reference.pipeline.rows(table), table


def run_once(
    bootstrap: str, folder: Path, *arguments: str, store: Sequence[str] = (), jobs: Sequence[str] = JOBS
) -> None:
    config = folder / "pipeline.toml"
    config.write_text(toml(batches__max_events=1500))
    driver = DriverProcess(bootstrap, folder, *jobs, "--config", str(config), "--once", *arguments, store=store)
    try:
        assert driver.wait() == 0, driver.log
    finally:
        driver.close()


def ottla(*arguments: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == exit_code, ended.stderr
    return ended


def rows_shown(text: str) -> list[Row]:
    found: list[Row] = json.loads(text)
    return found


def in_order(table: str, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """As `Pipeline.rows` has them: wall-clock columns aside."""
    wall_clock = TABLES[table].wall_clock
    kept = [{name: value for name, value in row.items() if name not in wall_clock} for row in rows]
    return sorted(kept, key=lambda row: json.dumps(row, sort_keys=True))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
