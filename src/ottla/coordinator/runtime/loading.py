"""Builds a shard from its partition's log: slices are found on the loop, read and replayed on a thread.

The shard belongs to the thread until `on_loaded`. A batch or record that can't be read is left out and logged; nothing
else is lost by it.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.coordinator.runtime.ports import DamagedRecord, PartitionLog, Shard
from ottla.core.clock import Background
from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset
from ottla.records.errors import CorruptBatch
from ottla.records.header import HEADER_BYTES, LOG_OVERHEAD_BYTES, read_header
from ottla.records.read import read_batch

_LOG = logging.getLogger("ottla.coordinator")


class Loaded(NamedTuple):
    """The result of a load."""

    record_count: int = 0
    damaged_count: int = 0  # batches and single records that were left out
    log_bytes: int = 0
    live_bytes: int = 0  # of the records that are still live; counted only where asked for


class _Slice(NamedTuple):
    next_offset: Offset
    record_count: int
    damaged_count: int


class Loading:
    """One load of one partition. Made and used on the loop; after `cancel` it does not call back."""

    __slots__ = (
        "_background",
        "_buffer_bytes",
        "_damaged_count",
        "_end_offset",
        "_is_cancelled",
        "_live_bytes_above",
        "_log",
        "_log_bytes",
        "_name",
        "_offset",
        "_on_loaded",
        "_record_count",
        "_shard",
        "_start_offset",
    )

    def __init__(
        self,
        name: str,
        shard: Shard,
        log: PartitionLog,
        background: Background,
        *,
        buffer_bytes: int,
        live_bytes_above: int,
        on_loaded: Callable[[Loaded | ErrorCode], None],
    ) -> None:
        self._name = name
        self._shard = shard
        self._log = log
        self._background = background
        self._buffer_bytes = buffer_bytes
        self._live_bytes_above = live_bytes_above  # a log that is larger has its live records counted
        self._on_loaded = on_loaded
        # To the end and not only to the high watermark: what we lead is ours, and will be committed.
        self._end_offset = log.end_offset
        self._start_offset = self._offset = log.start_offset
        self._record_count = 0
        self._damaged_count = 0
        self._log_bytes = 0
        self._is_cancelled = False

    def cancel(self) -> None:
        """The partition is unloaded, or loaded anew: the shard is not needed any more."""
        self._is_cancelled = True

    def step(self) -> None:
        """Read on from where the last slice ended."""
        if self._is_cancelled:
            return
        while self._offset < self._end_offset:
            found = self._log.read(self._offset, max_bytes=self._buffer_bytes)
            if isinstance(found, FileSlice):
                self._log_bytes += found.length
                self._background.submit(lambda: self._replay(found), self._on_replayed)  # noqa: B023 - run once
                return
            if found != ErrorCode.CORRUPT_MESSAGE:
                self._on_loaded(found)
                return
            self._skip_segment()
        if self._log_bytes > self._live_bytes_above:
            self._background.submit(self._count_live_bytes, self._on_counted)
        else:
            self._finish(0)

    def _skip_segment(self) -> None:
        next_offset = self._log.next_segment_offset(self._offset)
        _LOG.error(
            "%s: nothing can be read from offset %d on; records up to offset %d are lost, the rest is loaded",
            self._name,
            self._offset,
            next_offset,
        )
        self._damaged_count += 1
        self._offset = next_offset

    # On a thread

    def _replay(self, found: FileSlice) -> _Slice:
        data = found.file.pread(found.length, found.position)
        offset = self._offset
        position = 0
        record_count = damaged_count = 0
        while position + HEADER_BYTES <= len(data):
            header = read_header(data, position)
            size_bytes = LOG_OVERHEAD_BYTES + header.batch_length
            if size_bytes < HEADER_BYTES or not offset < header.next_offset <= self._end_offset:
                break  # lengths or offsets that can't be: the next read begins here and says what to do
            if position + size_bytes > len(data):
                break
            try:
                _, records = read_batch(data, position)
            except CorruptBatch as error:
                damaged_count += 1
                _LOG.error("%s: the batch at offset %d is left out: %s", self._name, header.base_offset, error)
                records = []
            for record in () if header.is_control else records:
                if record.offset < self._start_offset:
                    continue
                try:
                    if record.key is None:
                        raise DamagedRecord("it has no key")
                    self._shard.replay(record.key, record.value)
                    record_count += 1
                except DamagedRecord as error:
                    damaged_count += 1
                    _LOG.error("%s: the record at offset %d is left out: %s", self._name, record.offset, error)
            offset = header.next_offset
            position += size_bytes
        return _Slice(offset, record_count, damaged_count)

    def _count_live_bytes(self) -> int:
        return sum(len(key) + len(value or b"") for key, value in self._shard.live_records())

    # Back on the loop

    def _on_replayed(self, result: Any, error: BaseException | None) -> None:
        if error is not None:
            if not isinstance(error, OSError):
                raise error
            _LOG.error("%s: can't be loaded: %s", self._name, error)
            if not self._is_cancelled:
                self._on_loaded(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        replayed: _Slice = result
        self._record_count += replayed.record_count
        self._damaged_count += replayed.damaged_count
        if replayed.next_offset > self._offset:
            self._offset = replayed.next_offset
        elif not self._is_cancelled:
            self._skip_segment()
        self.step()

    def _on_counted(self, live_bytes: Any, error: BaseException | None) -> None:
        if error is not None:
            raise error
        if not self._is_cancelled:
            self._finish(live_bytes)

    def _finish(self, live_bytes: int) -> None:
        self._on_loaded(Loaded(self._record_count, self._damaged_count, self._log_bytes, live_bytes))
