"""A batch: its records, its sequence, its outcome, and the callbacks that wait for it.

Any thread fills it under the accumulator's lock; once taken for sending it belongs to the client loop alone. A batch
that was too large is replaced by its parts.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.clients.producer.errors import report_exception
from ottla.clients.producer.handle import NO_OFFSET
from ottla.core.types import NO_PRODUCER_ID, NO_TIMESTAMP_MS, Buffer, Offset, ProducerEpoch, ProducerId, TimestampMs
from ottla.records.appender import FULL, BatchAppender
from ottla.records.header import HEADER_BYTES, NO_PRODUCER_EPOCH, NO_SEQUENCE, add_to_sequence
from ottla.records.read import read_batch

if TYPE_CHECKING:
    from ottla.clients.producer.queues import PartitionQueue

NOT_TAKEN: Final = 0
# The orders between two batches are for the parts of the first: each adds the index of its first record.
ORDER_STEP: Final = 1 << 31


_NO_RECORDS: Final = BatchAppender(0)


class ProducerBatch:
    """Records of one partition that are sent, stored and acknowledged together."""

    __slots__ = (
        "_callbacks",
        "_error",
        "_event",
        "_final_size",
        "_parts",
        "_parts_left",
        "_record_errors",
        "_when_done",
        "append",
        "append_time_ms",
        "appender",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_ms",
        "data",
        "is_done",
        "is_transactional",
        "lock",
        "not_before_ms",
        "order",
        "producer_epoch",
        "producer_id",
        "queue",
        "reserved_bytes",
        "whole",
    )

    def __init__(
        self,
        queue: "PartitionQueue",
        lock: threading.Lock,
        *,
        created_ms: int,
        reserved_bytes: int,
        is_transactional: bool = False,
        appender: BatchAppender | None = None,
    ) -> None:
        self.queue = queue
        self.appender = BatchAppender(reserved_bytes) if appender is None else appender
        self.append = self.appender.append  # bound once, called for each record
        self.reserved_bytes = reserved_bytes
        self.created_ms = created_ms
        self.is_transactional = is_transactional
        # For the client loop:
        self.data: Buffer | None = None  # the bytes to send; a retry sends the same bytes
        self.order = NOT_TAKEN  # its order among the batches of its partition
        self.attempts = 0
        self.not_before_ms = 0
        self.producer_id: ProducerId = NO_PRODUCER_ID
        self.producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        # The outcome:
        self.is_done = False
        self.base_offset: Offset = NO_OFFSET
        self.append_time_ms: TimestampMs = NO_TIMESTAMP_MS
        self._error: Exception | None = None
        self._record_errors: Mapping[int, Exception] | None = None
        self.lock = lock
        self._final_size: tuple[int, int] | None = None  # count and bytes, once the records are released
        self._event: threading.Event | None = None
        self._callbacks: list[tuple[int, Callable[[], None]]] | None = None
        self._when_done: list[Callable[[], None]] | None = None
        self._parts: list[tuple[int, ProducerBatch]] | None = None
        self._parts_left = 0
        self.whole: ProducerBatch | None = None  # the batch that this is a part of

    @property
    def record_count(self) -> int:
        return self.appender.record_count if self._final_size is None else self._final_size[0]

    @property
    def size_bytes(self) -> int:
        """Uncompressed, with its header."""
        return self.appender.size_bytes if self._final_size is None else self._final_size[1]

    def _free(self) -> None:
        """Release the records: users may keep handles for long, and handles refer to the batch."""
        self._final_size = (self.record_count, self.size_bytes)
        self.data = None
        self.appender = _NO_RECORDS
        self.append = _NO_RECORDS.append

    @property
    def next_sequence(self) -> int:
        """The sequence of the batch that follows this one."""
        return add_to_sequence(self.base_sequence, self.record_count)

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def build(self, *, codec: int, level: int | None) -> Buffer:
        """The bytes to send; kept, so that the broker recognizes a retry."""
        if self.data is None:
            self.data = self.appender.build(
                codec=codec,
                level=level,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                is_transactional=self.is_transactional,
            )
        return self.data

    # Outcome

    def part_of(self, index: int) -> "tuple[ProducerBatch, int]":
        """The batch that has the record now, and the record's index in it."""
        batch = self
        while (parts := batch._parts) is not None:
            first, batch = parts[bisect_right(parts, index, key=_first_index) - 1]
            index -= first
        return batch, index

    def all_parts(self) -> "Iterator[ProducerBatch]":
        """The batches that have the records now, in order."""
        if self._parts is None:
            yield self
        else:
            for _, part in self._parts:
                yield from part.all_parts()

    def error_of(self, index: int) -> Exception | None:
        if self._record_errors is not None:
            return self._record_errors.get(index, self._error)
        return self._error

    @property
    def error(self) -> Exception | None:
        return self._error

    def succeed(self, base_offset: Offset, append_time_ms: TimestampMs) -> None:
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self._finish()

    def fail(self, error: Exception, record_errors: Mapping[int, Exception] | None = None) -> None:
        """Fail all records; those in `record_errors` with their own error."""
        self._error = error
        self._record_errors = record_errors
        self._finish()

    def divide(self, parts: "list[tuple[int, ProducerBatch]]") -> None:
        """Move the records into `parts`, each with the index of its first record."""
        with self.lock:
            self._parts = parts
            self._parts_left = len(parts)
            self._free()
            callbacks, self._callbacks = self._callbacks, None
            for _, part in parts:
                part.whole = self
        for index, callback in callbacks or ():
            part, part_index = self.part_of(index)
            part.add_callback(part_index, callback)

    def _finish(self) -> None:
        with self.lock:
            assert not self.is_done, f"{self.queue.topic_partition}: a batch has one outcome"
            self.is_done = True
            self._free()
            callbacks, self._callbacks = self._callbacks, None
        for _, callback in callbacks or ():
            _call(callback)
        self._wake()
        if self.whole is not None:
            self.whole._part_finished()

    def _part_finished(self) -> None:
        self._parts_left -= 1
        if self._parts_left == 0:
            with self.lock:
                self.is_done = True
            self._wake()
            if self.whole is not None:
                self.whole._part_finished()

    def _wake(self) -> None:
        """After the records' own callbacks: when a flush returns, they have all run."""
        with self.lock:
            event = self._event
            when_done, self._when_done = self._when_done, None
        if event is not None:
            event.set()
        for callback in when_done or ():
            callback()

    # Waiting

    def add_callback(self, index: int, callback: Callable[[], None]) -> bool:
        """Call back with the outcome of one record; False, and nothing is added, if there is one already."""
        with self.lock:
            batch, index = self.part_of(index)
            if batch.is_done:
                return False
            if batch._callbacks is None:
                batch._callbacks = []
            batch._callbacks.append((index, callback))
            return True

    def when_done(self, callback: Callable[[], None]) -> bool:
        """Call back when all records are done; False if they are. It runs in the client loop and must not fail."""
        with self.lock:
            if self.is_done:
                return False
            if self._when_done is None:
                self._when_done = []
            self._when_done.append(callback)
            return True

    def wait(self, timeout: float | None) -> bool:
        """Wait until the batch and all its parts are done."""
        with self.lock:
            if self.is_done:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout)


