"""CPU time and memory of a process and its descendants: from /proc where it exists, else from `ps`, if there is one.

Reads only. Decides at import which of both.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_PS: Final = ("ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "rss=", "-o", "time=")
_PS_PATIENCE_S: Final = 5


class Usage(NamedTuple):
    """What processes have used since their start."""

    resident_bytes: int
    cpu_seconds: float

    def plus(self, other: "Usage") -> "Usage":
        return Usage(self.resident_bytes + other.resident_bytes, self.cpu_seconds + other.cpu_seconds)


def usage_by_proc(pid: int) -> Usage | None:
    """None when the process is gone."""
    ours = _of_process(pid)
    if ours is None:
        return None
    for descendant in _descendants(pid):
        theirs = _of_process(descendant)
        if theirs is not None:
            ours = ours.plus(theirs)
    return ours


def _of_process(pid: int) -> Usage | None:
    folder = _PROC / str(pid)
    try:
        resident, shared = (int(each) for each in (folder / "statm").read_text().split()[1:3])
        # The name in brackets may hold spaces; the fields begin after it.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    # The parent's counters include children that have ended.
    ticks = sum(int(each) for each in fields[11:15])
    # Without mapped files, such as libraries, which all of Spark's workers share.
    return Usage((resident - shared) * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        try:
            tasks = list((_PROC / str(waiting.pop()) / "task").iterdir())
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


def usage_by_ps(pid: int) -> Usage | None:
    """None if the process is gone, or if we don't understand this `ps`. Shared pages count for each process."""
    try:
        listed = subprocess.run(
            _PS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PS_PATIENCE_S,
            check=False,
            env={**os.environ, "LC_ALL": "C"},  # seconds with a point
        ).stdout
        rows = [line.split() for line in listed.splitlines()]
        processes = {int(row[0]): (int(row[1]), Usage(int(row[2]) * 1024, _seconds(row[3]))) for row in rows}
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return None
    if pid not in processes:
        return None
    children: dict[int, list[int]] = {}
    for each, (parent, _) in processes.items():
        children.setdefault(parent, []).append(each)
    total = Usage(0, 0.0)
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        total = total.plus(processes[each][1])
        waiting += children.get(each, ())
    return total


def _seconds(text: str) -> float:
    """Of `[[days-]hours:]minutes:seconds`; macOS gives hundredths too."""
    days, _, time = text.rpartition("-")
    seconds = 86_400.0 * int(days or 0)
    for place, part in enumerate(reversed(time.split(":"))):
        seconds += float(part) * 60**place
    return seconds


def _has_proc() -> bool:
    return _of_process(os.getpid()) is not None


usage_of_tree: Final[Callable[[int], Usage | None]] = usage_by_proc if _has_proc() else usage_by_ps
