"""What goes wrong around a run that is under way: it says so, waits, goes on, and no event is lost or there twice."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla import Admin
from ottla.pipeline.topics import CREDIT, TASK
from ottla.pipeline.traffic.events import Event
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import Pipeline, toml
from tests.processes import BrokerProcess, eventually

NOW_MS = 1_756_700_000_000
WITHIN_S = 600
JOBS = ("collect", "income_and_tasks")
DISK_BYTES = 24 << 20
RUNNING = ("--jobs", ",".join(JOBS), "--trigger", "100ms")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "data").start()
    yield broker
    broker.close()


class Run:
    """A driver that goes on until it is stopped, and the credits that were sent to it."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self.pipeline = Pipeline(broker.address, folder)
        self.sent: set[str] = set()
        config = folder / "pipeline.toml"
        config.write_text(toml())
        self.driver = DriverProcess(broker.address, folder, "--config", str(config), *RUNNING)

    def send(self, count: int = 20) -> None:
        ids = [f"credit-{len(self.sent) + number}" for number in range(count)]
        self.pipeline.send(_credit(event_id) for event_id in ids)
        self.sent.update(ids)

    def until_told(self, *words: str) -> None:
        """A line that has all of these words."""
        self._until(lambda: any(all(word in line for word in words) for line in self.driver.log.splitlines()))

    def until_read(self) -> None:
        """By both jobs: each event that was sent is new to the tables once."""
        self._until(lambda: self._written() == {"collect": len(self.sent), "income_and_tasks": len(self.sent)})

    def stop(self) -> None:
        """What was sent is in the tables, each once."""
        assert self.driver.stop() == 0, self.driver.log
        ids = [row["event_id"] for row in self.pipeline.rows("credit_log")]
        assert sorted(ids) == sorted(self.sent)
        assert sum(row["balance"] for row in self.pipeline.rows("balance")) == len(self.sent)

    def _written(self) -> dict[str, int]:
        metrics = self.driver.metrics()
        return {job: metrics.get(job, {}).get("rows_written", 0) for job in JOBS}

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline_s, f"it did not happen; read {self._written()}\n{self.driver.log}"
            time.sleep(0.05)


@pytest.fixture
def run(broker: BrokerProcess, tmp_path: Path) -> Iterator[Run]:
    run = Run(broker, tmp_path)
    yield run
    run.driver.close()


def test_topics_that_come_grow_and_are_made_anew_while_it_runs(run: Run, broker: BrokerProcess) -> None:
    run.until_told("these topics do not exist, they are read as soon as they are created", CREDIT.name, TASK.name)
    run.pipeline.make_topics(CREDIT.name, partitions=1)
    run.send()
    run.until_read()

    with Admin(bootstrap_servers=broker.address) as admin:
        admin.add_partitions({CREDIT.name: 3})
    run.send()
    run.until_read()

    with Admin(bootstrap_servers=broker.address) as admin:
        admin.delete_topics([CREDIT.name])
        eventually(lambda: CREDIT.name not in admin.list_topics())
    run.pipeline.make_topics(CREDIT.name, partitions=2)
    run.send(100)
    run.until_told("collect", "created again", CREDIT.name)
    run.until_read()
    run.stop()


def test_a_broker_that_goes_away_and_comes_back(run: Run, broker: BrokerProcess) -> None:
    run.pipeline.make_topics()
    run.send()
    run.until_read()
    broker.kill()
    run.until_told("collect failed and starts again", broker.address)
    broker.start()
    run.send()
    run.until_read()
    run.stop()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a small disk")
def test_a_disk_that_is_full_for_a_while(broker: BrokerProcess, tmp_path: Path) -> None:
    folders = [tmp_path / "store", tmp_path / "checkpoint"]
    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.enter_context(small_disk(folder))
        run = Run(broker, tmp_path)
        stack.callback(run.driver.close)
        run.pipeline.make_topics()
        run.send()
        run.until_read()
        for folder in folders:
            fill(folder / "filler")
        run.send()
        run.until_told("starts again", "no space left on the disk", "make room")
        for folder in folders:
            (folder / "filler").unlink()
        run.until_read()
        run.stop()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """To the last byte."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def _credit(event_id: str) -> Event:
    account_id = f"account-{hash(event_id) % 7}"
    value = {"event_id": event_id, "schema_version": 1, "event_time": NOW_MS, "account_id": account_id, "credit": 1}
    return Event(CREDIT.name, account_id, value, NOW_MS)
