"""A process of the demo: starts with its output in a file, and ends when we end."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.pipeline.demo.offspring import Offspring
from ottla.pipeline.demo.process_usage import Usage as Usage
from ottla.pipeline.demo.process_usage import usage_of_tree
from ottla.pipeline.demo.run_signals import signals_held

# The command `ottla`, which ends when we have ended, even if we are killed.
OTTLA: Final = (sys.executable, "-m", "ottla.pipeline.demo.launch")
_LOG_TAIL_LINES: Final = 15
_FIRST_WORD_S: Final = 0.5
_SECOND_WORD_S: Final = 15.0
# For the descendants of a process that has ended.
_FOLLOW_WITHIN_S: Final = 3.0


class ChildProcess:
    """Runs from `start` to `stop`, in a process group of its own, so that Ctrl-C reaches us first.

    All its descendants end with it, also those that have left its group or lost their parent.
    """

    def __init__(self, command: Sequence[str], *, log_path: Path, environment: Mapping[str, str] | None = None) -> None:
        """Without `environment` it has ours."""
        self.log_path = log_path
        self._offspring = Offspring()
        self._environment = self._offspring.environment(os.environ if environment is None else environment)
        self._is_hurried = False
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
        with self.log_path.open("wb") as log, signals_held():
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,  # ours as long as we run: see `launch`
                stdout=log,
                stderr=log,
                env=self._environment,
                process_group=0,
            )

    def ask_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, *, timeout_s: float) -> None:
        """Sends SIGTERM, and after the timeout SIGKILL to it and its descendants."""
        self.ask_to_stop()
        try:
            if self._process is not None:
                self._process.wait(timeout=timeout_s)
                self._offspring.wait(timeout_s=0 if self._is_hurried else _FOLLOW_WITHIN_S)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def end_now(self) -> None:
        """For a failed run: it need not finish its work, but should leave nothing behind."""
        self.ask_to_stop()
        try:
            if self._process is not None:
                self._process.wait(timeout=_FIRST_WORD_S)
        except subprocess.TimeoutExpired:
            pass
        # A second SIGTERM ends a run of jobs within its batch.
        self.stop(timeout_s=_SECOND_WORD_S)

    def kill(self) -> None:
        self._kill_group()
        if self._process is not None:
            self._process.wait()
        self._offspring.kill()

    def hurry(self) -> None:
        """For a signal handler: `stop` waits no longer."""
        self._is_hurried = True
        if self.is_running:
            self._kill_group()

    def _kill_group(self) -> None:
        # After its end another process may have its id. But where descendants can't be found, the group is all we know.
        if self._process is not None and (self.is_running or not self._offspring.can_be_found):
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # the group is empty; macOS says PermissionError if only zombies are left

    def log_lines(self) -> list[str]:
        try:
            return self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def log_tail(self) -> str:
        return "\n".join(self.log_lines()[-_LOG_TAIL_LINES:])

    def usage(self) -> Usage | None:
        """Of it and its descendants; None where the system does not say, or the process is gone."""
        return None if self._process is None else usage_of_tree(self._process.pid)
