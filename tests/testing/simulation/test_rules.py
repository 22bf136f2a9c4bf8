"""Each rule of a run: what breaks it, and what looks much like that and does not."""

from collections.abc import Callable

import pytest

from ottla.core.types import TopicPartition
from ottla.records.build import build_batch
from ottla.records.header import read_header
from ottla.testing.simulation import rules
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.history import UNKNOWN_OFFSET, History
from ottla.testing.simulation.replica_logs import PartitionAtEnd, ReplicaLog, StoredBatch, read_replica
from tests.replication.partitions import append, make_partition
from tests.storage.log_making import NOW_MS

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def sent(*values: bytes, is_idempotent: bool = False) -> History:
    history = History()
    for value in values:
        history.sent(value, "producer", ORDERS, is_idempotent=is_idempotent)
    return history


def breaks(rule: Callable[[History], None], history: History, detail: str) -> None:
    with pytest.raises(BrokenRule, match=detail) as raised:
        rule(history)
    assert str(raised.value) == f"{raised.value.name}: {raised.value.detail}"


# Over the history


def test_every_value_read_was_sent() -> None:
    history = sent(b"a")
    history.read(ORDERS, 0, b"a", "consumer")
    rules.every_value_read_was_sent(history)
    history.read(ORDERS, 1, b"b", "consumer")
    breaks(rules.every_value_read_was_sent, history, "consumer read b'b' at orders-0 offset 1")


def test_value_of_another_partition_was_not_sent_to_this_one() -> None:
    history = sent(b"a")
    history.read(OTHER, 0, b"a", "consumer")
    breaks(rules.every_value_read_was_sent, history, "orders-1 offset 0")


def test_one_value_per_offset() -> None:
    history = sent(b"a", b"b")
    history.acked(b"a", ORDERS, 0, 3)
    history.read(ORDERS, 0, b"a", "one")
    history.read(ORDERS, 0, b"a", "two")
    history.acked(b"b", OTHER, 0)
    history.acked(b"b", ORDERS, 0, acks=1)  # promises nothing
    history.acked(b"b", ORDERS, UNKNOWN_OFFSET)
    rules.one_value_per_offset(history)
    history.read(ORDERS, 0, b"b", "three")
    breaks(rules.one_value_per_offset, history, "offset 0: b'a' .acked in leader epoch 3.*, then b'b' .read by three")
    history.may_lose(ORDERS, "unclean election")
    rules.one_value_per_offset(history)


@pytest.mark.parametrize("offsets", [(0, 2), (0, 0), (5, 4)])
def test_no_gaps_or_inversions_in_a_read(offsets: tuple[int, int]) -> None:
    history = History()
    for offset in offsets:
        history.read(ORDERS, offset, b"a", "consumer")
    breaks(rules.no_gaps_or_inversions_in_a_read, history, f"offset {offsets[0]}, then {offsets[1]}")


def test_reader_may_begin_anywhere_and_seek() -> None:
    history = History()
    for offset in (7, 8):
        history.read(ORDERS, offset, b"a", "consumer")
    history.sought(ORDERS, "consumer")
    for offset in (2, 3):
        history.read(ORDERS, offset, b"a", "consumer")
    history.read(OTHER, 0, b"a", "consumer")
    history.read(ORDERS, 0, b"a", "another")
    rules.no_gaps_or_inversions_in_a_read(history)


def test_reader_may_be_reset_to_the_start_of_a_log_that_was_moved() -> None:
    history = History()
    for offset in (2, 3, 7, 8):
        history.read(ORDERS, offset, b"a", "consumer")
    history.deletion_asked(ORDERS, 9)
    rules.no_gaps_or_inversions_in_a_read(history)
    history.read(ORDERS, 10, b"a", "consumer")
    breaks(rules.no_gaps_or_inversions_in_a_read, history, "offset 8, then 10")


def test_no_value_twice() -> None:
    for is_idempotent in (False, True):
        history = sent(b"a", is_idempotent=is_idempotent)
        history.acked(b"a", ORDERS, 0)
        history.read(ORDERS, 0, b"a", "one")
        history.read(ORDERS, 0, b"a", "two")
        rules.no_value_twice(history)
        history.read(ORDERS, 1, b"a", "one")
        if is_idempotent:
            breaks(rules.no_value_twice, history, "b'a' of producer at offset 0 .* and 1")
        else:
            rules.no_value_twice(history)


