"""The partitions of one topic as the producer fills them, and which of them records without a key go to now.

A partition is kept until a batch's worth of bytes went to it (KIP-794): full batches instead of one for each partition.
The next one is drawn by lot, the shorter its queue the likelier, among those that have a leader.
"""

from bisect import bisect_right
from itertools import accumulate
from random import Random

from ottla.clients.producer.batch import ProducerBatch
from ottla.clients.producer.gate import TopicDoors
from ottla.clients.producer.queue import PartitionQueue
from ottla.clients.producer.settings import ProducerSettings


class TopicQueues(TopicDoors):
    """Used under the accumulator's lock."""

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
        self.sticky_batch: ProducerBatch | None = None  # the last one that was opened for it
        self._sticky_bytes = 0
        self._switch_bytes = settings.batch_size
        self._is_adaptive = settings.partitioner_adaptive
        self._random = random or Random()

    def next_run(self) -> int:
        """Which partition the rows of a table begin with that have no key."""
        return self._random.randrange(len(self.queues))

    def grow(self, queues: list[PartitionQueue]) -> None:
        """More partitions; topics never have fewer."""
        self.queues += queues[len(self.queues) :]

    def queue_of(self, partition: int) -> PartitionQueue | None:
        return self.queues[partition] if 0 <= partition < len(self.queues) else None

    def sticky_for_new_batch(self) -> PartitionQueue:
        """Where a record without a key goes for which the sticky partition has no open batch, or a full one."""
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
            # Before anything was sent to any partition nothing is known of their leaders.
            candidates = with_leader or queues
            lengths = [len(queue.waiting) for queue in candidates]
            longest = max(lengths)
            if longest > 0:
                weights = list(accumulate(longest + 1 - length for length in lengths))
                return candidates[bisect_right(weights, self._random.randrange(weights[-1]))]
        return candidates[self._random.randrange(len(candidates))]
