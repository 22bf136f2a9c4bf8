"""`ottla perf`: its report on a real broker, not its figures."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.cli.main import main
from tests.processes import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("perf") / "data", "group.initial.rebalance.delay.ms=0").start()
    yield running
    running.close()


def perf(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli.main", "perf", arguments[0], "-b", broker.address, *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.process
def test_what_is_sent_is_read(broker: BrokerProcess) -> None:
    sent = perf(broker, "produce", "-t", "load", "--records", "5000", "--record-size", "50", "-z", "lz4", "--json")
    assert sent.returncode == 0, sent.stderr
    report = json.loads(sent.stdout)
    assert (report["records"], report["failed"]) == (5_000, 0)
    assert 0 < report["latency_p50_ms"] <= report["latency_p99_ms"] <= report["latency_max_ms"]
    read = perf(broker, "consume", "-t", "load", "--records", "5000")
    assert read.returncode == 0, read.stderr
    assert "5,000" in read.stdout


@pytest.mark.process
def test_a_rate_is_held_and_too_few_records_are_a_failure(broker: BrokerProcess) -> None:
    sent = perf(broker, "produce", "-t", "slow", "-n", "50", "--throughput", "200", "--json")
    assert json.loads(sent.stdout)["records_per_second"] <= 220
    read = perf(broker, "consume", "-t", "slow", "-n", "60", "--timeout-ms", "300", "--json")
    assert read.returncode == 1
    assert "50 records came, 60 were asked for" in read.stderr


@pytest.mark.process
def test_tables_are_sent_and_read_with_any_setting(broker: BrokerProcess) -> None:
    settings = ["-X", "compression.type=zstd", "-X", "max.request.size=2000000"]
    sent = perf(broker, "produce", "-t", "tables", "-n", "30000", "--arrow", *settings, "--json")
    assert sent.returncode == 0, sent.stderr
    assert json.loads(sent.stdout)["records"] == 30_000
    read = perf(broker, "consume", "-t", "tables", "-n", "30000", "--arrow", "-X", "check.crcs=false", "--json")
    assert read.returncode == 0, read.stderr
    report = json.loads(read.stdout)
    assert report["records"] == 30_000
    assert 0 < report["poll_p50_ms"] <= report["poll_p99_ms"] <= report["poll_max_ms"]
    group = perf(broker, "consume", "-t", "tables", "-n", "30000", "-g", "perf", "--json")
    assert json.loads(group.stdout)["join_seconds"] > 0


def test_wrong_settings_are_wrong_usage() -> None:
    assert main(["perf", "consume", "-t", "t", "-n", "1", "-X", "max.poll.record=1", "-b", "127.0.0.1:1"]) == 2
    assert main(["perf", "produce", "-t", "t", "-n", "1", "-a", "2", "-b", "127.0.0.1:1"]) == 2
