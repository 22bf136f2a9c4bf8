"""The high watermark of a leader with followers: what is on all who may be elected."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.replication.ports import IsrWritten
from ottla.storage.log_config import LogConfig
from tests.replication.leaders import EPOCH, LAG_MS, REFUSED, UNKNOWN, Leader, state_of
from tests.replication.partitions import ORDERS
from tests.storage.log_making import NOW_MS, batch, flush


def test_smallest_end_of_the_in_sync_replicas_counts() -> None:
    leader = Leader()
    leader.appended(5)
    assert leader.high_watermark == 0
    leader.fetch(2, 4)
    assert leader.high_watermark == 0, "nothing is known of replica 3"
    leader.fetch(3, 2)
    assert leader.high_watermark == 2
    leader.fetch(3, 5)
    assert leader.high_watermark == 4


def test_own_log_counts_like_that_of_a_follower() -> None:
    leader = Leader(config=LogConfig(flush_messages=1))
    leader.appended(3)
    leader.fetch(2, 3)
    leader.fetch(3, 3)
    assert leader.high_watermark == 0
    flush(leader.partition.log)
    leader.replicas.on_flushed(ORDERS)
    assert leader.high_watermark == 3


def test_follower_counts_up_to_what_it_says_is_durable() -> None:
    leader = Leader()
    leader.appended(5)
    leader.fetch(2, 5, durable=2)
    leader.fetch(3, 5, durable=9)
    assert leader.high_watermark == 2
    leader.fetch(2, 5, durable=5)
    assert leader.high_watermark == 5


def test_replica_that_is_not_in_sync_does_not_count() -> None:
    leader = Leader(state_of(1, 2))
    leader.appended(3)
    leader.fetch(2, 3)
    assert leader.high_watermark == 3


def test_follower_that_starts_again_behind_does_not_take_it_back() -> None:
    leader = Leader()
    leader.appended(5)
    leader.fetch(2, 5)
    leader.fetch(3, 5)
    leader.fetch(2, 1, broker_epoch=21)
    assert leader.high_watermark == 5
    leader.appended(1)
    leader.fetch(3, 6)
    assert leader.high_watermark == 5


def test_offset_behind_the_end_of_the_log_says_nothing() -> None:
    leader = Leader(state_of(1, 2))
    leader.appended(2)
    leader.fetch(2, 3)
    assert leader.high_watermark == 0


def test_fetch_of_a_broker_that_has_no_replica_says_nothing() -> None:
    leader = Leader(state_of(1, replicas=(1, 2)))
    leader.appended(2)
    leader.partition.on_follower_fetch(
        7, broker_epoch=1, fetch_offset=0, durable_offset=-1, log_start_offset=0, now_ms=0
    )
    assert leader.high_watermark == 2


# While the in-sync replicas are being written


def lagging() -> Leader:
    """Replica 3 is about to be dropped; 2 has all five records."""
    leader = Leader()
    leader.fetch(2, 0)
    leader.fetch(3, 0)
    leader.appended(5)
    leader.hand.advance(LAG_MS + 1)
    leader.fetch(2, 5)
    leader.shrink()
    (write,) = leader.writes
    assert write.isr == (1, 2)
    return leader


def test_removal_counts_only_when_it_is_written() -> None:
    leader = lagging()
    assert leader.high_watermark == 0
    leader.writes[0].succeed()
    assert (leader.high_watermark, leader.isr, leader.partition.state.version) == (5, (1, 2), 1)


@pytest.mark.parametrize("result", [REFUSED, UNKNOWN])
def test_removal_that_is_perhaps_not_written_does_not_count(result: object) -> None:
    leader = lagging()
    leader.writes[0].answer(result)  # type: ignore[arg-type]
    assert (leader.high_watermark, leader.isr) == (0, (1, 2, 3))


def joining() -> Leader:
    """Replica 3 has caught up, and its addition is being written."""
    leader = Leader(state_of(1, 2))
    leader.appended(2)
    leader.fetch(2, 2)
    leader.fetch(3, 2)
    (write,) = leader.writes
    assert (write.isr, write.added) == ((1, 2, 3), {3: 30})
    return leader


@pytest.mark.parametrize("is_unknown", [False, True])
def test_addition_counts_from_the_moment_it_is_asked_for(is_unknown: bool) -> None:
    leader = joining()
    if is_unknown:
        leader.writes[0].answer(UNKNOWN)
    leader.live.clear()  # so that it does not count as one that is about to join
    leader.appended(1)
    leader.fetch(2, 3)
    assert leader.high_watermark == 2
    leader.fetch(3, 3)
    assert leader.high_watermark == 3


def test_addition_that_is_refused_counts_no_longer() -> None:
    leader = joining()
    leader.live.clear()
    leader.appended(1)
    leader.fetch(2, 3)
    leader.writes[0].answer(REFUSED)
    assert (leader.high_watermark, leader.isr) == (3, (1, 2))


def test_follower_that_is_about_to_join_is_waited_for_as_long_as_it_may_lag() -> None:
    leader = Leader(state_of(1, replicas=(1, 2)))
    leader.fetch(2, 0)
    leader.writes.pop().answer(REFUSED)
    leader.appended(3)
    assert leader.high_watermark == 0
    leader.hand.advance(LAG_MS)
    leader.replicas.shrink_isrs()
    assert leader.high_watermark == 0
    leader.writes.pop().answer(REFUSED)
    leader.hand.advance(LAG_MS)
    leader.shrink()
    assert leader.high_watermark == 3


# Below the minimum


def test_it_stands_still_below_the_minimum() -> None:
    leader = Leader(state_of(1, 2, replicas=(1, 2)), LogConfig(min_insync_replicas=2))
    leader.fetch(2, 0)
    leader.appended(2)
    leader.hand.advance(LAG_MS + 1)
    leader.shrink()
    leader.writes[0].succeed()
    assert (leader.isr, leader.high_watermark) == ((1,), 0)
    leader.fetch(2, 2)
    leader.writes[1].succeed()
    assert (leader.isr, leader.high_watermark) == ((1, 2), 2)


def test_minimum_above_the_number_of_replicas_does_not_stop_it() -> None:
    leader = Leader(state_of(1, 2, replicas=(1, 2)), LogConfig(min_insync_replicas=3))
    leader.appended(2)
    leader.fetch(2, 2)
    assert leader.high_watermark == 2


# After an election


def test_new_epoch_forgets_how_far_followers_were() -> None:
    leader = Leader()
    leader.appended(3)
    leader.fetch(2, 3)
    leader.fetch(3, 1)
    assert leader.replicas.apply_state(ORDERS, state_of(epoch=5, version=1)) == ErrorCode.NONE
    assert leader.high_watermark == 1
    leader.fetch(3, 3)
    assert leader.high_watermark == 1, "replica 2 has not fetched in this epoch"
    leader.fetch(2, 3)
    assert leader.high_watermark == 3


def test_epoch_is_noted_at_the_election_where_the_log_ends() -> None:
    leader = Leader(state_of(leader=2))
    log = leader.partition.log
    info = leader.partition.append_as_follower(batch(b"a", b"b", leader_epoch=EPOCH), leader_epoch=EPOCH, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.NONE
    leader.replicas.apply_state(ORDERS, state_of(epoch=6, version=1))
    assert log.leader_epochs.entries() == [(EPOCH, 0), (6, 2)]
    assert not leader.partition.is_latest_offset_known
    leader.fetch(2, 2)
    leader.fetch(3, 1)
    assert not leader.partition.is_latest_offset_known
    leader.fetch(3, 2)
    assert leader.partition.is_latest_offset_known


def test_write_of_an_older_epoch_changes_nothing() -> None:
    leader = lagging()
    leader.replicas.apply_state(ORDERS, state_of(epoch=5, version=1))
    leader.writes[0].answer(IsrWritten(1))
    assert (leader.isr, leader.high_watermark) == ((1, 2, 3), 0)


def test_deposed_leader_moves_nothing() -> None:
    leader = Leader(state_of(1, 2, replicas=(1, 2)))
    leader.appended(3)
    leader.replicas.apply_state(ORDERS, state_of(1, 2, leader=2, epoch=5, replicas=(1, 2), version=1))
    leader.fetch(2, 3)
    leader.shrink()
    leader.replicas.on_flushed(ORDERS)
    assert (leader.high_watermark, leader.writes) == (0, [])
