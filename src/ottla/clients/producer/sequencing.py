"""Which batch of a partition may leave now, so that order is kept and the broker can tell a retry from a new batch.

With a producer id up to five batches of a partition are under way: the broker takes them in the order of their
sequences only. Without one, a retry could overtake: then one at a time, unless nothing is ever sent again.
"""

from ottla.clients.producer.batch import ProducerBatch
from ottla.clients.producer.identity import Identity
from ottla.clients.producer.queue import PartitionQueue
from ottla.clients.producer.settings import ProducerSettings
from ottla.core.types import NO_PRODUCER_ID
from ottla.records.header import NO_PRODUCER_EPOCH, NO_SEQUENCE, add_to_sequence


class Sequencing:
    """Of the client loop; the state is that of the queues."""

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
            # Sent again: alone, until all of its kind are through.
            return not queue.in_flight
        if queue.is_unresolved and not self._may_resolve(queue):
            return False
        if not self._identity.is_known:
            return False
        identity = self._identity
        if queue.producer_epoch != identity.producer_epoch or queue.producer_id != identity.producer_id:
            if queue.in_flight:
                return False  # the old epoch is valid until its last batch is answered
            self._start(queue)
        if not queue.has_acknowledged:
            # A broker that knows nothing of a producer takes any sequence as its first. So the first batch goes alone:
            # were it refused for the moment, the second one would be stored before it.
            return not queue.in_flight
        return len(queue.in_flight) < self._max_in_flight

    def _may_resolve(self, queue: PartitionQueue) -> bool:
        """Whether the next batch may go on after a gap: under a new epoch, once the old one's batches are answered."""
        assert self._identity is not None
        if queue.in_flight:
            return False
        if self._is_transactional:
            # Only the coordinator can raise the epoch, when the transaction was aborted.
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
        """Give a batch its place in the sequence, which it keeps over all retries."""
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

    def gave_up(self, batch: ProducerBatch) -> None:
        """A batch with a sequence will not be sent again: what comes after it may find a gap."""
        if batch.has_sequence and batch.producer_epoch == batch.queue.producer_epoch:
            batch.queue.is_unresolved = True

    def waits_for_another(self, batch: ProducerBatch) -> bool:
        """Of a batch that came out of sequence: whether an earlier one is still to be stored."""
        queue = batch.queue
        earlier = [*queue.in_flight, *(other for other in queue.waiting if other.has_sequence)]
        return any(other.order < batch.order for other in earlier)

    def strip(self, batch: ProducerBatch) -> None:
        """The batch was certainly not stored under its sequence, and so none after it: all get new ones.

        Those after it that are still under way come back with the same error.
        """
        batch.queue.is_unresolved = True
        _forget_sequence(batch)
        for other in batch.queue.waiting:
            if other.has_sequence and other.order > batch.order:
                _forget_sequence(other)

    def divide(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """The parts share the place of the whole: together they have as many records."""
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
