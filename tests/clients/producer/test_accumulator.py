"""Where records wait: partitions chosen, batches opened, memory counted, the client loop woken when there is need."""

from collections import Counter
from typing import Any

import pytest

from ottla.clients.errors import ClientError
from ottla.clients.partitioning import partition_for_key
from ottla.clients.producer.accumulator import NEVER_MS, Accumulator
from ottla.clients.producer.errors import NoSuchPartition, ProducerClosed, RecordTooLarge
from ottla.clients.producer.partitioners import Partitioner, RoundRobinPartitioner, checked
from ottla.clients.producer.queues import Destination
from ottla.clients.producer.settings import ProducerSettings


class Desk:
    """An accumulator with a clock, and a count of how often the client loop was woken."""

    def __init__(self, partitions: int = 1, partitioner: Partitioner | None = None, **settings: Any) -> None:
        self.now_ms = 1_000
        self.woken = 0
        self.settings = ProducerSettings(**{"linger_ms": 5, "batch_size": 1_000, **settings})
        self.accumulator = Accumulator(
            self.settings, now_ms=lambda: self.now_ms, wake=self._wake, partitioner=partitioner
        )
        self.topic = self.accumulator.learn_topic("orders", partitions)

    def _wake(self) -> None:
        self.woken += 1

    def add(self, value: bytes = b"x" * 100, *, key: bytes | None = None, partition: int | None = None) -> bool:
        return self.accumulator.append(self.topic, partition, key, value, (), 7) is not None

    def counts(self) -> Counter[int]:
        """Records by partition, of all that is held."""
        counted: Counter[int] = Counter()
        for batch in self.accumulator.incomplete:
            counted[batch.queue.topic_partition.partition] += batch.record_count
        return counted


def test_the_client_loop_is_woken_once_for_a_lingering_batch_and_once_when_it_is_full() -> None:
    desk = Desk()
    for _ in range(7):
        desk.add()
    assert desk.woken == 1
    assert len(desk.accumulator.active_queues()) == 1
    assert desk.accumulator.plan(desk.now_ms) == desk.now_ms + 5
    for _ in range(20):
        desk.add()
    assert desk.woken == 2


def test_a_saturated_leader_wakes_nobody() -> None:
    desk = Desk()
    desk.add()
    (queue,) = desk.accumulator.active_queues()
    queue.destination = Destination(1)
    queue.destination.is_saturated = True
    for _ in range(30):
        desk.add()
    assert desk.woken == 1


def test_nothing_to_do_is_nothing_planned() -> None:
    assert Desk().accumulator.plan(1_000) == NEVER_MS


def test_keys_go_where_kafka_puts_them() -> None:
    desk = Desk(partitions=7)
    for number in range(100):
        desk.add(b"x", key=b"%d" % number)
    assert desk.counts() == Counter(partition_for_key(b"%d" % number, 7) for number in range(100))


def test_records_without_a_key_fill_a_batch_before_the_partition_changes() -> None:
    desk = Desk(partitions=10)
    for _ in range(200):
        desk.add()
    per_batch = 8
    assert all(count % per_batch == 0 for count in list(desk.counts().values())[:-1])
    assert len(desk.accumulator.incomplete) == 200 // per_batch
    assert len(desk.counts()) > 1


def test_small_batches_stay_with_their_partition_until_a_batch_worth_was_sent() -> None:
    desk = Desk(partitions=10)
    topic_partitions = []
    for _ in range(16):
        desk.add(b"x" * 100)
        (queue,) = desk.accumulator.active_queues()
        topic_partitions.append(queue.topic_partition.partition)
        desk.accumulator.take(queue)
    assert len(set(topic_partitions[:5])) == 1
    assert len(set(topic_partitions)) > 1 or topic_partitions[0] == topic_partitions[-1]


def test_short_queues_are_preferred() -> None:
    desk = Desk(partitions=2)
    for _ in range(200):
        desk.add(partition=0)
    before = desk.counts()[0]
    for _ in range(200):
        desk.add()
    assert desk.counts()[1] > desk.counts()[0] - before


def test_keys_can_be_ignored() -> None:
    desk = Desk(partitions=50, partitioner_ignore_keys=True)
    for number in range(8):
        desk.add(key=b"%d" % number)
    assert len(desk.counts()) == 1


def test_round_robin_takes_turns() -> None:
    desk = Desk(partitions=4, partitioner=RoundRobinPartitioner())
    for number in range(8):
        desk.add(b"x", key=b"same" if number % 2 else None)
    assert desk.counts() == {0: 2, 1: 2, 2: 2, 3: 2}


def test_a_partitioner_that_chooses_nothing_real_is_told() -> None:
    desk = Desk(partitions=2, partitioner=checked(lambda *_: 2))
    with pytest.raises(ClientError, match="chose 2, expected 0 to 1"):
        desk.add()


@pytest.mark.parametrize("partition", [-1, 1])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    with pytest.raises(NoSuchPartition):
        Desk().add(partition=partition)


def test_partitions_can_become_more() -> None:
    desk = Desk()
    desk.accumulator.learn_topic("orders", 3)
    assert desk.add(partition=2)


def test_memory_is_reserved_by_the_batch_and_comes_back() -> None:
    desk = Desk(buffer_memory=3_000)
    while desk.add():
        pass
    assert desk.accumulator.buffered_bytes == 3_000
    assert desk.accumulator.is_exhausted
    called: list[int] = []
    desk.accumulator.when_room(lambda: called.append(1))
    (queue,) = desk.accumulator.active_queues()
    batch = desk.accumulator.take(queue)
    assert not called
    desk.accumulator.release(batch)
    assert called
    assert desk.add()


def test_unused_room_is_free_once_a_batch_is_taken() -> None:
    desk = Desk()
    desk.add(b"x")
    assert desk.accumulator.buffered_bytes == 1_000
    (queue,) = desk.accumulator.active_queues()
    batch = desk.accumulator.take(queue)
    assert desk.accumulator.buffered_bytes == batch.appender.size_bytes < 100


def test_a_large_record_is_alone_in_a_batch() -> None:
    desk = Desk()
    desk.add(b"x" * 5_000)
    desk.add(b"y" * 100)
    assert [batch.record_count for batch in desk.accumulator.incomplete] == [1, 1]


def test_a_record_beyond_memory_is_refused_at_once() -> None:
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory is 2000"):
        Desk(buffer_memory=2_000).add(b"x" * 3_000)


def test_refusing_ends_open_batches_too() -> None:
    desk = Desk()
    desk.add()
    desk.accumulator.refuse(ProducerClosed("closed"))
    with pytest.raises(ProducerClosed):
        desk.add()
    desk.accumulator.refuse(None)
    assert desk.add()
    assert len(desk.accumulator.incomplete) == 2


def test_taking_turns_between_partitions() -> None:
    desk = Desk(partitions=3)
    for _ in range(20):
        for partition in range(3):
            desk.add(partition=partition)
    served = []
    for _ in range(6):
        queue = desk.accumulator.active_queues()[0]
        served.append(queue.topic_partition.partition)
        desk.accumulator.take(queue)
    assert served == [0, 1, 2, 0, 1, 2]
