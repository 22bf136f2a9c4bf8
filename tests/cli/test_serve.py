"""`ottla serve` as a process: its ready file says where it accepts, and is there only when it does."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import eventually

pytestmark = pytest.mark.process

SERVE = [sys.executable, "-m", "ottla.cli.main", "serve"]


def serve(tmp_path: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [*SERVE, "--data-dir", str(tmp_path / "data"), "--ready-file", str(tmp_path / "ready"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stale_ready_file(tmp_path: Path) -> Path:
    ready = tmp_path / "ready"
    ready.write_text("127.0.0.1:1\n", encoding="utf-8")
    return ready


def test_the_ready_file_of_a_killed_broker_is_replaced_whole(tmp_path: Path) -> None:
    ready = stale_ready_file(tmp_path)
    with serve(tmp_path, "--listen", "127.0.0.1:0") as broker:
        try:
            eventually(lambda: ready.exists() and ready.read_text(encoding="utf-8") != "127.0.0.1:1\n")
            host, _, port = ready.read_text(encoding="utf-8").strip().partition(":")
            socket.create_connection((host, int(port)), timeout=30).close()
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.communicate(timeout=60)
    assert broker.returncode == 0
    assert os.listdir(tmp_path) == ["data"]  # a broker that was stopped is not ready any more


def test_a_broker_whose_port_is_taken_leaves_no_ready_file(tmp_path: Path) -> None:
    ready = stale_ready_file(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        broker = serve(tmp_path, "--listen", f"127.0.0.1:{other.getsockname()[1]}")
        _, errors = broker.communicate(timeout=60)
    assert broker.returncode == 1
    assert "Traceback" not in errors
    assert not ready.exists()


def test_a_broker_with_a_wrong_setting_leaves_no_ready_file(tmp_path: Path) -> None:
    ready = stale_ready_file(tmp_path)
    broker = serve(tmp_path, "--override", "num.partitions=none")
    broker.communicate(timeout=60)
    assert broker.returncode == 2
    assert not ready.exists()


@pytest.mark.parametrize("in_the_way", ["folder", "file"])
def test_a_ready_file_that_can_not_be_written_is_said_in_a_line(in_the_way: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "nowhere" / "ready" if in_the_way == "folder" else tmp_path / "file" / "ready"
    broker = serve(tmp_path, "--listen", "127.0.0.1:0", "--ready-file", str(path))
    output, errors = broker.communicate(timeout=60)
    assert broker.returncode == 1
    assert output == ""
    assert errors.count("\n") == 1
    assert str(path) in errors
