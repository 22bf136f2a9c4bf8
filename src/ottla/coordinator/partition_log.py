"""The port to a partition of the coordinator's topic: what the runtime needs of a replicated log, and nothing more."""

from collections.abc import Callable
from typing import Protocol

from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset


class PartitionLog(Protocol):
    """One partition that this broker leads; event loop only. The broker implements it on its replicas."""

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def committed_offset(self) -> Offset:
        """What lies below is on all in-sync replicas."""
        ...

    def append(self, batch: bytearray) -> ErrorCode:
        """Add a batch at the end; with an error nothing was written."""
        ...

    def await_commit(self, offset: Offset, on_done: Callable[[ErrorCode], None]) -> None:
        """Call back when everything below `offset` is committed, or when it never will be here."""
        ...

    def read(self, offset: Offset, *, max_bytes: int) -> FileSlice | ErrorCode:
        """From the batch that holds `offset` on, committed or not; at least one batch, the last may be cut."""
        ...

    def next_segment_offset(self, offset: Offset) -> Offset:
        """Where the segment after that of `offset` begins, or the log's end: the way around what can't be read."""
        ...

    # For the rewriting

    def roll(self) -> ErrorCode:
        """Begin a new segment, so that the ones before can go as a whole."""
        ...

    def await_durable(self, offset: Offset, on_done: Callable[[ErrorCode], None]) -> None:
        """Have everything below `offset` fsynced."""
        ...

    def delete_before(self, offset: Offset) -> None:
        """Move the start of the log up, and let the segments go that lie wholly below."""
        ...
