"""When a batch is acknowledged under acks=all, and what its producer hears instead."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.replication.partition import ACKS_ALL
from ottla.storage.log_config import LogConfig
from tests.replication.leaders import LAG_MS, REFUSED, UNKNOWN, Leader, state_of
from tests.replication.partitions import ORDERS
from tests.storage.log_making import NOW_MS, batch

TWO = LogConfig(min_insync_replicas=2)


def test_acks_all_waits_for_every_in_sync_replica() -> None:
    leader = Leader()
    done = leader.await_acks(leader.append())
    leader.fetch(2, 1)
    leader.hand.turn()
    assert done == []
    leader.fetch(3, 1)
    leader.hand.turn()
    assert done == [ErrorCode.NONE]


def test_acks_one_waits_for_nobody() -> None:
    assert Leader().append(acks=1) is None


def test_batch_on_too_few_replicas_is_not_taken() -> None:
    leader = Leader(state_of(1), TWO)
    info, _ = leader.partition.append(batch(b"v"), acks=ACKS_ALL, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.append(acks=1) is None


def shrunk_after_append(config: LogConfig) -> tuple[Leader, list[ErrorCode]]:
    leader = Leader(state_of(1, 2, replicas=(1, 2)), config)
    leader.fetch(2, 0)
    done = leader.await_acks(leader.append())
    leader.hand.advance(LAG_MS + 1)
    leader.shrink()
    return leader, done


def test_in_sync_replicas_below_the_minimum_after_the_append_are_error_20() -> None:
    leader, done = shrunk_after_append(TWO)
    leader.hand.turn()
    assert done == [], "the removal is not written yet"
    leader.writes[0].succeed()
    leader.hand.turn()
    assert done == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert leader.partition.log.log_end_offset == 1, "it is written"


def test_in_sync_replicas_that_are_still_enough_acknowledge_after_the_removal() -> None:
    leader, done = shrunk_after_append(LogConfig())
    leader.writes[0].succeed()
    leader.hand.turn()
    assert done == [ErrorCode.NONE]


@pytest.mark.parametrize("result", [REFUSED, UNKNOWN])
def test_removal_that_is_perhaps_not_written_acknowledges_nothing(result: object) -> None:
    leader, done = shrunk_after_append(LogConfig())
    leader.writes[0].answer(result)  # type: ignore[arg-type]
    leader.hand.turn()
    assert done == []


def test_what_was_acknowledged_before_stays_so_below_the_minimum() -> None:
    leader = Leader(state_of(1, 2, replicas=(1, 2)), TWO)
    wait = leader.append()
    leader.fetch(2, 1)
    leader.replicas.apply_state(ORDERS, state_of(1, replicas=(1, 2), version=1))
    assert leader.await_acks(wait) == [ErrorCode.NONE]


@pytest.mark.parametrize("leader_id", [1, 2, -1])
def test_wait_ends_with_its_leader_epoch(leader_id: int) -> None:
    leader = Leader()
    done = leader.await_acks(leader.append())
    leader.replicas.apply_state(ORDERS, state_of(leader=leader_id, epoch=5, version=1))
    assert done == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_partitioned_leader_acknowledges_nothing_in_time() -> None:
    leader = Leader()
    done = leader.await_acks(leader.append())
    for _ in range(12):
        leader.hand.advance(5_000)
        leader.shrink()
        for write in leader.writes:
            write.answer(REFUSED)
        leader.hand.turn()
    assert done == [ErrorCode.REQUEST_TIMED_OUT]


def test_batch_is_acknowledged_by_an_append_that_lets_the_high_watermark_go_on() -> None:
    leader = Leader(state_of(1, replicas=(1, 2)))
    leader.fetch(2, 0)
    leader.writes.pop().answer(REFUSED)
    done = leader.await_acks(leader.append())
    leader.live.clear()  # the follower that was waited for is gone
    assert leader.append() is None
    leader.hand.turn()
    assert done == [ErrorCode.NONE]


def test_delete_records_waits_for_the_followers_that_live() -> None:
    leader = Leader()
    leader.appended(3)
    del leader.live[3]
    for broker_id in (2, 3):
        leader.fetch(broker_id, 3)
    partition = leader.partition
    assert leader.replicas.delete_records_before(partition, 2) == ErrorCode.NONE
    assert partition.low_watermark == 0
    leader.fetch(2, 3, start=2)
    assert partition.low_watermark == 2
