"""A process of the demo: started with its output in a file, watched, stopped, and gone when we are."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_LOG_TAIL_LINES: Final = 15
_PR_SET_PDEATHSIG: Final = 1
_FIRST_WORD_S: Final = 0.5
_SECOND_WORD_S: Final = 15.0


class Usage(NamedTuple):
    """What processes have used so far."""

    resident_bytes: int
    cpu_seconds: float


class ChildProcess:
    """Running from `start` to `stop`. In a process group of its own, so that Ctrl-C reaches us first."""

    def __init__(self, command: Sequence[str], *, log_path: Path, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is ours if none is given."""
        self.log_path = log_path
        self._environment = environment
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        libc = ctypes.CDLL(None)
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                process_group=0,
                # Even if we are killed outright, it is told to stop.
                preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
            )

    def ask_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, *, timeout_s: float) -> None:
        """SIGTERM, and SIGKILL to all of its group if that is not heard."""
        self.ask_to_stop()
        process = self._process
        if process is None:
            return
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def end_now(self) -> None:
        """For when the run has failed: it need not finish what it is at, but should leave nothing lying about."""
        self.ask_to_stop()
        try:
            if self._process is not None:
                self._process.wait(timeout=_FIRST_WORD_S)
        except subprocess.TimeoutExpired:
            # A second SIGTERM ends a run of jobs within its batch.
            self.stop(timeout_s=_SECOND_WORD_S)

    def kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def log_lines(self) -> list[str]:
        try:
            return self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def log_tail(self) -> str:
        return "\n".join(self.log_lines()[-_LOG_TAIL_LINES:])

    def usage(self) -> Usage | None:
        """Of it and all that it has started, from /proc; None where there is none or the process is gone."""
        if self._process is None:
            return None
        ours = _of_process(self._process.pid)
        if ours is None:
            return None
        for pid in _descendants(self._process.pid):
            theirs = _of_process(pid)
            if theirs is not None:
                ours = Usage(ours.resident_bytes + theirs.resident_bytes, ours.cpu_seconds + theirs.cpu_seconds)
        return ours


def _of_process(pid: int) -> Usage | None:
    folder = Path("/proc") / str(pid)
    try:
        resident, shared = (int(each) for each in (folder / "statm").read_text().split()[1:3])
        # The name in brackets may hold spaces; what counts begins behind it.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except (OSError, IndexError):
        return None
    # Children that have ended are counted with their parent.
    ticks = sum(int(each) for each in fields[11:15])
    # Files that are mapped, such as libraries, are shared by all of Spark's workers: left out.
    return Usage((resident - shared) * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        try:
            tasks = list((Path("/proc") / str(waiting.pop()) / "task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                children = [int(each) for each in (task / "children").read_text().split()]
            except OSError:
                continue
            found += children
            waiting += children
    return found
