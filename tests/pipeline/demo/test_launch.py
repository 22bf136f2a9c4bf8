"""What the demo has started ends when the demo is killed, on systems without Linux's parent-death signal too."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.pipeline.demo.child import OTTLA
from tests.processes import eventually, is_running

pytestmark = pytest.mark.process

AS_IT_IS = [sys.executable, "-m", "tests.pipeline.demo.short_lived_parent"]
WITHOUT_LINUX = [sys.executable, "-m", "tests.without_linux", "tests.pipeline.demo.short_lived_parent"]


@contextmanager
def killed_at_end(command: list[str]) -> Iterator[tuple[list[int], int]]:
    """The processes that it has started, and what they hold in memory."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        *pids, resident_bytes = map(int, parent.stdout.readline().split())
        try:
            yield pids, resident_bytes
        finally:
            parent.kill()
            parent.wait()


@pytest.mark.parametrize("command", [AS_IT_IS, WITHOUT_LINUX])
def test_a_broker_stops_cleanly_when_the_demo_is_killed(tmp_path: Path, command: list[str]) -> None:
    with killed_at_end([*command, "broker", str(tmp_path)]) as ((pid,), resident_bytes):
        assert is_running(pid)
        assert resident_bytes > 1_000_000
    eventually(lambda: not is_running(pid), within_s=60)
    assert (tmp_path / "broker" / ".kafka_cleanshutdown").exists()


def test_one_that_does_not_listen_is_ended_by_force_with_those_it_has_started(tmp_path: Path) -> None:
    with killed_at_end([*WITHOUT_LINUX, "deaf", str(tmp_path)]) as (pids, _):
        assert [is_running(pid) for pid in pids] == [True, True]
    eventually(lambda: not any(map(is_running, pids)), within_s=60)


def test_it_ends_with_its_parent_also_before_it_is_up(tmp_path: Path) -> None:
    reading_end, writing_end = os.pipe()
    command = [*OTTLA, "serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    launched = subprocess.Popen(command, stdin=reading_end, process_group=0)
    os.close(reading_end)
    os.close(writing_end)
    assert launched.wait(timeout=60) in (0, -signal.SIGTERM)
