"""A broker of this machine in a process of its own: started on a free port, watched, and gone when we are."""

import ctypes
import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

_START_TIMEOUT_S: Final = 30
_STOP_TIMEOUT_S: Final = 15
_LOG_TAIL_LINES: Final = 15
_PR_SET_PDEATHSIG: Final = 1


class BrokerStartFailed(Exception):
    """The broker did not come up; the end of its log is in the message."""


class Usage(NamedTuple):
    """What a process has used so far."""

    resident_bytes: int
    cpu_seconds: float


class LocalBroker:
    """Running from `start` to `stop`. In a process group of its own, so that Ctrl-C reaches us first."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.log_path = data_dir.with_name(data_dir.name + ".log")
        self.address = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ottla.cli.main", "serve"]
        command += ["--data-dir", str(self.data_dir), "--listen", "127.0.0.1:0"]
        libc = ctypes.CDLL(None)
        with self.log_path.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
                # Even if we are killed outright, the broker is told to stop.
                preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
            )
        line = self._first_line()
        if "listens on " not in line:
            self.stop()
            raise BrokerStartFailed(f"the broker did not start: {line.strip()}\n{self.log_tail()}")
        self.address = line.strip().rsplit("listens on ", 1)[1]

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not heard."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def log_tail(self) -> str:
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])

    def usage(self) -> Usage | None:
        """From /proc; None where there is none or the process is gone."""
        assert self._process is not None
        folder = Path("/proc") / str(self._process.pid)
        try:
            pages = int((folder / "statm").read_text().split()[1])
            # The name in brackets may hold spaces; what counts begins behind it.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, IndexError):
            return None
        ticks = int(fields[11]) + int(fields[12])
        return Usage(pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))

    def _first_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(_START_TIMEOUT_S):
                return f"no word within {_START_TIMEOUT_S} s"
        return self._process.stdout.readline()
