"""What a partition takes, what it refuses and why, and when it acknowledges: the one place that decides it."""

import errno
from collections.abc import Callable

import pytest

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.records.build import build_batch
from ottla.records.validate import ProduceFault
from ottla.replication.acks_wait import AcksWait
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.storage.log_config import LogConfig
from ottla.storage.log_results import AppendInfo
from ottla.testing.simulated_disk import SimulatedDisk
from tests.replication.partitions import BROKER_ID, ORDERS, HandReplicas, append, make_partition
from tests.storage.log_making import NOW_MS, batch, flush

OFFSETS = TopicPartition("__consumer_offsets", 0)
FSYNC_EACH = LogConfig(flush_messages=1)


def led_by(leader: int, *, epoch: int = 4, isr: tuple[int, ...] = (1,)) -> PartitionState:
    return PartitionState(leader, epoch, isr, (1, 2, 3))


def transactional() -> memoryview:
    return memoryview(
        build_batch([(NOW_MS, b"k", b"v", ())], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    )


def offered(partition: Partition, *, acks: int = 1) -> AppendInfo:
    return partition.append(batch(b"v"), acks=acks, now_ms=NOW_MS)[0]


def waiting(partition: Partition, *, acks: int = ACKS_ALL) -> AcksWait:
    info, wait = partition.append(batch(b"v"), acks=acks, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.NONE
    assert wait is not None
    return wait


# Refusals


@pytest.mark.parametrize("acks", [0, 1, ACKS_ALL])
@pytest.mark.parametrize("leader", [2, -1])
def test_partition_that_is_led_elsewhere_takes_nothing(leader: int, acks: int) -> None:
    partition = make_partition(state=led_by(leader))
    assert offered(partition, acks=acks).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.log_end_offset == 0


def test_offline_partition_takes_nothing() -> None:
    hand = HandReplicas()
    partition = hand.add()
    hand.replicas.take_offline([ORDERS])
    info = offered(partition)
    assert (info.error_code, info.error_message) == (
        ErrorCode.KAFKA_STORAGE_ERROR,
        "the log directory of this partition is offline",
    )


def test_internal_topic_is_written_by_the_broker_alone() -> None:
    partition = make_partition(topic_partition=OFFSETS)
    info = offered(partition)
    assert (info.error_code, info.error_message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__consumer_offsets is written by the broker alone",
    )
    info, _ = partition.append(batch(b"v"), acks=ACKS_ALL, now_ms=NOW_MS, is_from_client=False)
    assert (info.error_code, info.first_offset) == (ErrorCode.NONE, 0)


def test_writer_of_another_epoch_is_refused() -> None:
    partition = make_partition(state=led_by(BROKER_ID, epoch=4))
    for epoch, error_code in ((3, 6), (4, 0), (5, 6)):
        info, _ = partition.append(batch(b"v"), acks=1, now_ms=NOW_MS, leader_epoch=epoch)
        assert info.error_code == error_code
    assert partition.log.log_end_offset == 1


@pytest.mark.parametrize(("isr", "is_enough"), [((), False), ((1,), False), ((1, 2), True), ((1, 2, 3), True)])
def test_in_sync_replicas_are_counted_against_the_minimum_for_acks_all(isr: tuple[int, ...], is_enough: bool) -> None:
    partition = make_partition(LogConfig(min_insync_replicas=2), state=led_by(BROKER_ID, isr=isr))
    info = offered(partition, acks=ACKS_ALL)
    if is_enough:
        assert info.error_code == ErrorCode.NONE
    else:
        assert (info.error_code, info.error_message) == (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"orders-0: {len(isr)} replicas in sync, min.insync.replicas is 2",
        )
    assert offered(partition, acks=1).error_code == ErrorCode.NONE


def test_transactional_batch_is_refused_if_it_is_sound_otherwise() -> None:
    partition = make_partition()
    records = transactional()
    assert partition.append(records, acks=1, now_ms=NOW_MS)[0].error_code == ErrorCode.INVALID_TXN_STATE
    records[-1] ^= 1
    assert partition.append(records, acks=1, now_ms=NOW_MS)[0].error_code == ErrorCode.CORRUPT_MESSAGE


def test_what_is_no_batch_is_refused_with_its_fault() -> None:
    partition = make_partition()
    fault = ProduceFault(ErrorCode.INVALID_RECORD, "record 3 has no key", (3,))
    info, _ = partition.append(fault, acks=1, now_ms=NOW_MS)
    assert (info.error_code, info.error_message, info.record_indexes) == fault
    info, _ = partition.append(None, acks=1, now_ms=NOW_MS)
    assert (info.error_code, info.error_message) == (
        ErrorCode.INVALID_RECORD,
        "no batch; exactly one is expected",
    )
    assert partition.append(batch(b"v")[:20], acks=1, now_ms=NOW_MS)[0].error_code


def test_partition_comes_before_the_batch_and_the_batch_before_the_replicas() -> None:
    fault = ProduceFault(ErrorCode.INVALID_RECORD, "no key")
    config = LogConfig(min_insync_replicas=2)
    elsewhere, here = make_partition(config, state=led_by(2)), make_partition(config)
    assert elsewhere.append(fault, acks=ACKS_ALL, now_ms=NOW_MS)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert here.append(fault, acks=ACKS_ALL, now_ms=NOW_MS)[0].error_code == ErrorCode.INVALID_RECORD
    assert here.append(transactional(), acks=ACKS_ALL, now_ms=NOW_MS)[0].error_code == ErrorCode.INVALID_TXN_STATE


def test_partition_that_is_not_here_is_refused_by_the_replicas() -> None:
    replicas = HandReplicas().replicas
    replicas.add_unavailable(ORDERS)
    codes = [replicas.refuse_append(topic, 0).error_code for topic in ("orders", "payments", OFFSETS.topic, bytes(16))]
    assert codes == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


# What follows an append


def test_disk_that_fails_is_reported_and_is_a_storage_error() -> None:
    hand, disk = HandReplicas(), SimulatedDisk()
    partition = hand.add(disk=disk)
    append(partition)
    disk.fail_next("append", errno.ENOSPC)
    info = offered(partition)
    assert info.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [(log, str(error)) for log, error in hand.failures] == [(partition.log, info.error_message)]
    assert partition.high_watermark == partition.log.log_end_offset == 1


def test_duplicate_asks_for_no_flush_and_wakes_nobody() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    records = bytes(batch(b"v", producer_id=9, producer_epoch=0, base_sequence=0))
    results = [partition.append(memoryview(bytearray(records)), acks=ACKS_ALL, now_ms=NOW_MS) for _ in range(2)]
    assert [info.first_offset for info, _ in results] == [0, 0]
    assert [wait.next_offset for _, wait in results if wait is not None] == [1, 1]
    assert hand.flushes == [partition.log]


def test_duplicate_waits_for_itself_only() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    records = bytes(batch(b"v", producer_id=9, producer_epoch=0, base_sequence=0))
    partition.append(memoryview(bytearray(records)), acks=ACKS_ALL, now_ms=NOW_MS)
    flush(partition.log)
    hand.replicas.on_flushed(ORDERS)
    append(partition)
    info, wait = partition.append(memoryview(bytearray(records)), acks=ACKS_ALL, now_ms=NOW_MS)
    assert (info.is_duplicate, wait) == (True, None)


@pytest.mark.parametrize("acks", [0, 1, ACKS_ALL])
def test_append_that_is_acknowledged_at_once_waits_for_nothing(acks: int) -> None:
    assert make_partition().append(batch(b"v"), acks=acks, now_ms=NOW_MS)[1] is None


def test_append_waits_for_what_its_acks_need() -> None:
    partition = make_partition(FSYNC_EACH)
    assert partition.append(batch(b"v"), acks=0, now_ms=NOW_MS)[1] is None
    one, every = waiting(partition, acks=1), waiting(partition)
    assert [(wait.next_offset, wait.needs_all_replicas, wait.leader_epoch) for wait in (one, every)] == [
        (2, False, 3),
        (3, True, 3),
    ]


# Deep checks


def test_batch_that_was_prepared_by_another_config_is_checked_by_the_log() -> None:
    before, compacted = LogConfig(), LogConfig(compact=True)
    partition = make_partition(before)
    partition.log.set_config(compacted)
    keyless = bytes(batch(b"v", key=None))
    for config, error_code in ((before, ErrorCode.INVALID_RECORD), (None, ErrorCode.INVALID_RECORD), (compacted, 0)):
        records = memoryview(bytearray(keyless))
        info, _ = partition.append(records, acks=1, now_ms=NOW_MS, prepared_for=config)
        assert info.error_code == error_code


# The leader epoch of a wait


def replaced(hand: HandReplicas, state: PartitionState) -> None:
    hand.replicas.update_state(ORDERS, state)


LOSSES: list[Callable[[HandReplicas], None]] = [
    lambda hand: replaced(hand, led_by(2)),
    lambda hand: replaced(hand, led_by(-1)),
    lambda hand: replaced(hand, led_by(BROKER_ID, epoch=4)),  # deposed and elected again: the batch may be gone
    lambda hand: replaced(hand, led_by(2, epoch=3)),
]


@pytest.mark.parametrize("acks", [1, ACKS_ALL])
@pytest.mark.parametrize("lose", LOSSES)
def test_wait_ends_with_error_6_when_the_leadership_is_lost(lose: Callable[[HandReplicas], None], acks: int) -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    wait = waiting(partition, acks=acks)
    done: list[int] = []
    hand.replicas.await_acks([wait], timeout_ms=100, on_done=lambda: done.append(wait.error_code))
    lose(hand)
    assert done == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    flush(partition.log)
    hand.replicas.on_flushed(ORDERS)
    assert done == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_wait_of_an_older_epoch_is_not_settled_by_what_a_later_one_commits() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    wait = waiting(partition)
    replaced(hand, led_by(BROKER_ID, epoch=5))
    flush(partition.log)
    hand.replicas.on_flushed(ORDERS)
    assert partition.high_watermark == 1
    done: list[int] = []
    hand.replicas.await_acks([wait], timeout_ms=100, on_done=lambda: done.append(wait.error_code))
    assert done == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_change_of_the_in_sync_replicas_alone_ends_no_wait() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH, state=led_by(BROKER_ID, isr=(1, 2)))
    wait = waiting(partition)
    done: list[int] = []
    hand.replicas.await_acks([wait], timeout_ms=100, on_done=lambda: done.append(wait.error_code))
    replaced(hand, led_by(BROKER_ID, isr=(1,)))
    assert done == []
    flush(partition.log)
    hand.replicas.on_flushed(ORDERS)
    assert done == [ErrorCode.NONE]


def test_what_was_settled_before_the_leadership_was_lost_stays_settled() -> None:
    hand = HandReplicas()
    other = TopicPartition("orders", 1)
    first, second = hand.add(FSYNC_EACH), hand.add(FSYNC_EACH, other)
    waits = [waiting(first), waiting(second)]
    done: list[int] = []
    hand.replicas.await_acks(waits, timeout_ms=100, on_done=lambda: done.append(1))
    flush(first.log)
    hand.replicas.on_flushed(ORDERS)
    for topic_partition in (ORDERS, other):
        hand.replicas.update_state(topic_partition, led_by(2))
    assert (done, [wait.error_code for wait in waits]) == ([1], [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])


def test_new_epoch_is_taken_up_by_the_next_append() -> None:
    hand = HandReplicas()
    partition = hand.add()
    append(partition)
    replaced(hand, led_by(BROKER_ID, epoch=7))
    append(partition)
    assert [partition.log.leader_epochs.epoch_of(offset) for offset in (0, 1)] == [3, 7]