def test_one_owner_per_partition_and_generation() -> None:
    history = History()
    history.owned("group", 1, "one", ORDERS)
    history.owned("group", 1, "one", ORDERS)
    history.owned("group", 1, "two", OTHER)
    history.owned("group", 2, "two", ORDERS)
    history.owned("others", 1, "three", ORDERS)
    rules.one_owner_per_partition_and_generation(history)
    history.owned("group", 2, "one", ORDERS)
    breaks(rules.one_owner_per_partition_and_generation, history, "generation 2: orders-0 belongs to two and one")


def test_commits_are_kept() -> None:
    history = History()
    history.commit_read("group", ORDERS, -1)
    history.commit_sent("group", ORDERS, 5)
    history.commit_read("group", ORDERS, 5)
    history.commit_read("group", ORDERS, -1)
    history.commit_acked("group", ORDERS, 5)
    history.commit_read("group", ORDERS, 5)
    history.commit_sent("group", ORDERS, 8)  # never answered
    history.commit_sent("group", ORDERS, 9)
    history.commit_acked("group", ORDERS, 9)
    history.commit_read("group", ORDERS, 9)
    history.commit_read("group", ORDERS, 8)
    history.commit_read("others", ORDERS, -1)
    rules.commits_are_kept(history)
    history.commit_read("group", ORDERS, 5)
    breaks(rules.commits_are_kept, history, r"group group, orders-0: 5 read, \[8, 9\] are possible")


def test_commit_that_was_acknowledged_is_not_forgotten() -> None:
    history = History()
    history.commit_sent("group", ORDERS, 5)
    history.commit_acked("group", ORDERS, 5)
    history.commit_read("group", ORDERS, -1)
    breaks(rules.commits_are_kept, history, "-1 read")


# Over what the replicas hold


