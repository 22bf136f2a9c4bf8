"""`make run` and `ottla pipeline run` where nothing can be written: one line that says so, and exit code 1."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

DEMO = [sys.executable, "-m", "ottla.pipeline.demo", "--accounts", "60", "--seconds", "2"]
PATIENCE_S = 120


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL
    )


def check_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert all(word in line for word in words), line


def test_data_that_is_a_file_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    check_one_line(run_in(tmp_path, *DEMO), "FAILED  data: Not a directory")


def test_data_that_can_not_be_written_to_is_said_in_one_line(tmp_path: Path) -> None:
    # Not even root makes folders there.
    (tmp_path / "data").symlink_to("/proc")
    check_one_line(run_in(tmp_path, *DEMO), "FAILED  data/run-")


def test_a_run_folder_that_is_a_file_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    check_one_line(run_in(tmp_path, *DEMO, "--run-dir", "run"), "FAILED  run: ")


def test_a_full_disk_is_said_before_anything_is_started(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a disk needs root and unshare")
    script = 'mount -t tmpfs -o size=64k tmpfs . && cd "$PWD" && exec "$@"'
    done = run_in(tmp_path, "unshare", "-m", "sh", "-c", script, "sh", *DEMO)
    check_one_line(done, "FAILED  data/run-", "0 MiB are free on its disk, and a run needs 64 MiB")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--store-path", "--checkpoint", "--metrics-json"])
def test_a_run_of_jobs_says_in_one_line_what_it_can_not_write(
    shared_broker: BrokerProcess, tmp_path: Path, option: str
) -> None:
    options = {"--store-path": "store", option: "/proc/nothing"}
    given = [part for pair in options.items() for part in pair]
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "pipeline",
        "run",
        "--bootstrap",
        shared_broker.address,
        "--once",
    ]
    done = run_in(tmp_path, *command, *given)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("Error: "))
    assert error == done.stderr.splitlines()[-1]
    assert "/proc/" in error
    assert "[Errno" not in error
