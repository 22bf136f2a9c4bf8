"""The transaction index: which transactions were aborted within a segment, 34 bytes an entry, as Kafka writes it.

The file exists only for segments that hold the end of an aborted transaction.
"""

from struct import Struct
from typing import NamedTuple

from ottla.core.types import Offset, ProducerId
from ottla.storage.open_files import OpenFiles

ABORTED_ENTRY = Struct(">hqqqq")  # version, producer id, first offset, last offset, last stable offset
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction: its records lie from `first_offset` to its marker at `last_offset`."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset  # as it was when the transaction was aborted


class TransactionIndex:
    """One index file, or none as long as nothing was aborted; owned by its segment."""

    __slots__ = ("_open_files", "path", "size_bytes")

    def __init__(self, path: str, *, open_files: OpenFiles, file_bytes: int) -> None:
        self.path = path
        self._open_files = open_files
        self.size_bytes = file_bytes

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry; last offsets grow."""
        self._open_files.append_file(self.path).append(ABORTED_ENTRY.pack(_VERSION, *aborted))
        self.size_bytes += ABORTED_ENTRY.size

    def entries(self) -> list[AbortedTransaction]:
        if not self.size_bytes:
            return []
        data = self._open_files.read_file(self.path).pread(self.size_bytes, 0)
        whole = len(data) - len(data) % ABORTED_ENTRY.size
        return [AbortedTransaction(*fields[1:]) for fields in ABORTED_ENTRY.iter_unpack(data[:whole])]

    def collect(self, first_offset: Offset, *, end_offset: Offset) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions in [first_offset, end_offset), and whether later segments can't add any."""
        found = []
        for aborted in self.entries():
            if aborted.last_offset >= first_offset and aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: Offset) -> None:
        """Drop the transactions that ended at `offset` or after it."""
        kept = sum(1 for aborted in self.entries() if aborted.last_offset < offset)
        if kept * ABORTED_ENTRY.size < self.size_bytes:
            self._open_files.append_file(self.path).truncate(kept * ABORTED_ENTRY.size)
            self.size_bytes = kept * ABORTED_ENTRY.size

    def clear(self) -> None:
        if self.size_bytes:
            self._open_files.append_file(self.path).truncate(0)
            self.size_bytes = 0
