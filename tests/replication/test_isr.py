"""Who leaves the in-sync replicas, who joins them, and how that is written."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.replication.isr import RETRY_BACKOFF_MS
from ottla.storage.log_config import LogConfig
from tests.replication.leaders import EPOCH, LAG_MS, REFUSED, UNKNOWN, Leader, state_of
from tests.replication.partitions import ORDERS
from tests.storage.log_making import flush


def heard_of(*isr: int, config: LogConfig | None = None) -> Leader:
    """Followers that have fetched all of one record."""
    leader = Leader(state_of(*isr), config)
    leader.appended(1)
    for broker_id in (2, 3):
        if broker_id in leader.isr:
            leader.fetch(broker_id, 1)
    return leader


# Leaving


def test_follower_that_lags_for_too_long_leaves() -> None:
    leader = heard_of()
    leader.appended(1)
    leader.hand.advance(LAG_MS)
    leader.fetch(2, 2)
    leader.shrink()
    assert leader.writes == []
    leader.hand.advance(1)
    leader.shrink()
    assert [(write.isr, write.state.version, write.added) for write in leader.writes] == [((1, 2), 0, {})]


def test_followers_that_lag_leave_together_and_the_leader_stays() -> None:
    leader = heard_of()
    leader.appended(1)
    leader.hand.advance(LAG_MS + 1)
    leader.shrink()
    leader.writes[0].succeed()
    assert leader.isr == (1,)
    assert leader.high_watermark == 2


def test_follower_that_has_all_stays_however_long_nothing_comes() -> None:
    leader = heard_of()
    leader.hand.advance(100 * LAG_MS)
    leader.shrink()
    assert leader.writes == []


def test_idle_partition_that_its_follower_does_not_name_stays_caught_up_while_the_session_fetches() -> None:
    leader = heard_of()
    for _ in range(10):
        leader.hand.advance(LAG_MS // 2)
        leader.fetch_idly(2)
        leader.fetch_idly(3)
    leader.appended(1)
    leader.shrink()
    assert leader.writes == []
    leader.hand.advance(LAG_MS + 1)
    leader.fetch_idly(2)  # goes on with its session, but does not take the new record
    leader.shrink()
    assert leader.writes[0].isr == (1,)


def test_follower_whose_session_stood_still_lags_from_its_last_fetch_on() -> None:
    leader = heard_of()
    leader.hand.advance(LAG_MS + 1)
    leader.fetch_idly(2)
    leader.appended(1)
    leader.shrink()
    assert leader.writes[0].isr == (1, 2)


def test_follower_that_no_longer_fetches_the_partition_does_not_live_on_its_session() -> None:
    leader = heard_of()
    leader.partition.followers[3].leave_session(1)
    leader.hand.advance(LAG_MS + 1)
    leader.fetch_idly(2)
    leader.fetch_idly(3)
    leader.appended(1)
    leader.shrink()
    assert leader.writes[0].isr == (1, 2)


def test_follower_that_is_always_a_little_behind_stays() -> None:
    leader = heard_of()
    for end in range(2, 60):
        leader.appended(1)
        leader.hand.advance(LAG_MS // 3)
        leader.fetch(2, end - 1)
        leader.fetch(3, end)
        leader.shrink()
    assert leader.writes == []


def test_follower_whose_fsyncs_hang_leaves() -> None:
    leader = heard_of()
    for end in range(2, 40):
        leader.appended(1)
        leader.hand.advance(LAG_MS // 10)
        leader.fetch(2, end, durable=1)
        leader.fetch(3, end, durable=end - 1)
        leader.shrink()
    assert [write.isr for write in leader.writes] == [(1, 3)]


def test_follower_that_never_shows_up_after_an_election_leaves() -> None:
    leader = Leader()
    leader.hand.advance(LAG_MS)
    leader.shrink()
    assert leader.writes == []
    leader.hand.advance(1)
    leader.shrink()
    assert leader.writes[0].isr == (1,)


# Joining


@pytest.mark.parametrize(("offset", "joins"), [(1, False), (2, True), (3, True)])
def test_follower_joins_when_it_has_all_that_is_committed(offset: int, joins: bool) -> None:
    leader = Leader(state_of(1, 2))
    leader.appended(3)
    leader.fetch(2, 2)
    leader.fetch(3, offset)
    assert [write.isr for write in leader.writes] == [(1, 2, 3)] * joins


def test_follower_joins_when_it_has_the_committed_part_durably() -> None:
    leader = Leader(state_of(1, 2))
    leader.appended(3)
    leader.fetch(2, 3)
    leader.fetch(3, 3, durable=2)
    assert leader.writes == []
    leader.fetch(3, 3, durable=3)
    assert leader.writes[0].added == {3: 30}


def test_follower_joins_only_when_it_has_what_was_there_at_the_election() -> None:
    leader = Leader(state_of(1, 2))
    leader.appended(4)
    leader.replicas.apply_state(ORDERS, state_of(1, 2, epoch=5, version=1))
    assert leader.high_watermark == 0
    leader.fetch(3, 3)
    assert leader.writes == [], "committed records may be above the high watermark that a new leader knows"
    leader.fetch(3, 4)
    assert leader.writes[0].isr == (1, 2, 3)


@pytest.mark.parametrize(("live", "fetching"), [(None, 30), (31, 30), (30, 31), (30, -1), (None, -1), (-1, -1)])
def test_follower_joins_only_as_the_broker_that_is_registered_now(live: int | None, fetching: int) -> None:
    leader = Leader(state_of(1, 2))
    if live is None:
        del leader.live[3]
    else:
        leader.live[3] = live
    leader.fetch(3, 0, broker_epoch=fetching)
    leader.shrink()
    assert leader.writes == []


def test_follower_whose_registration_is_heard_of_later_joins_without_being_named() -> None:
    leader = Leader(state_of(1, 2))
    del leader.live[3]
    leader.fetch(2, 0)
    leader.fetch(3, 0)
    leader.live[3] = 30
    leader.shrink()
    assert leader.writes[0].added == {3: 30}


def test_follower_that_no_longer_fetches_does_not_join() -> None:
    leader = Leader(state_of(1, 2))
    del leader.live[3]
    leader.fetch(2, 0)
    leader.fetch(3, 0)
    leader.partition.followers[3].leave_session(0)
    leader.live[3] = 30
    leader.shrink()
    assert leader.writes == []


def test_broker_that_is_no_replica_does_not_join() -> None:
    leader = Leader(state_of(1, 2, replicas=(1, 2)))
    leader.fetch(3, 0)
    assert leader.writes == []


# Writing


def test_one_write_at_a_time_and_the_next_follower_when_it_is_done() -> None:
    leader = Leader(state_of(1))
    leader.fetch(2, 0)
    leader.fetch(3, 0)
    assert [write.isr for write in leader.writes] == [(1, 2)]
    leader.writes[0].succeed()
    assert [(write.isr, write.state.version) for write in leader.writes[1:]] == [((1, 2, 3), 1)]


def test_write_without_an_answer_is_asked_for_again_as_it_was() -> None:
    leader = Leader(state_of(1))
    leader.fetch(2, 0)
    leader.writes[0].answer(UNKNOWN)
    leader.fetch(3, 0)
    leader.replicas.shrink_isrs()
    assert len(leader.writes) == 1, "after a while"
    leader.hand.advance(RETRY_BACKOFF_MS)
    leader.replicas.shrink_isrs()
    assert (leader.writes[1].state, leader.writes[1].added) == (leader.writes[0].state, {2: 20})
    leader.writes[1].succeed()
    assert leader.isr == (1, 2)


def test_refused_write_is_decided_anew_after_a_while() -> None:
    leader = Leader(state_of(1))
    leader.fetch(2, 0)
    leader.writes[0].answer(REFUSED)
    leader.fetch(2, 0)
    assert len(leader.writes) == 1
    leader.hand.advance(RETRY_BACKOFF_MS)
    leader.fetch(2, 0, broker_epoch=21)  # it had registered anew
    assert len(leader.writes) == 1
    leader.live[2] = 21
    leader.replicas.shrink_isrs()
    assert leader.writes[1].added == {2: 21}


def test_newer_version_of_the_controller_overtakes_a_write() -> None:
    leader = Leader(state_of(1, 2))
    leader.fetch(2, 0)
    leader.fetch(3, 0)
    assert leader.replicas.apply_state(ORDERS, state_of(1, version=7)) == ErrorCode.NONE
    leader.fetch(2, 0)
    assert len(leader.writes) == 1, "the writer has not answered"
    leader.writes[0].succeed()
    assert (leader.isr, leader.partition.state.version) == ((1,), 7)
    leader.fetch(2, 0)
    assert (leader.writes[1].state.version, leader.writes[1].isr) == (7, (1, 2, 3))


def test_same_version_of_the_controller_leaves_a_write_alone() -> None:
    leader = Leader(state_of(1, 2))
    leader.fetch(3, 0)
    leader.replicas.apply_state(ORDERS, state_of(1, 2))
    leader.appended(1)
    leader.fetch(2, 1)
    assert leader.high_watermark == 0, "replica 3 counts: its addition is being written"
    leader.writes[0].succeed()
    assert leader.isr == (1, 2, 3)


def test_offline_partition_writes_nothing() -> None:
    leader = Leader()
    leader.replicas.take_offline([ORDERS])
    leader.hand.advance(LAG_MS + 1)
    leader.shrink()
    assert leader.writes == []


def test_only_partitions_with_followers_are_looked_at() -> None:
    leader = Leader()
    assert list(leader.replicas._led_with_followers) == [ORDERS]
    leader.replicas.apply_state(ORDERS, state_of(leader=2, epoch=EPOCH + 1, version=1))
    assert not leader.replicas._led_with_followers
    leader.replicas.apply_state(ORDERS, state_of(1, epoch=EPOCH + 2, replicas=(1,), version=2))
    assert not leader.replicas._led_with_followers


def test_sole_replica_that_was_given_followers_within_its_epoch_counts_them() -> None:
    leader = Leader(state_of(1, replicas=(1,)))
    leader.appended(2)
    leader.replicas.apply_state(ORDERS, state_of(1, 2, replicas=(1, 2), version=1))
    leader.appended(1)
    assert leader.high_watermark == 2
    leader.fetch(2, 3)
    assert leader.high_watermark == 3


def test_durable_end_of_the_leader_is_not_needed_to_be_in_sync() -> None:
    leader = heard_of(config=LogConfig(flush_messages=1))
    leader.hand.advance(LAG_MS * 2)
    leader.shrink()
    assert leader.writes == []
    flush(leader.partition.log)
    leader.replicas.on_flushed(ORDERS)
    assert leader.high_watermark == 1