def stored(
    value: bytes, offset: int, *, leader_epoch: int = 0, producer_id: int = -1, sequence: int = -1
) -> StoredBatch:
    data = bytes(
        build_batch(
            [(NOW_MS, None, value, ())],
            base_offset=offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
    )
    return StoredBatch(read_header(data), data)


def replica(broker_id: int, *batches: StoredBatch, high_watermark: int | None = None, start: int = 0) -> ReplicaLog:
    end = batches[-1].header.next_offset if batches else start
    return ReplicaLog(broker_id, start, end if high_watermark is None else high_watermark, end, batches)


def at_end(*replicas: ReplicaLog, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionAtEnd:
    return PartitionAtEnd(ORDERS, leader, isr, replicas)


A, B, C = stored(b"a", 0), stored(b"b", 1), stored(b"c", 2)


def test_no_log_starts_later_than_asked() -> None:
    history = sent(b"a", b"b", b"c")
    rules.no_log_starts_later_than_asked(history, at_end(replica(1, A, B, C)))
    history.deletion_asked(ORDERS, 1)
    for start in (0, 1):
        rules.no_log_starts_later_than_asked(history, at_end(replica(1, A, B, C, start=start)))
    with pytest.raises(BrokenRule, match="at 2 on leader 1, 1 was asked for"):
        rules.no_log_starts_later_than_asked(history, at_end(replica(1, C, start=2)))


def test_acked_records_are_readable() -> None:
    history = sent(b"a", b"b", b"x")
    history.acked(b"a", ORDERS, 0, 4)
    history.acked(b"b", ORDERS, 1, 4)
    history.acked(b"b", ORDERS, UNKNOWN_OFFSET)
    history.acked(b"x", OTHER, 0)
    rules.acked_records_are_readable(history, at_end(replica(1, A, B)))
    # Retention and deletion of records are allowed to remove it.
    rules.acked_records_are_readable(history, at_end(replica(1, B, start=1)))
    for log in (replica(1, A), replica(1, A, B, high_watermark=1), replica(1, A, stored(b"x", 1))):
        with pytest.raises(BrokenRule, match=r"offset 1: b'b' acked in leader epoch 4, .* found at leader 1"):
            rules.acked_records_are_readable(history, at_end(log))


def test_acked_record_whose_offset_is_unknown_is_somewhere() -> None:
    history = sent(b"b")
    history.acked(b"b", ORDERS, UNKNOWN_OFFSET)
    rules.acked_records_are_readable(history, at_end(replica(1, A, B)))
    with pytest.raises(BrokenRule, match="b'b' acked"):
        rules.acked_records_are_readable(history, at_end(replica(1, A)))


def test_partition_without_a_live_leader_has_not_settled() -> None:
    with pytest.raises(BrokenRule, match=r"leader 3 is none of the live replicas \[1\]"):
        rules.acked_records_are_readable(History(), at_end(replica(1), leader=3))


def test_records_once_read_stay_readable() -> None:
    history = sent(b"a", b"b")
    history.read(ORDERS, 1, b"b", "consumer")
    history.read(OTHER, 7, b"b", "consumer")
    rules.records_once_read_stay_readable(history, at_end(replica(1, A, B)))
    rules.records_once_read_stay_readable(history, at_end(replica(1, C, start=2)))
    with pytest.raises(BrokenRule, match="consumer read b'b', None found"):
        rules.records_once_read_stay_readable(history, at_end(replica(1, A)))


def test_replicas_agree_below_the_high_watermark() -> None:
    other_b = stored(b"b", 1, leader_epoch=1)
    for agreeing in (
        (replica(1, A, B, C), replica(2, A, B, high_watermark=1)),
        (replica(1, A, B, C, high_watermark=1), replica(2, A, other_b, high_watermark=1)),
        (replica(1, A, B, C), replica(2, B, C, start=1)),
    ):
        rules.replicas_agree_below_the_high_watermark(at_end(*agreeing))
    for broken in ((replica(1, A, B, C), replica(2, A, other_b)), (replica(1, A, B, C), replica(2, A, C))):
        with pytest.raises(BrokenRule, match="orders-0 offset 1: broker 2 and leader 1 differ"):
            rules.replicas_agree_below_the_high_watermark(at_end(*broken))


def test_in_sync_replicas_have_what_is_committed() -> None:
    rules.in_sync_replicas_have_what_is_committed(at_end(replica(1, A, B, high_watermark=1), replica(2, A)))
    rules.in_sync_replicas_have_what_is_committed(at_end(replica(1, A, B), replica(3, A)))
    with pytest.raises(BrokenRule, match="in-sync replica 2 ends at 1, the high watermark of leader 1 is 2"):
        rules.in_sync_replicas_have_what_is_committed(at_end(replica(1, A, B), replica(2, A)))


def test_no_duplicate_per_producer_sequence() -> None:
    first = stored(b"a", 0, producer_id=9, sequence=0)
    log = replica(
        1, first, stored(b"b", 1, producer_id=9, sequence=1), stored(b"c", 2, producer_id=8, sequence=0), C, C
    )
    rules.no_duplicate_per_producer_sequence(ORDERS, log)
    again = replica(1, first, stored(b"a", 1, producer_id=9, sequence=0))
    with pytest.raises(BrokenRule, match="producer 9, epoch 0, sequence 0 at offsets 0 and 1 of broker 1"):
        rules.no_duplicate_per_producer_sequence(ORDERS, again)


# All of them


def test_replica_is_read_out_of_a_partition() -> None:
    partition = make_partition()
    for messages in (1, 2):
        append(partition, messages)
    log = read_replica(partition, 1)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 3, 3)
    assert log.values == {0: b"v0", 1: b"v0", 2: b"v1"}
    assert [batch.header.base_offset for batch in log.batches] == [0, 1]
    assert sum(len(batch.data) for batch in log.batches) == partition.log.size_bytes


def test_run_without_a_fault_breaks_no_rule() -> None:
    history = sent(b"a", b"b")
    history.acked(b"a", ORDERS, 0)
    history.read(ORDERS, 0, b"a", "consumer")
    history.read(ORDERS, 1, b"b", "consumer")
    rules.check_run(history, [at_end(replica(1, A, B), replica(2, A, B))])


def test_partition_that_may_lose_records_is_not_judged_by_its_log() -> None:
    history = sent(b"a")
    history.acked(b"a", ORDERS, 0)
    with pytest.raises(BrokenRule):
        rules.check_run(history, [at_end(replica(1))])
    history.may_lose(ORDERS, "unclean election")
    rules.check_run(history, [at_end(replica(1))])


def test_deleted_topic_is_forgotten() -> None:
    history = sent(b"a")
    history.acked(b"a", ORDERS, 0)
    history.read(ORDERS, 0, b"a", "consumer")
    history.commit_sent("group", ORDERS, 1)
    history.commit_acked("group", ORDERS, 1)
    history.deleted("orders")
    history.commit_read("group", ORDERS, -1)
    rules.check_run(history, [at_end(replica(1))])
