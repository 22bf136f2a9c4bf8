"""`make run` in small: all that was sent comes back, and nothing is left running."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

DEMO = [sys.executable, "-m", "ottla.pipeline.demo", "--accounts", "40"]


def processes_with(text: str) -> list[str]:
    """Command lines that hold `text`, by /proc."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in command:
                found.append(command)
    return found


def test_a_run_ends_by_itself_with_everything_read_back(tmp_path: Path) -> None:
    data_dir = tmp_path / "run"
    command = [*DEMO, "--seconds", "1", "--data-dir", str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all equal" in done.stdout
    assert "DIFFERS" not in done.stdout
    assert "listens" not in done.stdout
    assert done.stderr == ""
    assert (data_dir / "ml_login_log-3").is_dir()
    assert not processes_with(str(data_dir))


def test_an_interrupt_ends_it_with_a_summary_so_far(tmp_path: Path) -> None:
    data_dir = tmp_path / "run"
    command = [*DEMO, "--forever", "--data-dir", str(data_dir)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "sent" in line:
                break
        # As a terminal does: to the whole group, the reader included.
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "all equal" in output
    assert errors == ""
    assert not processes_with(str(data_dir))


def test_a_broker_that_can_not_start_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    command = [*DEMO, "--data-dir", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "the broker did not start" in done.stderr
