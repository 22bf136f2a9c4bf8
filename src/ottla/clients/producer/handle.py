"""What `send` returns: a light view on one record of a batch. All of its state is the batch's.

Thousands of these are made for each batch, and most are never looked at: so a handle knows its batch and its place in
it, and works out the rest when asked.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.clients.producer.gate import Delivery
from ottla.core.types import NO_TIMESTAMP_MS, Offset, TimestampMs, TopicPartition

if TYPE_CHECKING:
    from ottla.clients.producer.batch import ProducerBatch

NO_OFFSET: Offset = -1


class RecordMetadata(NamedTuple):
    """Where a record is stored. The offset is -1 where the cluster doesn't say: with acks=0."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: TimestampMs


class SendHandle(Delivery):
    """The delivery of one record; safe to use from any thread."""

    __slots__ = ()

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record goes, whatever becomes of it."""
        return self._batch.queue.topic_partition

    def done(self) -> bool:
        """Whether the record was delivered or given up."""
        return self._batch.part_of(self._index)[0].is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait (in seconds, as with Python's futures) and tell where the record is; raise why it was given up."""
        batch, index = self._settled(timeout)
        error = batch.error_of(index)
        if error is not None:
            raise error
        offset = batch.base_offset
        topic_partition = batch.queue.topic_partition
        append_time_ms = batch.append_time_ms
        return RecordMetadata(
            topic_partition.topic,
            topic_partition.partition,
            offset + index if offset >= 0 else NO_OFFSET,
            self._timestamp_ms if append_time_ms == NO_TIMESTAMP_MS else append_time_ms,
        )

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait, and tell why the record was given up; None if it was delivered."""
        batch, index = self._settled(timeout)
        return batch.error_of(index)

    def add_callback(self, callback: "Callable[[SendHandle], None]") -> None:
        """Have `callback(handle)` called when the record is done, on the producer's own thread; at once if it is.

        It must be short and must not wait: everything that the producer does waits for it.
        """
        if not self._batch.add_callback(self._index, lambda: callback(self)):
            callback(self)

    def _settled(self, timeout: float | None) -> "tuple[ProducerBatch, int]":
        batch, index = self._batch.part_of(self._index)
        if not batch.is_done:
            self._batch.wait(timeout)
            batch, index = self._batch.part_of(self._index)
            if not batch.is_done:
                raise TimeoutError(f"{batch.queue.topic_partition}: the record was not acknowledged within {timeout} s")
        return batch, index

    def __repr__(self) -> str:
        state = "done" if self.done() else "under way"
        return f"<{type(self).__name__} {self._batch.queue.topic_partition} {state}>"
