"""What the processes of a Spark driver use, by kind: the driver itself, the JVM that it started, its Python workers."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

DRIVER = "driver"
JVM = "JVM"
WORKERS = "workers"
BROKER = "broker"
KINDS = (DRIVER, JVM, WORKERS)


class _Process(NamedTuple):
    pid: int
    name: str
    own_cpu_s: float
    ended_children_cpu_s: float
    resident_bytes: int


def cpu_seconds(driver_pid: int) -> Mapping[str, float]:
    """Workers that have ended count too: with whoever started them, which is the JVM or another worker."""
    used = dict.fromkeys(KINDS, 0.0)
    for kind, process in _by_kind(driver_pid):
        used[kind] += process.own_cpu_s
        used[WORKERS] += process.ended_children_cpu_s if kind != DRIVER else 0.0
    return used


def resident_bytes(driver_pid: int) -> Mapping[str, int]:
    """Without files that are mapped, such as libraries: all workers share them."""
    used = dict.fromkeys(KINDS, 0)
    for kind, process in _by_kind(driver_pid):
        used[kind] += process.resident_bytes
    return used


def _by_kind(driver_pid: int) -> Iterator[tuple[str, _Process]]:
    waiting = [driver_pid]
    while waiting:
        pid = waiting.pop()
        process = _look(pid)
        if process is None:
            continue
        waiting += _children(pid)
        kind = DRIVER if pid == driver_pid else JVM if process.name == "java" else WORKERS
        yield kind, process


def _look(pid: int) -> _Process | None:
    """None for a process that has just ended."""
    folder = Path("/proc") / str(pid)
    try:
        resident, shared = (int(each) for each in (folder / "statm").read_text().split()[1:3])
        name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    ticks = os.sysconf("SC_CLK_TCK")
    own, children = (sum(map(int, fields[first : first + 2])) / ticks for first in (11, 13))
    return _Process(pid, name, own, children, (resident - shared) * os.sysconf("SC_PAGE_SIZE"))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in (Path("/proc") / str(pid) / "task").iterdir():
            found += [int(each) for each in (task / "children").read_text().split()]
    except OSError:
        pass  # it ended meanwhile, or one of its threads did
    return found
