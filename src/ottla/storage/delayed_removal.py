"""Files and folders that are out of their log already and are removed later (`file.delete.delay.ms`).

What a crash leaves of them is finished by the next start, which knows them by their names.
"""

from collections.abc import Iterable
from functools import partial
from heapq import heappop, heappush

from ottla.core.disk import Disk
from ottla.core.types import TimestampMs
from ottla.storage.log import Log
from ottla.storage.log_dirs import DELETE_SUFFIX
from ottla.storage.logs_by_dir import LogsByDir, directory_of


class DelayedRemoval:
    """Ordered by when they are due. Owned by the log manager."""

    __slots__ = ("_added", "_disk", "_heap", "_logs")

    def __init__(self, disk: Disk, logs: LogsByDir) -> None:
        self._disk = disk
        self._logs = logs
        self._added = 0
        # When it is due, its number in the order of coming, the log directory whose disk has to do it, path.
        self._heap: list[tuple[TimestampMs, int, str, str]] = []

    def add(self, log: Log, paths: Iterable[str], now_ms: TimestampMs) -> None:
        """These were the log's, or its folder."""
        directory = directory_of(log)
        due_ms = now_ms + log.config.file_delete_delay_ms
        for path in paths:
            self._added += 1
            heappush(self._heap, (due_ms, self._added, directory, path))

    def remove_due(self, now_ms: TimestampMs) -> None:
        """Remove those whose delay is over."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, directory, path = heappop(self._heap)
            if self._logs.is_online(directory):
                self._logs.run(directory, partial(_remove, self._disk, path))


def _remove(disk: Disk, path: str) -> None:
    """A file, or a partition's folder with all that is in it; either may be gone already."""
    try:
        if path.endswith(DELETE_SUFFIX):
            disk.remove_tree(path)
        else:
            disk.remove(path)
    except FileNotFoundError:
        pass
