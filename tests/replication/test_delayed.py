"""Requests that wait: for the acks of a produce, for records, for a deletion."""

from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.replication.acks_wait import AcksWait
from ottla.replication.delayed_delete_records import DeleteRecordsWait
from ottla.replication.delayed_fetch import DelayedFetch
from ottla.replication.partition import Partition
from ottla.storage.log_config import LogConfig
from tests.replication.partitions import ORDERS, HandReplicas, append
from tests.storage.log_making import flush

FSYNC_EACH = LogConfig(flush_messages=1)
OTHER = TopicPartition("orders", 1)


class WaitingProduce:
    """A produce that waits for the ends of some partitions."""

    def __init__(self, hand: HandReplicas, *partitions: Partition, needs_all_replicas: bool = True) -> None:
        self.waits = [
            AcksWait(
                partition,
                next_offset=partition.log.log_end_offset,
                leader_epoch=partition.state.leader_epoch,
                needs_all_replicas=needs_all_replicas,
            )
            for partition in partitions
        ]
        self.done = 0
        self.operation = hand.replicas.await_acks(self.waits, timeout_ms=100, on_done=self._on_done)

    def _on_done(self) -> None:
        self.done += 1

    @property
    def error_codes(self) -> list[int]:
        return [wait.error_code for wait in self.waits]


def test_produce_that_is_acknowledged_does_not_wait() -> None:
    hand = HandReplicas()
    partition = hand.add()
    append(partition)
    waiting = WaitingProduce(hand, partition)
    assert (waiting.done, waiting.error_codes, hand.armed) == (1, [0], 0)


def test_produce_is_settled_by_the_high_watermark() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    append(partition)
    waiting = WaitingProduce(hand, partition)
    assert (waiting.done, hand.armed) == (0, 1)
    flush(partition.log)
    hand.replicas.on_flushed(ORDERS)
    assert (waiting.done, waiting.error_codes) == (1, [0])
    hand.advance(1000)
    assert waiting.done == 1


def test_fsync_that_began_before_the_append_does_not_settle_it() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    append(partition)
    job = partition.log.start_flush()
    assert job is not None
    append(partition)
    waiting = WaitingProduce(hand, partition)
    job.run()
    partition.log.finish_flush(job, now_ms=0)
    hand.replicas.on_flushed(ORDERS)
    assert (partition.high_watermark, waiting.done) == (1, 0)


def test_acks_of_the_leader_alone_is_settled_by_its_durable_end() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    append(partition)
    flush(partition.log)  # its durable end moves with the fsync, the high watermark only with the replicas
    assert (partition.durable_end_offset, partition.high_watermark) == (1, 0)
    assert WaitingProduce(hand, partition, needs_all_replicas=True).done == 0
    assert WaitingProduce(hand, partition, needs_all_replicas=False).done == 1


def test_produce_of_two_partitions_waits_for_both() -> None:
    hand = HandReplicas()
    first, second = hand.add(FSYNC_EACH), hand.add(FSYNC_EACH, OTHER)
    append(first)
    append(second)
    waiting = WaitingProduce(hand, first, second)
    flush(first.log)
    hand.replicas.on_flushed(ORDERS)
    assert waiting.done == 0
    flush(second.log)
    hand.replicas.on_flushed(OTHER)
    assert (waiting.done, waiting.error_codes) == (1, [0, 0])


def test_timeout_tells_error_7_for_what_is_missing_only() -> None:
    hand = HandReplicas()
    first, second = hand.add(FSYNC_EACH), hand.add(FSYNC_EACH, OTHER)
    append(first)
    append(second)
    waiting = WaitingProduce(hand, first, second)
    flush(first.log)
    hand.replicas.on_flushed(ORDERS)
    hand.advance(99)
    assert waiting.done == 0
    hand.advance(1)
    assert (waiting.done, waiting.error_codes) == (1, [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])


def test_partition_that_goes_offline_settles_with_a_storage_error() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    append(partition)
    waiting = WaitingProduce(hand, partition)
    hand.replicas.take_offline([ORDERS])
    assert (waiting.done, waiting.error_codes) == (1, [ErrorCode.KAFKA_STORAGE_ERROR])


def test_batch_that_was_settled_before_the_failure_stays_settled() -> None:
    hand = HandReplicas()
    first, second = hand.add(FSYNC_EACH), hand.add(FSYNC_EACH, OTHER)
    append(first)
    append(second)
    waiting = WaitingProduce(hand, first, second)
    flush(first.log)
    hand.replicas.on_flushed(ORDERS)
    hand.replicas.take_offline([ORDERS, OTHER])
    assert (waiting.done, waiting.error_codes) == (1, [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])


