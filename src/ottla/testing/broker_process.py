"""`ottla serve` as a child of the test's process: starts, stops or kills it, and keeps its log in a file."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

_START_TIMEOUT_S: Final = 30
_STOP_TIMEOUT_S: Final = 30
_LOG_TAIL_LINES: Final = 40


class BrokerStartFailed(Exception):
    """The broker did not start; the message has the end of its log."""


class BrokerDied(Exception):
    """The broker ended without being asked to."""


class BrokerProcess:
    """One start of a broker, which begins at its creation.

    In a process group of its own, so that Ctrl-C reaches the tests first.
    """

    def __init__(
        self, *, data_dir: Path, log_path: Path, port: int, config: Mapping[str, str], metrics: bool, log_level: str
    ) -> None:
        command = [sys.executable, "-P", "-m", "ottla.testing.launch", "serve"]
        command += ["--data-dir", str(data_dir), "--listen", f"127.0.0.1:{port}", "--log-level", log_level]
        if metrics:
            command += ["--metrics-listen", "127.0.0.1:0"]
        for name, value in config.items():
            command += ["--override", f"{name}={value}"]
        self._log_path = log_path
        self._is_ended_by_us = False
        started_at = time.monotonic()
        with log_path.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                text=True,
                process_group=0,
            )
        self._started_at = started_at
        self.ready_ms = 0.0
        self.broker_id = -1
        self.cluster_id = ""
        self.port = port
        self.metrics_url: str | None = None
        self._gives_metrics = metrics

    def wait_until_ready(self) -> None:
        """Returns when it accepts connections; BrokerStartFailed if it never will."""
        deadline = self._started_at + _START_TIMEOUT_S
        # ottla: broker 0 of cluster x listens on 127.0.0.1:1234
        words = self._next_line(deadline, expected="listens on ").split()
        self.ready_ms = (time.monotonic() - self._started_at) * 1000
        self.broker_id = int(words[2])
        self.cluster_id = words[5]
        self.port = int(words[-1].rpartition(":")[2])
        if self._gives_metrics:
            self.metrics_url = self._next_line(deadline, expected="metrics on ").split()[-1]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Like a crash: it can write nothing more."""
        self._end(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def check_alive(self) -> None:
        """BrokerDied if it ended by itself."""
        code = self._process.poll()
        if code is not None and not self._is_ended_by_us:
            raise BrokerDied(f"the broker ended by itself with code {code}; its log ends with\n{self.log_tail()}")

    def log_tail(self, lines: int = _LOG_TAIL_LINES) -> str:
        text = self._log_path.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        if process.poll() is None:
            self._is_ended_by_us = True
            process.send_signal(number)
            if number != signal.SIGKILL:
                process.send_signal(signal.SIGCONT)  # one that was paused would not hear it
        try:
            code = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerDied(
                f"the broker did not stop within {_STOP_TIMEOUT_S} s and was killed; its log ends with\n"
                + self.log_tail()
            ) from None
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        return code

    def _next_line(self, deadline: float, *, expected: str) -> str:
        line = _read_line(self._process.stdout, deadline)
        if expected not in line:
            self._end(signal.SIGKILL)
            said = f" and said {line.strip()!r}" if line.strip() else ""
            raise BrokerStartFailed(f"the broker did not start{said}; its log ends with\n{self.log_tail()}")
        return line


def _read_line(stream: IO[str] | None, deadline: float) -> str:
    assert stream is not None
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        byte = os.read(stream.fileno(), 1)  # two short lines in a whole life; none is kept in a buffer of ours
        if not byte:
            break
        line += byte
    return line.decode("utf-8", errors="replace")


def _environment() -> dict[str, str]:
    """Our environment, but with cached compiled modules: a broker that compiles itself at each start is slow."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
