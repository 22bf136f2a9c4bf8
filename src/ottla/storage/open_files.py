"""A bounded cache of open files, shared by all logs of a broker.

Thousands of idle partitions hold no descriptors: a file is opened when it is used and let go when it was not used for
long. Letting go is dropping the reference; whoever still holds the file (a slice on its way to a socket, an fsync on a
thread) keeps it open, as the disk port promises for reading and `AppendFile` does for writing.
"""

from collections import OrderedDict

from ottla.core.disk import AppendFile, Disk, ReadFile

_INDEX_BLOCKS_MAX = 512


class IndexBlocks:
    """The block of each index that was searched last: who reads a log from front to back finds its next entry there.

    A few KB each; when there are too many, all are forgotten and read again.
    """

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[int, int, bytes]] = {}

    def get(self, path: str) -> tuple[int, int, bytes] | None:
        """(first slot, slot after the last, the entries)."""
        return self._blocks.get(path)

    def put(self, path: str, first_slot: int, end_slot: int, entries: bytes) -> None:
        if len(self._blocks) >= _INDEX_BLOCKS_MAX:
            self._blocks.clear()
        self._blocks[path] = (first_slot, end_slot, entries)

    def forget(self, path: str) -> None:
        """The index was cut or made anew."""
        self._blocks.pop(path, None)


class OpenFiles:
    """Least recently used goes first; reading and appending are counted apart, each up to half of `files_max`."""

    __slots__ = ("_appending", "_kind_max", "_reading", "disk", "index_blocks")

    def __init__(self, disk: Disk, *, files_max: int = 2000) -> None:
        self.disk = disk
        self._kind_max = max(files_max // 2, 1)
        self._reading: OrderedDict[str, ReadFile] = OrderedDict()
        self._appending: OrderedDict[str, AppendFile] = OrderedDict()
        self.index_blocks = IndexBlocks()

    def __len__(self) -> int:
        return len(self._reading) + len(self._appending)

    def read_file(self, path: str) -> ReadFile:
        """The file, open for reading; OSError when it can't be opened."""
        reading = self._reading
        file = reading.get(path)
        if file is not None:
            reading.move_to_end(path)
            return file
        file = reading[path] = self.disk.open_read(path)
        if len(reading) > self._kind_max:
            reading.popitem(last=False)
        return file

    def append_file(self, path: str) -> AppendFile:
        """The file, open for appending, created when missing; OSError when it can't be opened."""
        appending = self._appending
        file = appending.get(path)
        if file is not None:
            appending.move_to_end(path)
            return file
        file = appending[path] = self.disk.open_append(path)
        if len(appending) > self._kind_max:
            appending.popitem(last=False)
        return file

    def forget_appending(self, path: str) -> None:
        """Nothing is appended to the file any more."""
        self._appending.pop(path, None)

    def forget(self, path: str) -> None:
        """The name is about to stand for another file, or for none."""
        self._reading.pop(path, None)
        self._appending.pop(path, None)
        self.index_blocks.forget(path)
