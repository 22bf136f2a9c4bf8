"""The sparse time index: the largest timestamp so far and the offset it was seen at, 8 + 4 bytes an entry."""

from itertools import pairwise
from struct import Struct

from ottla.core.types import NO_TIMESTAMP_MS, Offset, TimestampMs
from ottla.storage.open_files import OpenFiles
from ottla.storage.sparse_index import SparseIndex

TIME_ENTRY = Struct(">qi")  # timestamp, offset relative to the segment's base


class TimeIndex(SparseIndex):
    """Timestamps and offsets both grow from entry to entry; its last entry is the segment's largest timestamp."""

    __slots__ = ("_last",)

    def __init__(
        self, path: str, *, base_offset: Offset, open_files: OpenFiles, file_bytes: int, index_bytes_max: int
    ) -> None:
        super().__init__(
            path,
            entry=TIME_ENTRY,
            base_offset=base_offset,
            open_files=open_files,
            file_bytes=file_bytes,
            index_bytes_max=index_bytes_max,
        )
        self._last: tuple[TimestampMs, Offset] | None = None  # not read yet

    def make_room(self) -> None:
        super().make_room()
        self.last_entry()  # read now, if ever, since the append that follows must not fail

    def maybe_append(self, timestamp_ms: TimestampMs, offset: Offset) -> None:
        """Add an entry if the timestamp is larger than the last one's."""
        if timestamp_ms > self.last_entry()[0]:
            self._add(timestamp_ms, offset - self.base_offset)
            self._last = (timestamp_ms, offset)

    def last_entry(self) -> tuple[TimestampMs, Offset]:
        """(timestamp, offset) of the last entry; no timestamp at the base offset without one."""
        last = self._last
        if last is None:
            last = self._last = self.entry_at(self.entry_count - 1)
        return last

    def lookup(self, timestamp_ms: TimestampMs) -> tuple[TimestampMs, Offset]:
        """(timestamp, offset) of the last entry at or below `timestamp_ms`; the segment's beginning without one."""
        return self.entry_at(self._last_slot_at_or_below(timestamp_ms, 0))

    def entry_at(self, slot: int) -> tuple[TimestampMs, Offset]:
        if slot < 0:
            return NO_TIMESTAMP_MS, self.base_offset
        timestamp_ms, relative_offset = self._entry_at(slot)
        return timestamp_ms, self.base_offset + relative_offset

    def looks_ordered(self) -> bool:
        """Whether a few entries from all over the file grow as they must; a lookup confirms the one it uses."""
        last = self.entry_count - 1
        slots = sorted({0, last // 4, last // 2, last * 3 // 4, max(last - 1, 0), last})
        entries = [self.entry_at(slot) for slot in slots]
        return all(low[0] < high[0] and low[1] < high[1] for low, high in pairwise(entries))

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries whose offset is `offset` or above."""
        self.keep_entries(self._last_slot_at_or_below(offset - self.base_offset - 1, 1) + 1)

    def keep_entries(self, count: int) -> None:
        super().keep_entries(count)
        self._last = None

    def clear(self) -> None:
        super().clear()
        self._last = None
