"""A bounded cache of open files, shared by all logs of a broker.

Thousands of idle partitions hold no descriptors: a file is opened when it is used and evicted when it was not used for
long. Eviction drops the reference; any holder of the file (a slice on its way to a socket, an fsync on a thread)
keeps it open, as the disk port promises for reading and `AppendFile` does for writing.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeVar
from zlib import crc32

from ottla.core.disk import AppendFile, Disk, ReadFile
from ottla.core.types import TopicPartition

_SEARCH_CACHES_MAX = 512
_STRIPES = 4

_Item = TypeVar("_Item")


class IndexSearchCache:
    """What is remembered of an index between searches: how some of its blocks begin, and the block read last.

    So a search in a long index costs no more reads than in a short one, and a reader that goes through a log finds
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

    __slots__ = ("_appending", "_kind_max", "_reading", "_search_caches", "disk")

    def __init__(self, disk: Disk, *, files_max: int = 2000) -> None:
        self.disk = disk
        self._kind_max = max(files_max // 2, 1)
        self._reading: OrderedDict[str, ReadFile] = OrderedDict()
        self._appending: OrderedDict[str, AppendFile] = OrderedDict()
        self._search_caches: dict[str, IndexSearchCache] = {}

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

    def evict_all(self) -> None:
        """The process has no descriptor left: keep no unused file open.

        May be called from any thread that opens a file: calls that the owner is in continue with the file they have.
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
        self._search_caches.pop(path, None)

    def search_cache_of(self, path: str) -> IndexSearchCache:
        """The notes of earlier searches in an index; a few KB each, all forgotten when they are too many."""
        searched = self._search_caches.get(path)
        if searched is None:
            if len(self._search_caches) >= _SEARCH_CACHES_MAX:
                self._search_caches.clear()
            searched = self._search_caches[path] = IndexSearchCache()
        return searched

    def forget_search_cache(self, path: str) -> None:
        """The index was truncated or rebuilt."""
        self._search_caches.pop(path, None)


class StripedOpenFiles:
    """The caches of a broker: each partition has its files in one of a few stripes, which one thread uses at a time.

    So logs of different stripes are loaded and closed side by side; the rest of the time all belong to the event loop.
    Owned by the log manager.
    """

    __slots__ = ("_stripes",)

    def __init__(self, disk: Disk, *, files_max: int) -> None:
        self._stripes = [OpenFiles(disk, files_max=files_max // _STRIPES) for _ in range(_STRIPES)]

    def of(self, topic_partition: TopicPartition) -> OpenFiles:
        return self._stripes[_stripe_number(topic_partition)]

    def split(
        self, items: Iterable[_Item], topic_partition_of: Callable[[_Item], TopicPartition]
    ) -> list[tuple[OpenFiles, list[_Item]]]:
        """What concerns each stripe, in the order it came."""
        stripes: list[tuple[OpenFiles, list[_Item]]] = [(stripe, []) for stripe in self._stripes]
        for item in items:
            stripes[_stripe_number(topic_partition_of(item))][1].append(item)
        return stripes

    def evict_all(self) -> None:
        """As `OpenFiles.evict_all`; from any thread."""
        for stripe in self._stripes:
            stripe.evict_all()


def _stripe_number(topic_partition: TopicPartition) -> int:
    return crc32(str(topic_partition).encode()) % _STRIPES
