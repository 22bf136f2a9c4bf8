"""Signals to `make bench`: the brokers that it has started end with it, whether they are up or not."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marked_processes import Marker
from tests.processes import eventually

pytestmark = pytest.mark.process

PATIENCE_S = 120.0
KILLED_WITHIN_S = 10.0  # one that was sent SIGKILL is there for a moment yet
ENDED_BY = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]

# In the place of a broker in Java: it takes long to start, has a child, and does not listen when it is asked to stop.
STAND_IN = """
import sys
from pathlib import Path
from bench.signals import ended_by_signals
from interop.broker_process import BrokerProcess

BROKER = '''
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").close()
time.sleep(600)
'''

class Slow(BrokerProcess):
    start_timeout_seconds = 600.0
    def command(self):
        return [sys.executable, "-c", BROKER, str(self.data_dir / "up")]

with ended_by_signals(), Slow(Path(sys.argv[1])):
    raise AssertionError("it does not answer")
"""


@pytest.fixture
def marker() -> Iterator[Marker]:
    marker = Marker()
    yield marker
    marker.kill_all()


def started(command: list[str], marker: Marker) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=marker.environment(), process_group=0
    )


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), ENDED_BY)
def test_a_broker_ends_with_the_benchmark(number: signal.Signals, code: int, tmp_path: Path, marker: Marker) -> None:
    command = [sys.executable, "-m", "bench", "--peers", "ottla", "--only", "start", "--work-dir", str(tmp_path)]
    bench = started(command, marker)
    eventually(lambda: any("serve" in each.command for each in marker.processes()), within_s=PATIENCE_S)
    bench.send_signal(number)
    output, errors = bench.communicate(timeout=PATIENCE_S)
    assert bench.returncode == code, output + errors
    assert "Traceback" not in errors
    eventually(lambda: marker.processes() == [], within_s=KILLED_WITHIN_S)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), ENDED_BY)
def test_a_broker_that_is_not_up_yet_is_killed_with_all_that_it_started(
    number: signal.Signals, code: int, tmp_path: Path, marker: Marker
) -> None:
    bench = started([sys.executable, "-c", STAND_IN, str(tmp_path / "data")], marker)
    eventually((tmp_path / "data" / "up").exists, within_s=PATIENCE_S)
    bench.send_signal(number)
    output, errors = bench.communicate(timeout=PATIENCE_S)
    assert bench.returncode == code, output + errors
    assert "Traceback" not in errors
    eventually(lambda: marker.processes() == [], within_s=KILLED_WITHIN_S)
