"""Memory and processor time of a process with all that it has started, from /proc and from `ps`."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.pipeline.demo.process_usage import Usage, usage_by_proc, usage_by_ps

pytestmark = pytest.mark.process

HELD_BYTES = 60_000_000
FAMILY = f"""
import subprocess, sys
held = b"x" * {HELD_BYTES}
if len(sys.argv) > 1:
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
print("up", flush=True)
sys.stdin.read()
"""

LOOKS = [
    pytest.param(usage_by_proc, marks=pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")),
    usage_by_ps,
]
Look = Callable[[int], Usage | None]


@pytest.fixture
def family_pid() -> Iterator[int]:
    """A process and its child, each with so many bytes in memory."""
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY, FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


@pytest.mark.parametrize("look", LOOKS)
def test_a_process_counts_with_all_that_it_has_started(family_pid: int, look: Look) -> None:
    usage = look(family_pid)
    assert usage is not None
    assert 2 * HELD_BYTES < usage.resident_bytes < 4 * HELD_BYTES
    assert usage.cpu_seconds >= 0


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_known_of_a_process_that_is_gone(look: Look) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert look(done.pid) is None


def fake_ps(folder: Path, script: str) -> None:
    path = folder / "ps"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("time", "expected_s"), [("0:01.25", 1.25), ("61:01.50", 3661.5), ("01:02:03", 3723), ("2-01:00:00", 176_400)]
)
def test_processor_time_is_read_in_every_form_that_ps_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: str, expected_s: float
) -> None:
    fake_ps(tmp_path, f"echo '    1     0   500   9:99.99'; echo '   42     1  1024   {time}'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert usage_by_ps(42) == Usage(1024 * 1024, expected_s)


@pytest.mark.parametrize("script", ["echo 'ps: unknown option -- o' >&2; exit 1", "echo 'PID USER TIME'", "echo 42"])
def test_nothing_is_known_where_ps_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    fake_ps(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert usage_by_ps(os.getpid()) is None


def test_nothing_is_known_where_there_is_no_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert usage_by_ps(os.getpid()) is None
