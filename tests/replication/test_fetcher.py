"""The fetcher of one leader: what it asks for, what it makes of answers, when it asks again."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.storage.log_config import LogConfig
from tests.replication.follower_rig import EPOCH, Rig, values
from tests.replication.following import (
    BROKER_EPOCH,
    FOLLOWER_ID,
    TOPIC_ID,
    StandInLeader,
    following,
)
from tests.storage.log_making import append, flush


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_follower_gets_what_the_leader_has_and_then_waits_for_more(rig: Rig) -> None:
    leader_log, partition = rig.add()
    append(leader_log, b"a", b"b", leader_epoch=EPOCH)
    rig.loop.run()
    assert values(partition.log) == [b"a", b"b"]
    append(leader_log, b"c", leader_epoch=EPOCH)
    rig.lead().high_watermark = 2
    rig.leader.wake()
    rig.loop.run()
    assert values(partition.log) == [b"a", b"b", b"c"]
    assert partition.high_watermark == 2
    assert partition.log.leader_epochs.entries() == [(EPOCH, 0)]
    assert rig.leader.is_waited_for == 1


def test_request_says_who_follows_and_from_where(rig: Rig) -> None:
    leader_log, _ = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH - 1)
    append(leader_log, b"b", leader_epoch=EPOCH)
    rig.loop.run()
    first, second = rig.leader.requests[0], rig.leader.requests[1]
    assert (first.replica_id, first.replica_epoch) == (FOLLOWER_ID, BROKER_EPOCH)
    assert (first.session_epoch, second.session_epoch) == (0, 1)
    assert (first.max_wait_ms, second.max_wait_ms) == (0, 500)
    ((topic, (asked,)),) = first.topics
    assert topic == TOPIC_ID
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (0, -1, EPOCH)
    ((_, (asked,)),) = second.topics
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.durable_offset) == (2, EPOCH, -1)


def test_next_request_goes_out_in_the_turn_of_the_answer(rig: Rig) -> None:
    leader_log, partition = rig.add()
    rig.loop.run()
    append(leader_log, b"a", leader_epoch=EPOCH)
    before = len(rig.leader.requests)
    rig.leader.wake()
    rig.loop.soon.pop(0)()  # the answer arrives
    assert partition.log.log_end_offset == 1
    assert len(rig.leader.requests) == before + 1


def test_session_names_only_partitions_that_changed(rig: Rig) -> None:
    logs = [rig.add(number)[0] for number in range(50)]
    rig.settle()
    assert len(rig.named(0)) == 50
    append(logs[7], b"a", leader_epoch=EPOCH)
    rig.lead(9).high_watermark = 0
    rig.leader.wake()
    rig.loop.run()
    assert rig.named() == [7]


def test_high_watermark_alone_is_no_reason_to_name_a_partition(rig: Rig) -> None:
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.settle()
    rig.lead().high_watermark = 1
    rig.leader.wake()
    rig.loop.run()
    assert partition.high_watermark == 1
    assert rig.named() == []


@pytest.mark.parametrize(
    "error_code",
    [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH],
    ids=lambda one: one.name,
)
def test_lost_session_is_followed_by_a_full_fetch_at_once(rig: Rig, error_code: ErrorCode) -> None:
    leader_log, partition = rig.add()
    rig.loop.run()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.leader.error_code = error_code
    rig.leader.wake()
    rig.loop.soon.pop(0)()
    rig.leader.error_code = ErrorCode.NONE
    assert (rig.leader.requests[-1].session_epoch, rig.named()) == (0, [0])
    assert rig.leader.requests[-1].session_id != 0  # the leader may drop it
    rig.loop.run()
    assert values(partition.log) == [b"a"]


def test_removed_partition_is_forgotten_and_its_answer_not_taken(rig: Rig) -> None:
    logs = [rig.add(number) for number in range(2)]
    rig.settle()
    rig.fetcher.remove((TOPIC_ID, 0))
    append(logs[0][0], b"a", leader_epoch=EPOCH)
    append(logs[1][0], b"b", leader_epoch=EPOCH)
    rig.settle()
    assert any(request.forgotten_topics == [(TOPIC_ID, [0])] for request in rig.leader.requests)
    assert logs[0][1].log.log_end_offset == 0
    assert values(logs[1][1].log) == [b"b"]


def test_last_partition_that_goes_ends_the_session_and_the_fetching(rig: Rig) -> None:
    rig.add()
    rig.settle()
    rig.fetcher.remove((TOPIC_ID, 0))
    rig.settle()
    assert rig.leader.requests[-1].session_epoch == -1
    assert len(rig.leader.sessions) == 0
    count = len(rig.leader.requests)
    rig.loop.advance(10_000)
    assert len(rig.leader.requests) == count


def test_partition_that_comes_while_the_leader_waits_is_fetched_at_once(rig: Rig) -> None:
    rig.add(0)
    rig.loop.run()
    rig.loop.advance(100)
    assert rig.leader.is_waited_for == 1
    leader_log, partition = rig.add(1)
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.loop.run()
    assert values(partition.log) == [b"a"]


def test_second_request_waits_while_an_answer_is_likely_to_come(rig: Rig) -> None:
    rig.add(0)
    rig.loop.run()
    count = len(rig.leader.requests)
    rig.add(1)
    rig.loop.run()
    assert len(rig.leader.requests) == count
    rig.loop.advance(2)
    assert rig.named(count) == [1]


def test_new_leader_epoch_of_the_same_leader_is_fetched_in(rig: Rig) -> None:
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.settle()
    rig.lead().leader_epoch = EPOCH + 1
    rig.lead().high_watermark = 1
    partition.state = following(EPOCH + 1)
    rig.fetcher.add(partition, leader_epoch=EPOCH + 1)
    append(leader_log, b"b", leader_epoch=EPOCH + 1)
    rig.settle()
    assert values(partition.log) == [b"a", b"b"]
    assert partition.high_watermark == 1


@pytest.mark.parametrize(
    "error_code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
    ids=lambda one: one.name,
)
def test_partition_with_an_error_backs_off_and_the_others_go_on(rig: Rig, error_code: ErrorCode) -> None:
    logs = [rig.add(number) for number in range(2)]
    rig.lead(0).error_code = error_code
    rig.loop.run()
    for leader_log, _ in logs:
        append(leader_log, b"a", leader_epoch=EPOCH)
    rig.leader.wake()
    rig.loop.run()
    assert [partition.log.log_end_offset for _, partition in logs] == [0, 1]
    asked = sum(0 in rig.named(index) for index in range(len(rig.leader.requests)))
    rig.lead(0).error_code = ErrorCode.NONE
    rig.loop.advance(2_000)
    assert logs[0][1].log.log_end_offset == 1
    assert asked == 1


def test_back_off_grows_up_to_its_limit(rig: Rig) -> None:
    rig.add()
    rig.lead().error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.loop.advance(1_000)
    early = len(rig.leader.requests)
    rig.loop.advance(100_000)
    # Each time a full request, and one that ends the session.
    assert 5 <= early <= 20
    assert (len(rig.leader.requests) - early) / 2 == pytest.approx(100, rel=0.3)


def test_broker_that_is_not_reached_is_tried_again(rig: Rig) -> None:
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.leader.is_reachable = False
    rig.loop.advance(10_000)
    assert 10 < len(rig.leader.requests) < 25
    rig.leader.is_reachable = True
    rig.loop.advance(1_500)
    assert values(partition.log) == [b"a"]


def test_lost_connection_begins_a_new_session_and_closes_the_old_one(rig: Rig) -> None:
    leader_log, partition = rig.add()
    rig.settle()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.leader.disconnect()
    rig.loop.advance(100)
    assert values(partition.log) == [b"a"]
    assert len(rig.leader.sessions) == 1


def test_another_channel_takes_over(rig: Rig) -> None:
    leader_log, partition = rig.add()
    rig.settle()
    moved = StandInLeader(rig.loop)
    moved.logs = rig.leader.logs
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.fetcher.use_channel(moved)
    rig.loop.run()
    assert rig.leader.is_closed
    assert values(partition.log) == [b"a"]


def test_closed_fetcher_takes_and_sends_nothing(rig: Rig) -> None:
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.loop.soon.pop(0)()
    rig.fetcher.close()
    rig.loop.advance(10_000)
    assert partition.log.log_end_offset == 0
    assert len(rig.leader.requests) == 1


def test_leader_without_room_for_sessions_is_asked_in_full_each_time(rig: Rig) -> None:
    rig.leader.sessions._slots = 0
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    for _ in range(20):
        rig.loop.soon.pop(0)()
    assert values(partition.log) == [b"a"]
    assert {request.session_epoch for request in rig.leader.requests} == {0}
    # The leader must be able to wait, or they would never rest.
    assert {request.max_wait_ms for request in rig.leader.requests[1:]} == {500}


# Damage


def test_damaged_answer_is_fetched_again(rig: Rig) -> None:
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.lead().spoil = lambda records: records[:-1] + bytes([records[-1] ^ 1])
    rig.loop.run()
    assert partition.log.log_end_offset == 0
    rig.lead().spoil = None
    rig.loop.advance(100)
    assert values(partition.log) == [b"a"]


def test_follower_of_a_damaged_log_stops_and_keeps_its_good_copy(rig: Rig) -> None:
    leader_log, partition = rig.add()
    other_log, other = rig.add(1)
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.settle()
    rig.lead().spoil = lambda records: records[:-1] + bytes([records[-1] ^ 1])
    append(leader_log, b"b", leader_epoch=EPOCH)
    rig.leader.wake()
    rig.loop.advance(5_000)
    assert values(partition.log) == [b"a"]
    assert rig.fetcher.followed[(TOPIC_ID, 0)].is_stopped
    asked = len(rig.leader.requests)
    append(other_log, b"c", leader_epoch=EPOCH)
    rig.settle()
    assert values(other.log) == [b"c"]
    assert not any(0 in rig.named(index) for index in range(asked, len(rig.leader.requests)))


def test_failing_disk_stops_the_partition(rig: Rig) -> None:
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    partition.is_offline = True
    rig.settle()
    assert rig.fetcher.followed[(TOPIC_ID, 0)].is_stopped
    assert partition.log.log_end_offset == 0


def test_partition_that_leads_by_now_takes_nothing(rig: Rig) -> None:
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    partition.state = following(EPOCH + 1, leader=FOLLOWER_ID)
    rig.settle()
    assert partition.log.log_end_offset == 0


# Truncation that has to become durable


def test_durable_records_are_cut_when_the_recovery_point_on_disk_is_below_them(rig: Rig) -> None:
    rig.holds_truncations = True
    leader_log, partition = rig.add(follows=False)
    append(partition.log, b"a", b"b", leader_epoch=1)
    flush(partition.log)
    append(leader_log, b"x", leader_epoch=EPOCH)
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert (partition.log.log_end_offset, partition.log.recovery_point, len(rig.truncations)) == (2, 0, 1)
    rig.truncations.pop()()
    rig.settle()
    assert values(partition.log) == [b"x"]


def test_truncation_of_what_was_never_durable_goes_on_at_once(rig: Rig) -> None:
    rig.holds_truncations = True
    leader_log, partition = rig.add(follows=False)
    append(partition.log, b"a", b"b", leader_epoch=1)
    append(leader_log, b"x", leader_epoch=EPOCH)
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert values(partition.log) == [b"x"]
    assert not rig.truncations


# Group commit across replicas


def test_follower_fetches_ahead_of_its_fsync_and_says_when_it_is_durable() -> None:
    rig = Rig(config=LogConfig(flush_messages=1))
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.loop.run()
    ((_, (asked,)),) = rig.leader.requests[-1].topics
    assert (asked.fetch_offset, asked.durable_offset) == (1, 0)
    assert rig.replicas.flushes == [partition.log]
    rig.loop.advance(5)  # the leader has nothing new and waits
    count = len(rig.leader.requests)
    flush(partition.log)
    rig.fetcher.on_flushed((TOPIC_ID, 0))
    rig.loop.run()
    ((_, (asked,)),) = rig.leader.requests[count].topics
    assert (asked.fetch_offset, asked.durable_offset) == (1, -1)
    # Nothing more to say.
    count = len(rig.leader.requests)
    rig.fetcher.on_flushed((TOPIC_ID, 0))
    rig.loop.advance(5)
    assert len(rig.leader.requests) == count


def test_fsync_of_a_partition_that_is_not_followed_here_is_no_news(rig: Rig) -> None:
    rig.add()
    rig.settle()
    count = len(rig.leader.requests)
    rig.fetcher.on_flushed((TOPIC_ID, 9))
    rig.loop.advance(5)
    assert len(rig.leader.requests) == count


def test_records_that_come_twice_over_two_requests_are_no_failure() -> None:
    rig = Rig(config=LogConfig(flush_messages=1))
    leader_log, partition = rig.add()
    append(leader_log, b"a", leader_epoch=EPOCH)
    rig.loop.run()
    rig.loop.advance(5)
    append(leader_log, b"b", leader_epoch=EPOCH)
    flush(partition.log)
    rig.fetcher.on_flushed((TOPIC_ID, 0))
    rig.loop.soon.pop(0)()  # the second request is sent, while the leader answers the first one
    rig.leader.wake()
    rig.lead().high_watermark = 1  # by the second request
    rig.loop.time_ms += 5
    rig.loop.soon.reverse()
    rig.loop.soon.pop(0)()  # the answer to the first one arrives, and a third request goes out
    assert values(partition.log) == [b"a", b"b"]
    ((_, (asked,)),) = rig.leader.requests[-1].topics
    assert asked.fetch_offset == 2
    while rig.loop.soon and partition.high_watermark < 1:  # the leader has answered the second one from the old offset
        rig.loop.soon.pop(0)()
    assert partition.high_watermark == 1
    followed = rig.fetcher.followed[TOPIC_ID, 0]
    assert (followed.failures, values(partition.log)) == (0, [b"a", b"b"])
    append(leader_log, b"c", leader_epoch=EPOCH)
    rig.leader.wake()
    rig.loop.run()
    assert values(partition.log) == [b"a", b"b", b"c"]
