"""All partitions of a broker: lookups, and what follows an append, an fsync, a removal."""

import pytest

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import TopicPartition
from ottla.purgatory.purgatory import DelayedOperation
from ottla.replication.partition import ACKS_ALL
from ottla.storage.log_config import LogConfig
from tests.replication.partitions import LED_HERE, ORDERS, HandReplicas, append, make_partition
from tests.storage.log_making import NOW_MS, batch, flush


class Waiter(DelayedOperation):
    """Waits for ever and counts how often it was tried."""

    __slots__ = ("tries",)

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return False

    def on_complete(self) -> None:
        pass


def watch(hand: HandReplicas, *keys: TopicPartition) -> Waiter:
    waiter = Waiter()
    hand.waiting.watch(hand.waiting.fetches, waiter, keys, 1000)
    return waiter


def test_partition_is_found_by_name_and_number() -> None:
    hand = HandReplicas()
    partition = hand.add()
    assert hand.replicas.find("orders", 0) is partition


def test_partition_that_is_not_here_is_unknown() -> None:
    hand = HandReplicas()
    hand.add()
    for topic, index in (("orders", 1), ("orders", -1), ("payments", 0)):
        assert hand.replicas.find(topic, index) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("leader", [2, -1])
def test_partition_that_is_led_elsewhere_is_refused(leader: int) -> None:
    hand = HandReplicas()
    partition = hand.add()
    partition.state = PartitionState(leader, 4, (2,), (1, 2))
    assert hand.replicas.find("orders", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_partition_on_a_failed_disk_is_a_storage_error() -> None:
    hand = HandReplicas()
    hand.add()
    hand.replicas.take_offline([ORDERS, TopicPartition("unheard", 0)])
    assert hand.replicas.find("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR


def test_partition_without_a_log_is_a_storage_error_until_it_is_removed() -> None:
    hand = HandReplicas()
    hand.replicas.add_unavailable(ORDERS)
    assert hand.replicas.find("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert hand.replicas.remove(ORDERS) is None
    assert hand.replicas.find("orders", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_was_fsynced_before_counts_as_soon_as_a_partition_is_led() -> None:
    partition = make_partition()
    append(partition, 4)
    again = HandReplicas().replicas.add(ORDERS, topic_id=bytes(16), log=partition.log, state=LED_HERE)
    assert again.high_watermark == 4


def test_append_marks_the_fetches_of_its_partition_only() -> None:
    hand = HandReplicas()
    partition = hand.add()
    other = TopicPartition("orders", 1)
    mine, others = watch(hand, ORDERS), watch(hand, other)
    append(partition)
    hand.waiting.fetches.complete_marked()
    assert (mine.tries, others.tries) == (2, 1)


def test_append_without_waiting_fetches_leaves_no_mark() -> None:
    hand = HandReplicas()
    partition = hand.add()
    append(partition)
    assert not hand.waiting.fetches.has_marks
    assert not hand.flushes


def test_flush_is_asked_for_when_as_many_messages_wait_as_the_topic_says() -> None:
    hand = HandReplicas()
    partition = hand.add(LogConfig(flush_messages=3))
    for _ in range(2):
        append(partition)
        assert hand.flushes == []
    append(partition)
    assert hand.flushes == [partition.log]


def test_flush_lets_more_be_seen_and_wakes_the_fetches() -> None:
    hand = HandReplicas()
    partition = hand.add(LogConfig(flush_messages=1))
    waiter = watch(hand, ORDERS)
    append(partition)
    flush(partition.log)
    hand.replicas.on_flushed(ORDERS)
    hand.waiting.fetches.complete_marked()
    assert (partition.high_watermark, waiter.tries) == (1, 2)
    hand.replicas.on_flushed(ORDERS)  # nothing moved: nobody is woken
    assert not hand.waiting.fetches.has_marks


def test_flush_of_a_partition_that_is_gone_is_ignored() -> None:
    HandReplicas().replicas.on_flushed(ORDERS)


def test_removal_wakes_everybody_who_waits_for_the_partition() -> None:
    hand = HandReplicas()
    partition = hand.add(LogConfig(flush_messages=1))
    _, wait = partition.append(batch(b"v"), acks=ACKS_ALL, now_ms=NOW_MS)
    assert wait is not None
    done: list[int] = []
    hand.replicas.await_acks([wait], timeout_ms=100, on_done=lambda: done.append(1))
    fetch = watch(hand, ORDERS)
    assert hand.replicas.remove(ORDERS) is partition
    assert (done, wait.error_code) == ([1], ErrorCode.KAFKA_STORAGE_ERROR)
    hand.waiting.fetches.complete_marked()
    assert fetch.tries == 2
    assert hand.replicas.remove(ORDERS) is None


def test_storage_error_is_reported_to_the_owner_of_the_directories() -> None:
    hand = HandReplicas()
    partition = hand.add()
    error = StorageError("no space")
    hand.replicas.on_storage_error(partition, error)
    assert hand.failures == [(partition.log, error)]


def test_deleted_records_wake_the_fetches() -> None:
    hand = HandReplicas()
    partition = hand.add()
    append(partition, 3)
    waiter = watch(hand, ORDERS)
    assert hand.replicas.delete_records_before(partition, 4) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert not hand.waiting.fetches.has_marks
    assert hand.replicas.delete_records_before(partition, 3) == ErrorCode.NONE
    hand.waiting.fetches.complete_marked()
    assert waiter.tries == 2
