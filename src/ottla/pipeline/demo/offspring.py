"""Finds all descendants of a process, even if they have lost their parent: by an environment variable, which processes
inherit. Without /proc it finds nothing.
"""

import os
import secrets
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_VARIABLE: Final = "OTTLA_DEMO_PROCESS"
_LOOK_EVERY_S: Final = 0.02
# Those that are killed may just be starting others.
_ROUNDS_MAX: Final = 50


class Offspring:
    """Of one process, itself included, that starts in `environment`."""

    def __init__(self) -> None:
        self._entry = f"{_VARIABLE}={secrets.token_hex(16)}"

    @property
    def can_be_found(self) -> bool:
        return (_PROC / "self" / "environ").exists()

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        name, _, value = self._entry.partition("=")
        return {**base, name: value}

    def pids(self) -> list[int]:
        """Of running processes; one that has ended has no environment any more."""
        entry = self._entry.encode()
        found = []
        for folder in _PROC.glob("[0-9]*"):
            try:
                if entry in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue  # of another user, or it has just ended
        return found

    def wait(self, *, timeout_s: float) -> bool:
        """Whether all of them ended in time."""
        deadline_s = time.monotonic() + timeout_s
        while self.pids():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True

    def kill(self) -> None:
        for _ in range(_ROUNDS_MAX):
            pids = self.pids()
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue  # it has just ended
            time.sleep(_LOOK_EVERY_S)
