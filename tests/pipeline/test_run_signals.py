"""Signals to `ottla pipeline run` on a terminal while Spark starts: nothing that it has started is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.marked_processes import Marker
from tests.processes import BrokerProcess, eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.spark]

PATIENCE_S = 300.0
KILLED_WITHIN_S = 10.0  # one that was sent SIGKILL is there for a moment yet


class Run:
    """One run with a temporary folder of its own."""

    def __init__(self, bootstrap: str, folder: Path, marker: Marker) -> None:
        self.marker = marker
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self._spark_log = folder / "store" / "checkpoint" / "spark.log"
        command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", "--bootstrap", bootstrap]
        self.process = subprocess.Popen(
            [*command, "--store-path", str(folder / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=marker.environment({**os.environ, "TMPDIR": str(self.temporary)}),
            process_group=0,
        )

    def launches_java(self) -> bool:
        return self._spark_log.exists()

    def has_java(self) -> bool:
        return bool(self.marker.processes("java"))

    def left(self) -> list[str]:
        """But for the Java that pip installs, whose folder is a cache."""
        return [file.name for file in self.temporary.iterdir() if not file.name.startswith("ottla-java-")]


@pytest.fixture
def marker() -> Iterator[Marker]:
    marker = Marker()
    yield marker
    marker.kill_all()


@pytest.mark.parametrize("stage", [Run.launches_java, Run.has_java])
@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ([signal.SIGINT], 130),
        ([signal.SIGINT, signal.SIGINT], 130),
        ([signal.SIGTERM], 0),
        ([signal.SIGHUP], 0),
    ],
)
def test_a_signal_while_spark_starts_leaves_nothing(
    stage: Callable[[Run], bool],
    numbers: list[signal.Signals],
    code: int,
    shared_broker: BrokerProcess,
    tmp_path: Path,
    marker: Marker,
) -> None:
    run = Run(shared_broker.address, tmp_path, marker)
    eventually(lambda: stage(run), within_s=PATIENCE_S)
    for number in numbers:
        os.killpg(run.process.pid, number)  # as a terminal does: to the whole group
        try:
            run.process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
    printed = "".join(run.process.communicate(timeout=PATIENCE_S))
    assert run.process.returncode == code, printed
    assert "Traceback" not in printed
    eventually(lambda: marker.processes() == [], within_s=KILLED_WITHIN_S)
    assert run.left() == []


def test_the_folder_of_a_killed_run_is_removed_by_the_next(
    shared_broker: BrokerProcess, tmp_path: Path, marker: Marker
) -> None:
    killed = Run(shared_broker.address, tmp_path, marker)
    eventually(killed.has_java, within_s=PATIENCE_S)
    killed.process.kill()
    killed.process.communicate(timeout=PATIENCE_S)
    eventually(lambda: marker.processes() == [], within_s=PATIENCE_S)
    left = [name for name in killed.left() if name.startswith("ottla-spark-")]
    assert left
    command = [sys.executable, "-c", "from ottla.spark import spark_session; spark_session('local[1]')"]
    subprocess.run(command, env={**os.environ, "TMPDIR": str(killed.temporary)}, check=True, timeout=PATIENCE_S)
    assert [name for name in killed.left() if name.startswith("ottla-spark-")] == []
