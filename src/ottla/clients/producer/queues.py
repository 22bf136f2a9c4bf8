"""The queue of a partition (its open batch, those that wait, those in flight, the sequence), and the queues of a topic.

The accumulator's lock guards `open`, `waiting` and all of `TopicQueues`; everything else belongs to the client loop.
"""

from bisect import bisect_right
from collections import deque
from itertools import accumulate
from random import Random

from ottla.clients.producer.batch import NOT_TAKEN, ProducerBatch
from ottla.clients.producer.fast_append import PartitionSlot, TopicSlots
from ottla.clients.producer.settings import ProducerSettings
from ottla.core.types import NO_PRODUCER_ID, BrokerId, ProducerEpoch, ProducerId, TopicPartition
from ottla.records.header import NO_PRODUCER_EPOCH


class Destination:
    """The leader of a partition; while `is_saturated`, a full batch need not wake the client loop."""

    __slots__ = ("broker_id", "in_flight", "is_saturated")

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.in_flight = 0
        self.is_saturated = False


class PartitionQueue(PartitionSlot):
    """Created when the partition is known, lives as long as the producer."""

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
        self.taken = NOT_TAKEN  # counts the batches that were taken for the first time
        # The sequence (KIP-98): one step per record, for each producer id and epoch.
        self.producer_id: ProducerId = NO_PRODUCER_ID
        self.producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.has_acknowledged = False
        # A batch failed and may or may not be stored: there may be a gap in the sequence.
        self.is_unresolved = False

    @property
    def is_empty(self) -> bool:
        return self.open is None and not self.waiting

    def requeue(self, batch: ProducerBatch) -> None:
        """Put a batch back for another attempt, in the order in which batches were first taken.

        Several are in flight and come back one by one, perhaps the later ones first.
        """
        position = 0
        for other in self.waiting:
            if other.order == NOT_TAKEN or other.order >= batch.order:
                break
            position += 1
        self.waiting.insert(position, batch)


class TopicQueues(TopicSlots):
    """The partitions of one topic, and the sticky one, which records without a key go to.

    The sticky partition changes after a batch's worth of bytes (KIP-794): full batches instead of one for each
    partition. The next one is random among those that have a leader; a shorter queue makes it likelier.
    """

    __slots__ = (
        "_is_adaptive",
        "_random",
        "_sticky_bytes",
        "_switch_bytes",
        "name",
        "sticky_batch",
    )

    def __init__(self, name: str, settings: ProducerSettings, random: Random | None = None) -> None:
        self.name = name
        self.queues = []
        self.ignores_keys = settings.partitioner_ignore_keys
        self.sticky = None
        self.sticky_batch: ProducerBatch | None = None  # the last batch that was opened for it
        self._sticky_bytes = 0
        self._switch_bytes = settings.batch_size
        self._is_adaptive = settings.partitioner_adaptive
        self._random = random or Random()

    def next_run(self) -> int:
        """The first partition for rows of a table that have no key."""
        return self._random.randrange(len(self.queues))

    def grow(self, queues: list[PartitionQueue]) -> None:
        """Add partitions; a topic never loses one."""
        self.queues += queues[len(self.queues) :]

    def queue_of(self, partition: int) -> PartitionQueue | None:
        return self.queues[partition] if 0 <= partition < len(self.queues) else None

    def sticky_for_new_batch(self) -> PartitionQueue:
        """The partition for a record without a key when the sticky partition has no open batch, or a full one."""
        sticky = self.sticky
        if sticky is not None:
            if self.sticky_batch is not None:
                self._sticky_bytes += self.sticky_batch.size_bytes
                self.sticky_batch = None
            if sticky.open is None and self._sticky_bytes < self._switch_bytes:
                return sticky
        self._sticky_bytes = 0
        self.sticky = self._draw()
        return self.sticky

    def _draw(self) -> PartitionQueue:
        queues = self.queues
        if len(queues) == 1:
            return queues[0]
        candidates = queues
        if self._is_adaptive:
            with_leader = [queue for queue in queues if queue.destination is not None]
            # Before the first send to any partition no leader is known.
            candidates = with_leader or queues
            lengths = [len(queue.waiting) for queue in candidates]
            longest = max(lengths)
            if longest > 0:
                weights = list(accumulate(longest + 1 - length for length in lengths))
                return candidates[bisect_right(weights, self._random.randrange(weights[-1]))]
        return candidates[self._random.randrange(len(candidates))]
