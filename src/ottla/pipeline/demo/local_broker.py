"""The demo's broker: a process of this machine on a free port, with its data and its log in the run's folder."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.pipeline.demo.child import OTTLA, ChildProcess

_START_TIMEOUT_S: Final = 60
_STOP_TIMEOUT_S: Final = 15


class StartFailed(Exception):
    """A process of the demo did not start; the message has the end of its log."""


class LocalBroker:
    """Runs from `start` to `stop`."""

    def __init__(self, run_dir: Path) -> None:
        self.data_dir = run_dir / "broker"
        self.address = ""
        self._ready_file = run_dir / "broker.ready"
        command = [*OTTLA, "serve", "--data-dir", str(self.data_dir)]
        command += ["--listen", "127.0.0.1:0", "--ready-file", str(self._ready_file)]
        self.process = ChildProcess(command, log_path=run_dir / "broker.log")

    @property
    def is_running(self) -> bool:
        return self.process.is_running

    def start(self, went_on: Callable[[], None]) -> None:
        """`went_on` is called while it waits."""
        self._ready_file.unlink(missing_ok=True)  # of an earlier run in this folder, that was killed
        self.process.start()
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not self._ready_file.exists():
            if not self.process.is_running or time.monotonic() > deadline_s:
                self.stop()
                raise StartFailed(f"the broker did not start; the end of its log:\n{self.process.log_tail()}")
            time.sleep(0.02)
            went_on()
        self.address = self._ready_file.read_text(encoding="utf-8").strip()

    def stop(self) -> None:
        self.process.stop(timeout_s=_STOP_TIMEOUT_S)
