"""Keeps a partition of the coordinator's topic small: live records are appended anew, and the log then begins there.

Stands in for compaction (decision 0005). The old records go only after the new ones are committed and fsynced, so a
crash at any point loses nothing: at worst a start loads both.
"""

from collections.abc import Callable
from typing import Generic

from ottla.coordinator.runtime.context import CoordinatorContext, ShardT
from ottla.coordinator.runtime.ports import NEVER, KeyValue, Outcome
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset

# Of one chunk: small enough that a loop turn with one is not felt.
_CHUNK_BYTES = 64 * 1024
_CHUNK_RECORDS = 500


class Rewriting(Generic[ShardT]):
    """One rewriting of one partition, a chunk for each turn of the loop."""

    __slots__ = ("_begin_bytes", "_begin_offset", "_call_soon", "_context", "_on_done", "_records", "written_bytes")

    _begin_offset: Offset

    def __init__(
        self,
        context: CoordinatorContext[ShardT],
        call_soon: Callable[[Callable[[], None]], object],
        on_done: "Callable[[Rewriting[ShardT], ErrorCode], None]",
    ) -> None:
        self._context = context
        self._call_soon = call_soon
        self._on_done = on_done
        self._records = context.shard.live_records()  # each value is taken when its turn comes
        self._begin_bytes = context.log_bytes
        self.written_bytes = 0

    @property
    def context(self) -> CoordinatorContext[ShardT]:
        return self._context

    @property
    def log_bytes(self) -> int:
        """What is in the log since the rewriting began: its own records, and what came in between."""
        return self._context.log_bytes - self._begin_bytes

    def start(self) -> None:
        log = self._context.log
        error_code = log.roll()
        if error_code:
            self._on_done(self, error_code)
            return
        self._begin_offset = log.end_offset
        self._context.when_drained(self._write_chunk)

    def _write_chunk(self) -> None:
        # Nothing is between its append and its replay now. Otherwise a value that is about to be replaced would be
        # written behind the one that replaces it, and come back with the next start.
        chunk = self._next_chunk()
        if chunk:
            self._context.append_now(Outcome(chunk, self._on_written, NEVER))
        else:
            log = self._context.log
            log.await_durable(log.end_offset, self._on_durable)

    def _next_chunk(self) -> list[KeyValue]:
        chunk: list[KeyValue] = []
        chunk_bytes = 0
        for key, value in self._records:
            chunk.append((key, value))
            chunk_bytes += len(key) + len(value or b"")
            if chunk_bytes >= _CHUNK_BYTES or len(chunk) >= _CHUNK_RECORDS:
                break
        self.written_bytes += chunk_bytes
        return chunk

    def _on_written(self, error_code: ErrorCode) -> None:
        if error_code:
            self._on_done(self, error_code)
        else:
            self._call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._context.is_unloaded:
            self._on_done(self, ErrorCode.NOT_COORDINATOR)
        else:
            self._context.when_drained(self._write_chunk)

    def _on_durable(self, error_code: ErrorCode) -> None:
        if self._context.is_unloaded:
            error_code = ErrorCode.NOT_COORDINATOR
        if not error_code:
            self._context.log.delete_before(self._begin_offset)
        self._on_done(self, error_code)
