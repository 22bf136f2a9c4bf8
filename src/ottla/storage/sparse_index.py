"""What the offset index and the time index share: fixed-size entries in growing order, in a file next to a segment.

Entries are searched in the file by `pread`, so an index costs no memory however long it is. New entries are gathered
and written some at a time: only the active segment gets any, and its indexes are rebuilt after an unclean stop.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from ottla.core.types import Offset
from ottla.storage.open_files import IndexSearchCache, OpenFiles

_PENDING_ENTRIES_MAX = 128
_SEARCH_BLOCK_ENTRIES = 512


class IndexCorrupt(Exception):
    """An index that contradicts its log; it is rebuilt from the log."""


class SparseIndex:
    """One index file; owned by its segment."""

    __slots__ = (
        "_entry",
        "_file_entries",
        "_open_files",
        "_pending",
        "base_offset",
        "entries_max",
        "entry_count",
        "path",
    )

    def __init__(
        self,
        path: str,
        *,
        entry: Struct,
        base_offset: Offset,
        open_files: OpenFiles,
        file_bytes: int,
        index_bytes_max: int,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self._entry = entry
        self._open_files = open_files
        self._file_entries = file_bytes // entry.size
        self._pending = bytearray()
        self.entry_count = self._file_entries
        self.entries_max = index_bytes_max // entry.size

    @property
    def is_full(self) -> bool:
        return self.entry_count >= self.entries_max

    @property
    def size_bytes(self) -> int:
        return self.entry_count * self._entry.size

    def make_room(self) -> None:
        """Write what was gathered once it is enough: before an append, so that a failure leaves all as it was."""
        if len(self._pending) >= _PENDING_ENTRIES_MAX * self._entry.size:
            self.write_out()

    def write_out(self) -> None:
        """Bring the gathered entries into the file (OSError: they stay gathered)."""
        pending = self._pending
        if pending:
            self._open_files.append_file(self.path).append(bytes(pending))
            self._file_entries = self.entry_count
            pending.clear()

    def keep_entries(self, count: int) -> None:
        """Drop all entries but the first `count`."""
        size = self._entry.size
        if count >= self.entry_count:
            return
        self._open_files.forget_search_cache(self.path)
        if count >= self._file_entries:
            del self._pending[(count - self._file_entries) * size :]
        else:
            self._pending.clear()
            self._open_files.append_file(self.path).truncate(count * size)
            self._file_entries = count
        self.entry_count = count

    def clear(self) -> None:
        """Empty the file too, whatever odd bytes are in it."""
        self._open_files.forget_search_cache(self.path)
        self._pending.clear()
        self._open_files.append_file(self.path).truncate(0)
        self._file_entries = self.entry_count = 0

    def _add(self, first: int, second: int) -> None:
        self._pending += self._entry.pack(first, second)
        self.entry_count += 1

    def _entry_at(self, slot: int) -> tuple[int, int]:
        entry = self._entry
        size = entry.size
        if slot >= self._file_entries:
            first, second = entry.unpack_from(self._pending, (slot - self._file_entries) * size)
            return first, second
        searched = self._open_files.search_cache_of(self.path)
        if searched.first_slot <= slot <= searched.last_slot:
            first, second = entry.unpack_from(searched.entries, (slot - searched.first_slot) * size)
            return first, second
        data = self._open_files.read_file(self.path).pread(size, slot * size)
        if len(data) != size:
            raise IndexCorrupt(f"{self.path}: entry {slot} of {self.entry_count} is missing")
        first, second = entry.unpack(data)
        return first, second

    def _last_slot_at_or_below(self, key: int, field: int) -> int:
        """The last slot whose field number `field` is at most `key`; -1 when there is none."""
        entry = self._entry
        size = entry.size
        unpack_from = entry.unpack_from
        in_file = self._file_entries
        pending = self._pending
        if pending and unpack_from(pending, 0)[field] <= key:
            return in_file + _search_block(unpack_from, size, pending, len(pending) // size, key, field)
        if not in_file:
            return -1
        searched = self._open_files.search_cache_of(self.path)
        entries = searched.entries
        if entries and unpack_from(entries, 0)[field] <= key < unpack_from(entries, len(entries) - size)[field]:
            return searched.first_slot + _search_block(unpack_from, size, entries, len(entries) // size, key, field)
        # Which block: the last one that begins at or below the key. The first entry of a block is read only once.
        low, high = 0, (in_file + _SEARCH_BLOCK_ENTRIES - 1) // _SEARCH_BLOCK_ENTRIES
        while high - low > 1:
            middle = (low + high) // 2
            if self._start_of_block(searched, middle)[field] <= key:
                low = middle
            else:
                high = middle
        first_slot = low * _SEARCH_BLOCK_ENTRIES
        count = min(_SEARCH_BLOCK_ENTRIES, in_file - first_slot)
        entries = self._open_files.read_file(self.path).pread(count * size, first_slot * size)
        if len(entries) != count * size:
            raise IndexCorrupt(f"{self.path}: ends at {first_slot * size + len(entries)}, {in_file * size} expected")
        searched.entries = entries
        searched.first_slot = first_slot
        searched.last_slot = first_slot + count - 1
        return first_slot + _search_block(unpack_from, size, entries, count, key, field)

    def _start_of_block(self, searched: IndexSearchCache, block: int) -> tuple[int, ...]:
        start = searched.block_starts.get(block)
        if start is None:
            size = self._entry.size
            data = self._open_files.read_file(self.path).pread(size, block * _SEARCH_BLOCK_ENTRIES * size)
            if len(data) != size:
                raise IndexCorrupt(f"{self.path}: entry {block * _SEARCH_BLOCK_ENTRIES} is missing")
            start = searched.block_starts[block] = self._entry.unpack(data)
        return start


def _search_block(
    unpack_from: Callable[..., tuple[Any, ...]], size: int, block: bytes | bytearray, count: int, key: int, field: int
) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if unpack_from(block, middle * size)[field] <= key:
            low = middle + 1
        else:
            high = middle
    return low - 1
