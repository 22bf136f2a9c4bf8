"""One partition's way out: the batch being filled, those that wait, those under way, and the sequence of them all.

`open` and `waiting` are shared under the accumulator's lock; everything else belongs to the loop.
"""

from collections import deque

from ottla.clients.producer.batch import NOT_TAKEN, ProducerBatch
from ottla.clients.producer.gate import Door
from ottla.core.types import NO_PRODUCER_ID, BrokerId, ProducerEpoch, ProducerId, TopicPartition
from ottla.records.header import NO_PRODUCER_EPOCH


class Destination:
    """A leader as the producer sees it; `is_saturated` tells senders of records that nobody waits for more."""

    __slots__ = ("broker_id", "in_flight", "is_saturated")

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.in_flight = 0
        self.is_saturated = False


class PartitionQueue(Door):
    """Made when the partition is known, lives as long as the producer."""

    __slots__ = (
        "destination",
        "has_acknowledged",
        "in_flight",
        "is_unresolved",
        "next_sequence",
        "topic_partition",
        "producer_epoch",
        "producer_id",
        "taken",
        "waiting",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.open = None
        self.waiting: deque[ProducerBatch] = deque()
        self.destination: Destination | None = None
        self.in_flight: list[ProducerBatch] = []
        self.taken = NOT_TAKEN  # counts the batches that left for the first time
        # The sequence (KIP-98): counted per producer id and epoch, one step for each record.
        self.producer_id: ProducerId = NO_PRODUCER_ID
        self.producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.has_acknowledged = False
        # A batch was given up with nobody knowing whether it is stored: its place in the sequence may be empty.
        self.is_unresolved = False

    @property
    def is_empty(self) -> bool:
        return self.open is None and not self.waiting

    def requeue(self, batch: ProducerBatch) -> None:
        """Put a batch back for another attempt, in the order in which batches were first taken.

        Several are under way and come back one by one, the later ones perhaps first.
        """
        position = 0
        for other in self.waiting:
            if other.order == NOT_TAKEN or other.order >= batch.order:
                break
            position += 1
        self.waiting.insert(position, batch)
