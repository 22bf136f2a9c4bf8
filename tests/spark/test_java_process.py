"""Spark's Java process ends with the one that has started it, whenever that is interrupted."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.marked_processes import MarkedProcess, Marker
from tests.processes import eventually

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import sys
from ottla.spark import spark_session
spark_session("local[1]", work_dir=sys.argv[1])
print("up", flush=True)
sys.stdin.read()
"""
PATIENCE_S = 300.0
KILLED_WITHIN_S = 10.0  # one that was sent SIGKILL is there for a moment yet


@pytest.fixture
def marker() -> Iterator[Marker]:
    marker = Marker()
    yield marker
    marker.kill_all()


class Driver:
    """A process that starts Spark and keeps it until its input ends."""

    def __init__(self, folder: Path, marker: Marker) -> None:
        self.marker = marker
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.marker.environment(),
        )

    def is_launching(self) -> bool:
        """The launcher's shell runs, which becomes Java."""
        return (self.folder / "spark.log").exists()

    def has_launcher(self) -> bool:
        """The Java that works out the command line of Spark's."""
        return bool(self._java())

    def has_java(self) -> bool:
        return any("SparkSubmit" in each.command and "launcher.Main" not in each.command for each in self._java())

    def _java(self) -> list[MarkedProcess]:
        return self.marker.processes("java")


@pytest.mark.parametrize("stage", [Driver.is_launching, Driver.has_launcher, Driver.has_java])
def test_an_interrupt_while_java_starts_takes_java_along(
    stage: Callable[[Driver], bool], tmp_path: Path, marker: Marker
) -> None:
    driver = Driver(tmp_path, marker)
    eventually(lambda: stage(driver), within_s=PATIENCE_S)
    driver.process.send_signal(signal.SIGINT)
    _, errors = driver.process.communicate(timeout=PATIENCE_S)
    assert driver.process.returncode != 0, errors
    eventually(lambda: marker.processes() == [], within_s=KILLED_WITHIN_S)


def test_java_is_gone_when_the_process_that_started_it_is(tmp_path: Path, marker: Marker) -> None:
    driver = Driver(tmp_path, marker)
    assert driver.process.stdout is not None
    assert driver.process.stdout.readline() == "up\n"
    driver.process.communicate(timeout=PATIENCE_S)
    assert driver.process.returncode == 0
    eventually(lambda: marker.processes() == [], within_s=KILLED_WITHIN_S)


def test_java_goes_by_itself_when_the_process_that_started_it_is_killed(tmp_path: Path, marker: Marker) -> None:
    driver = Driver(tmp_path, marker)
    eventually(lambda: driver.has_java(), within_s=PATIENCE_S)
    driver.process.kill()
    driver.process.communicate(timeout=PATIENCE_S)
    eventually(lambda: marker.processes() == [], within_s=PATIENCE_S)