def test_abandoned_produce_is_never_told() -> None:
    hand = HandReplicas()
    partition = hand.add(FSYNC_EACH)
    append(partition)
    waiting = WaitingProduce(hand, partition)
    waiting.operation.abandon()
    hand.advance(1000)
    flush(partition.log)
    hand.replicas.on_flushed(ORDERS)
    assert (waiting.done, hand.waiting.produces.delayed) == (0, 0)


class Reading:
    """A read whose result the test sets."""

    def __init__(self) -> None:
        self.is_enough = False
        self.reads = 0

    def __call__(self) -> "Reading":
        self.reads += 1
        return self


def waiting_fetch(hand: HandReplicas, reading: Reading, done: list[Reading]) -> DelayedFetch[Reading]:
    fetch = DelayedFetch(reading, done.append)
    hand.waiting.watch(hand.waiting.fetches, fetch, [ORDERS], 100)
    return fetch


def test_fetch_that_has_enough_is_answered_with_that_one_read() -> None:
    hand, reading, done = HandReplicas(), Reading(), list[Reading]()
    reading.is_enough = True
    waiting_fetch(hand, reading, done)
    assert (done, reading.reads) == ([reading], 1)


def test_fetch_is_read_again_once_a_turn_however_many_appends() -> None:
    hand, reading, done = HandReplicas(), Reading(), list[Reading]()
    partition = hand.add()
    waiting_fetch(hand, reading, done)
    for _ in range(5):
        append(partition)
    assert (hand.marks, reading.reads) == (1, 1)
    hand.waiting.fetches.complete_marked()
    assert (done, reading.reads) == ([], 2)
    reading.is_enough = True
    append(partition)
    hand.waiting.fetches.complete_marked()
    assert (done, reading.reads) == ([reading], 3)


def test_fetch_is_answered_in_time_with_what_there_is_then() -> None:
    hand, reading, done = HandReplicas(), Reading(), list[Reading]()
    waiting_fetch(hand, reading, done)
    hand.advance(99)
    assert not done
    hand.advance(1)
    assert (done, reading.reads) == ([reading], 2)


def test_delete_records_of_a_lone_replica_does_not_wait() -> None:
    hand = HandReplicas()
    partition = hand.add()
    append(partition, 3)
    assert hand.replicas.delete_records_before(partition, 2) == ErrorCode.NONE
    wait = DeleteRecordsWait(partition, offset=2)
    done: list[int] = []
    hand.replicas.await_deletion([wait], timeout_ms=100, on_done=lambda: done.append(1))
    assert (done, wait.error_code) == ([1], ErrorCode.NONE)


def test_delete_records_waits_for_the_low_watermark_and_times_out() -> None:
    hand = HandReplicas()
    partition = hand.add()
    append(partition, 3)
    done: list[str] = []
    first, second = DeleteRecordsWait(partition, offset=2), DeleteRecordsWait(partition, offset=3)
    hand.replicas.await_deletion([first], timeout_ms=100, on_done=lambda: done.append("first"))
    hand.replicas.await_deletion([second], timeout_ms=100, on_done=lambda: done.append("second"))
    hand.replicas.delete_records_before(partition, 2)
    assert (done, first.error_code) == (["first"], ErrorCode.NONE)
    hand.advance(100)
    assert (done, second.error_code) == (["first", "second"], ErrorCode.REQUEST_TIMED_OUT)


def test_delete_records_that_times_out_names_only_what_is_missing() -> None:
    hand = HandReplicas()
    behind, there = hand.add(), hand.add(topic_partition=OTHER)
    append(behind, 3)
    append(there, 3)
    hand.replicas.delete_records_before(there, 3)
    waits = [DeleteRecordsWait(behind, offset=3), DeleteRecordsWait(there, offset=3)]
    hand.replicas.await_deletion(waits, timeout_ms=100, on_done=lambda: None)
    hand.advance(100)
    assert [wait.error_code for wait in waits] == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]


def test_delete_records_on_a_directory_that_fails_is_a_storage_error() -> None:
    hand = HandReplicas()
    partition = hand.add()
    append(partition, 3)
    wait = DeleteRecordsWait(partition, offset=2)
    done: list[int] = []
    hand.replicas.await_deletion([wait], timeout_ms=100, on_done=lambda: done.append(1))
    hand.replicas.take_offline([ORDERS])
    assert (done, wait.error_code) == ([1], ErrorCode.KAFKA_STORAGE_ERROR)
