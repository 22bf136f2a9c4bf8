"""Processes of the demo: stopped when asked, ended when they do not listen, with their last words at hand."""

import sys
from pathlib import Path

import pytest

from ottla.pipeline.demo.child import ChildProcess
from tests.processes import eventually, is_running

pytestmark = pytest.mark.process

DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


# As Spark's Python workers do, and daemons: out of the group, and its parent is gone.
LEAVING_OTHERS = """
import subprocess, sys
sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
middle = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], start_new_session=True).pid, flush=True)"
subprocess.run([sys.executable, "-c", middle, *sleeping])
"""


def started(tmp_path: Path, code: str) -> ChildProcess:
    child = ChildProcess([sys.executable, "-c", code], log_path=tmp_path / "log")
    child.start()
    eventually(lambda: bool(child.log_lines()), within_s=60)
    return child


def test_a_process_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    child = started(tmp_path, "import time; print('up', flush=True); time.sleep(600)")
    assert child.is_running
    assert child.usage() is not None
    child.stop(timeout_s=60)
    assert not child.is_running
    assert child.exit_code == -15


def test_one_that_does_not_listen_is_killed_with_those_it_has_started(tmp_path: Path) -> None:
    child = started(tmp_path, DEAF)
    grandchild_pid = int(child.log_tail())
    assert is_running(grandchild_pid)
    child.stop(timeout_s=0.1)
    assert child.exit_code == -9
    eventually(lambda: not is_running(grandchild_pid), within_s=60)


def test_those_that_left_the_group_and_lost_their_parent_end_with_it(tmp_path: Path) -> None:
    child = started(tmp_path, LEAVING_OTHERS)
    other = Path("/proc") / child.log_tail()
    eventually(lambda: not child.is_running, within_s=60)
    assert other.exists()
    child.kill()
    eventually(lambda: not other.exists() or "Z" in (other / "stat").read_text().split(), within_s=60)


def test_its_log_tells_how_it_ended(tmp_path: Path) -> None:
    child = started(tmp_path, "raise SystemExit('no room on the disk')")
    eventually(lambda: not child.is_running, within_s=60)
    assert child.exit_code == 1
    assert child.log_tail() == "no room on the disk"
