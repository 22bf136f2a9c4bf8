"""Files and folders that are out of their log already and are removed later (`file.delete.delay.ms`).

What a crash leaves of them is finished by the next start, which knows them by their names.
"""

from heapq import heappop, heappush

from ottla.core.disk import Disk
from ottla.core.types import TimestampMs
from ottla.storage.log_dirs import DELETE_SUFFIX


class DelayedRemoval:
    """Ordered by when they are due. Owned by the log manager."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[TimestampMs, str, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, path: str, *, directory: str, due_ms: TimestampMs) -> None:
        """`directory` is the log directory whose disk has to do it."""
        heappush(self._heap, (due_ms, directory, path))

    def take_due(self, now_ms: TimestampMs) -> list[tuple[str, str]]:
        """(log directory, path) of everything whose delay is over."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            _, directory, path = heappop(self._heap)
            due.append((directory, path))
        return due


def remove_now(disk: Disk, path: str) -> None:
    """A file, or a partition's folder with all that is in it; either may be gone already."""
    try:
        if path.endswith(DELETE_SUFFIX):
            disk.remove_tree(path)
        else:
            disk.remove(path)
    except FileNotFoundError:
        pass