def _first_index(part: tuple[int, ProducerBatch]) -> int:
    return part[0]


def _call(callback: Callable[[], None]) -> None:
    """Call a user's callback: what it raises is logged, and must not stop the delivery of other records."""
    try:
        callback()
    except Exception:  # noqa: BLE001 - code that isn't ours may raise anything
        report_exception("a delivery callback failed")


def split(batch: ProducerBatch) -> list[tuple[int, ProducerBatch]]:
    """Split a batch that was too large for the broker: two halves by size, with the index of each part's first record.

    A half that is still too large is split again. The broker doesn't say what it would accept, and its limit is for
    the compressed batch: halves are a fair guess.
    """
    limit_bytes = max(batch.appender.size_bytes // 2, HEADER_BYTES + 1)
    appenders: list[BatchAppender] = []
    _, records = read_batch(batch.appender.build(), check_crc=False)
    for record in records:
        row = (record.timestamp_ms, record.key, record.value, list(record.headers))
        if not appenders or appenders[-1].append(*row) == FULL:
            appenders.append(BatchAppender(limit_bytes))
            appenders[-1].append(*row)
    parts = []
    first_index = 0
    for appender in appenders:
        part = ProducerBatch(
            batch.queue,
            batch.lock,
            created_ms=batch.created_ms,
            reserved_bytes=0,
            is_transactional=batch.is_transactional,
            appender=appender,
        )
        part.order = batch.order + first_index
        parts.append((first_index, part))
        first_index += appender.record_count
    # The memory of the whole is released with its last part.
    parts[-1][1].reserved_bytes = batch.reserved_bytes
    batch.reserved_bytes = 0
    return parts
