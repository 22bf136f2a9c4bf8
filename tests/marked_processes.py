"""Everything that a command has started, however deep: found by a variable that processes inherit, in /proc."""

import os
import secrets
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_NAME: Final = "OTTLA_TEST_MARKER"


class MarkedProcess(NamedTuple):
    pid: int
    name: str
    command: str


class Marker:
    """Give a command `environment`; what it started and is still there is in `processes`."""

    def __init__(self) -> None:
        self._value = secrets.token_hex(8)

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**(os.environ if base is None else base), _NAME: self._value}

    def processes(self, name: str | None = None) -> list[MarkedProcess]:
        """All that run, or those of one name; one that has ended and is not waited for yet has no environment."""
        wanted = f"{_NAME}={self._value}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            try:
                if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                    continue
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(MarkedProcess(int(folder.name), (folder / "comm").read_text().strip(), command))
            except OSError:
                continue  # it has just ended
        return [each for each in found if name is None or each.name == name]

    def kill_all(self) -> None:
        """For the end of a test that has failed."""
        for process in self.processes():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has just ended
