"""The sparse offset index: from a batch's last offset to its position in the log file, 4 + 4 bytes an entry."""

from struct import Struct

from ottla.core.types import Offset
from ottla.storage.open_files import OpenFiles
from ottla.storage.sparse_index import SparseIndex

OFFSET_ENTRY = Struct(">ii")  # offset relative to the segment's base, position


class OffsetIndex(SparseIndex):
    """Maps to positions that a reader scans forward from; an entry every `index.interval.bytes` of log."""

    __slots__ = ()

    def __init__(
        self, path: str, *, base_offset: Offset, open_files: OpenFiles, file_bytes: int, index_bytes_max: int
    ) -> None:
        super().__init__(
            path,
            entry=OFFSET_ENTRY,
            base_offset=base_offset,
            open_files=open_files,
            file_bytes=file_bytes,
            index_bytes_max=index_bytes_max,
        )

    def append(self, offset: Offset, position: int) -> None:
        """The batch that ends with `offset` begins at `position`."""
        self._add(offset - self.base_offset, position)

    def lookup(self, offset: Offset) -> tuple[Offset, int]:
        """(offset, position) of the last entry at or below `offset`; the beginning of the segment without one."""
        slot = self._last_slot_at_or_below(offset - self.base_offset, 0)
        return self.entry_at(slot) if slot >= 0 else (self.base_offset, 0)

    def last_entry(self) -> tuple[Offset, int]:
        """(offset, position) of the last entry; the beginning of the segment without one."""
        return self.entry_at(self.entry_count - 1) if self.entry_count else (self.base_offset, 0)

    def entry_at(self, slot: int) -> tuple[Offset, int]:
        relative_offset, position = self._entry_at(slot)
        return self.base_offset + relative_offset, position

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries of all batches that end at or after `offset`."""
        self.keep_entries(self._last_slot_at_or_below(offset - self.base_offset - 1, 0) + 1)
