"""A bounded cache of open files, shared by all logs of a broker.

Thousands of idle partitions hold no descriptors: a file is opened when it is used and let go when it was not used for
long. Letting go is dropping the reference; whoever still holds the file (a slice on its way to a socket, an fsync on a
thread) keeps it open, as the disk port promises for reading and `AppendFile` does for writing.
"""

from collections import OrderedDict

from ottla.core.disk import AppendFile, Disk, ReadFile

_SEARCHED_INDEXES_MAX = 512


class SearchedIndex:
    """What is remembered of an index between searches: how some of its blocks begin, and the block read last.

    So a search in a long index costs no more reads than in a short one, and who reads a log from front to back finds
    its next entry without any.
    """

    __slots__ = ("block_starts", "entries", "first_slot", "last_slot")

    def __init__(self) -> None:
        self.block_starts: dict[int, tuple[int, ...]] = {}  # block number -> its first entry
        self.entries = b""  # of the block read last
        self.first_slot = 0
        self.last_slot = -1


class OpenFiles:
    """Least recently used goes first; reading and appending are counted apart, each up to half of `files_max`."""

    __slots__ = ("_appending", "_kind_max", "_reading", "_searched", "disk")

    def __init__(self, disk: Disk, *, files_max: int = 2000) -> None:
        self.disk = disk
        self._kind_max = max(files_max // 2, 1)
        self._reading: OrderedDict[str, ReadFile] = OrderedDict()
        self._appending: OrderedDict[str, AppendFile] = OrderedDict()
        self._searched: dict[str, SearchedIndex] = {}

    def __len__(self) -> int:
        return len(self._reading) + len(self._appending)

    def read_file(self, path: str) -> ReadFile:
        """The file, open for reading; OSError when it can't be opened."""
        reading = self._reading
        file = reading.get(path)
        if file is not None:
            reading.move_to_end(path)
            return file
        file = self.disk.open_read(path)
        reading = self._reading  # another one, if there was no descriptor left
        reading[path] = file
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
        file = self.disk.open_append(path)
        appending = self._appending  # as above
        appending[path] = file
        if len(appending) > self._kind_max:
            appending.popitem(last=False)
        return file

    def let_go_of_all(self) -> None:
        """The process has no descriptor left: keep no file open that nobody is using.

        May be called from any thread that opens a file: the owner's own calls go on with what they found.
        """
        self._reading = OrderedDict()
        self._appending = OrderedDict()

    def forget_appending(self, path: str) -> None:
        """Nothing is appended to the file any more."""
        self._appending.pop(path, None)

    def forget(self, path: str) -> None:
        """The name is about to stand for another file, or for none."""
        self._reading.pop(path, None)
        self._appending.pop(path, None)
        self._searched.pop(path, None)

    def searched_index(self, path: str) -> SearchedIndex:
        """The notes of earlier searches in an index; a few KB each, all forgotten when they are too many."""
        searched = self._searched.get(path)
        if searched is None:
            if len(self._searched) >= _SEARCHED_INDEXES_MAX:
                self._searched.clear()
            searched = self._searched[path] = SearchedIndex()
        return searched

    def forget_searched(self, path: str) -> None:
        """The index was cut or made anew."""
        self._searched.pop(path, None)
