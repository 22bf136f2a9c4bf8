"""Decides which batch of a partition may be sent now, so that order is kept and the broker recognizes a retry.

With a producer id up to five batches of a partition are in flight: the broker takes them only in the order of their
sequences. Without one, a retry could change the order: then one at a time, unless there are no retries.
"""

from ottla.clients.producer.batch import ProducerBatch
from ottla.clients.producer.identity import Identity
from ottla.clients.producer.queues import PartitionQueue
from ottla.clients.producer.settings import ProducerSettings
from ottla.core.types import NO_PRODUCER_ID
from ottla.records.header import NO_PRODUCER_EPOCH, NO_SEQUENCE, add_to_sequence


class Sequencing:
    """Used in the client loop only; the queues have the state."""

    __slots__ = ("_identity", "_is_transactional", "_keeps_order_alone", "_max_in_flight")

    def __init__(self, settings: ProducerSettings, identity: Identity | None) -> None:
        self._identity = identity  # None: not idempotent
        self._is_transactional = settings.transactional_id is not None
        self._keeps_order_alone = identity is None and settings.retries > 0 and settings.acks != 0
        self._max_in_flight = settings.max_in_flight

    def may_send(self, queue: PartitionQueue) -> bool:
        """Whether the next batch of a queue may be taken and sent."""
        if self._identity is None:
            return not (self._keeps_order_alone and queue.in_flight)
        if queue.waiting and queue.waiting[0].has_sequence:
            # A retry is sent alone, until all retries are done.
            return not queue.in_flight
        if queue.is_unresolved and not self._may_resolve(queue):
            return False
        if not self._identity.is_known:
            return False
        identity = self._identity
        if queue.producer_epoch != identity.producer_epoch or queue.producer_id != identity.producer_id:
            if queue.in_flight:
                return False  # the old epoch applies until its last batch is answered
            self._start(queue)
        if not queue.has_acknowledged:
            # A broker without state of a producer accepts any sequence as its first. So the first batch is sent alone:
            # if it failed with a retriable error, the second one would be stored before it.
            return not queue.in_flight
        return len(queue.in_flight) < self._max_in_flight

    def _may_resolve(self, queue: PartitionQueue) -> bool:
        """Whether the next batch may be sent after a gap: in a new epoch, once the old one's batches are answered."""
        assert self._identity is not None
        if queue.in_flight:
            return False
        if self._is_transactional:
            # Only the coordinator can raise the epoch, after the transaction was aborted.
            if queue.producer_epoch == self._identity.producer_epoch:
                return False
        elif queue.producer_epoch == self._identity.producer_epoch:
            self._identity.raise_epoch()
        queue.is_unresolved = False
        return True

    def _start(self, queue: PartitionQueue) -> None:
        assert self._identity is not None
        queue.producer_id = self._identity.producer_id
        queue.producer_epoch = self._identity.producer_epoch
        queue.next_sequence = 0
        queue.has_acknowledged = False

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch its sequence, which it keeps over all retries."""
        queue = batch.queue
        if self._identity is not None and not batch.has_sequence:
            batch.producer_id = queue.producer_id
            batch.producer_epoch = queue.producer_epoch
            batch.base_sequence = queue.next_sequence
            queue.next_sequence = batch.next_sequence
        queue.in_flight.append(batch)

    def acknowledged(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        queue.in_flight.remove(batch)
        if batch.has_sequence and batch.producer_epoch == queue.producer_epoch:
            queue.has_acknowledged = True

    def refused(self, batch: ProducerBatch) -> None:
        """Answered with an error, or not at all."""
        batch.queue.in_flight.remove(batch)

    def batch_failed(self, batch: ProducerBatch) -> None:
        """A batch with a sequence will not be retried: there may be a gap before the next one."""
        if batch.has_sequence and batch.producer_epoch == batch.queue.producer_epoch:
            batch.queue.is_unresolved = True

    def waits_for_another(self, batch: ProducerBatch) -> bool:
        """For a batch that was out of order: whether an earlier one is still to be stored."""
        queue = batch.queue
        earlier = [*queue.in_flight, *(other for other in queue.waiting if other.has_sequence)]
        return any(other.order < batch.order for other in earlier)

    def strip(self, batch: ProducerBatch) -> None:
        """The broker certainly did not store the batch with its sequence, and so none after it: all get new sequences.

        Those after it that are still in flight come back with the same error.
        """
        batch.queue.is_unresolved = True
        _forget_sequence(batch)
        for other in batch.queue.waiting:
            if other.has_sequence and other.order > batch.order:
                _forget_sequence(other)

    def divide(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """The parts share the sequence range of the whole: together they have as many records."""
        sequence = batch.base_sequence
        if sequence == NO_SEQUENCE:
            return
        for part in parts:
            part.producer_id = batch.producer_id
            part.producer_epoch = batch.producer_epoch
            part.base_sequence = sequence
            sequence = add_to_sequence(sequence, part.record_count)


def _forget_sequence(batch: ProducerBatch) -> None:
    batch.producer_id = NO_PRODUCER_ID
    batch.producer_epoch = NO_PRODUCER_EPOCH
    batch.base_sequence = NO_SEQUENCE
    batch.data = None
