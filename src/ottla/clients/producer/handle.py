"""What `send` returns: a handle on one record of a batch. All of its state is in the batch.

There are thousands of these for each batch, and most are never used: so a handle has only its batch and its index in
the batch, and computes the rest on demand.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.clients.producer.fast_append import Delivery
from ottla.core.types import NO_TIMESTAMP_MS, Offset, TimestampMs, TopicPartition

if TYPE_CHECKING:
    from ottla.clients.producer.batch import ProducerBatch

NO_OFFSET: Offset = -1


class RecordMetadata(NamedTuple):
    """Where a record is stored. With acks=0 the offset is not known: -1."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: TimestampMs


class SendHandle(Delivery):
    """The delivery of one record; safe to use from any thread."""

    __slots__ = ()

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record, delivered or not."""
        return self._batch.queue.topic_partition

    def done(self) -> bool:
        """Whether the record was delivered or failed."""
        return self._batch.part_of(self._index)[0].is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait (in seconds, as with Python's futures) and return where the record is; raises why it failed."""
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
        """Wait, and return why the record failed; None if it was delivered."""
        batch, index = self._settled(timeout)
        return batch.error_of(index)

    def add_callback(self, callback: "Callable[[SendHandle], None]") -> None:
        """Call `callback(handle)` on the producer's own thread when the record is done; at once if it is done already.

        It must be short and must not wait: the producer does nothing else meanwhile.
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
