"""Logs that went different ways meet again: truncation by leader epoch (KIP-101, KIP-279, KIP-595), and new starts."""

import errno

import pytest

from ottla.core.errors import ErrorCode
from ottla.storage.log import Log
from tests.replication.follower_rig import EPOCH, Rig, values
from tests.replication.following import TOPIC_ID, following
from tests.storage.log_making import NOW_MS, append, batch, flush, headers_of


def write(log: Log, *stretches: tuple[int, int]) -> None:
    """Batches of one record: (leader epoch, up to which offset)."""
    for epoch, end_offset in stretches:
        while log.log_end_offset < end_offset:
            append(log, b"%d at %d" % (epoch, log.log_end_offset), leader_epoch=epoch)


def assert_same(leader_log: Log, follower_log: Log) -> None:
    assert values(follower_log) == values(leader_log)
    assert headers_of(follower_log) == headers_of(leader_log)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize(
    ("leader_has", "follower_has"),
    [
        pytest.param([(1, 10), (5, 12)], [(1, 15)], id="a tail that was never committed"),
        pytest.param([(1, 10), (5, 20)], [(1, 15)], id="and the leader has more"),
        pytest.param([(1, 10), (3, 15), (5, 16)], [(1, 10), (2, 20)], id="an epoch that the leader never saw"),
        pytest.param([(1, 5), (4, 20)], [(1, 10), (2, 12), (3, 15)], id="several of them"),
        pytest.param([(0, 3), (2, 8), (4, 20)], [(0, 5), (1, 9), (3, 14)], id="one round each (KIP-279)"),
        pytest.param([(4, 10)], [(1, 3), (2, 6), (3, 8)], id="nothing in common"),
        pytest.param([(1, 10)], [(1, 10)], id="nothing to do"),
        pytest.param([], [(1, 10)], id="a leader that lost all"),
        pytest.param([(1, 4)], [(1, 10), (2, 11)], id="a leader elected although it was behind"),
    ],
)
def test_logs_are_the_same_in_the_end(rig: Rig, leader_has: list, follower_has: list) -> None:
    leader_log, partition = rig.add(follows=False)
    write(leader_log, *leader_has)
    leader_log.leader_epochs.assign(EPOCH, leader_log.log_end_offset)  # as whoever becomes leader does
    write(partition.log, *follower_has)
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert_same(leader_log, partition.log)
    write(leader_log, (EPOCH, 30))
    rig.settle()
    assert_same(leader_log, partition.log)
    assert partition.log.leader_epochs.entries() == leader_log.leader_epochs.entries()


def test_batch_that_the_common_end_lies_in_goes_as_a_whole(rig: Rig) -> None:
    leader_log, partition = rig.add(follows=False)
    write(leader_log, (1, 2), (5, 4))
    write(partition.log, (1, 1))
    append(partition.log, b"one", b"two", b"three", leader_epoch=1)
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert_same(leader_log, partition.log)


def test_truncation_brings_the_high_watermark_down_and_the_leader_says_where_it_is(rig: Rig) -> None:
    leader_log, partition = rig.add(follows=False)
    write(leader_log, (1, 4))
    leader_log.leader_epochs.assign(EPOCH, 4)
    write(partition.log, (1, 10))
    partition.high_watermark = 8
    rig.lead().high_watermark = 4
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert_same(leader_log, partition.log)
    assert partition.high_watermark == 4


def test_epoch_in_which_the_follower_led_and_appended_nothing_does_no_harm(rig: Rig) -> None:
    leader_log, partition = rig.add(follows=False)
    write(leader_log, (1, 10))
    leader_log.leader_epochs.assign(EPOCH, 10)
    write(partition.log, (1, 6))
    partition.log.leader_epochs.assign(3, 6)
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert_same(leader_log, partition.log)
    assert partition.log.leader_epochs.entries() == [(1, 0)]


def test_log_that_ends_before_the_leaders_begins_starts_afresh(rig: Rig) -> None:
    leader_log, partition = rig.add(follows=False)
    write(leader_log, (1, 10), (5, 12))
    leader_log.advance_log_start_offset(8)
    write(partition.log, (1, 4))
    rig.lead().high_watermark = 12
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert (partition.log.log_start_offset, partition.log.log_end_offset, partition.high_watermark) == (8, 12, 12)
    assert_same(leader_log, partition.log)
    assert partition.log.leader_epochs.entries() == [(1, 8), (5, 10)]


def test_leader_that_begins_within_a_batch_is_followed_from_the_beginning_of_the_batch(rig: Rig) -> None:
    leader_log, partition = rig.add(follows=False)
    append(leader_log, b"a", b"b", b"c", b"d", leader_epoch=EPOCH)
    append(leader_log, b"e", leader_epoch=EPOCH)
    leader_log.advance_log_start_offset(2)
    rig.lead().high_watermark = 5
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (2, 5)
    assert values(partition.log) == [b"c", b"d", b"e"]


def test_records_from_before_the_batch_that_the_leader_begins_in_go(rig: Rig) -> None:
    leader_log, partition = rig.add(follows=False)
    append(leader_log, b"a", b"b", b"c", leader_epoch=2)
    leader_log.leader_epochs.assign(EPOCH, 3)
    leader_log.advance_log_start_offset(1)
    rig.lead().high_watermark = 3
    write(partition.log, (1, 4))
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert (partition.log.log_start_offset, values(partition.log)) == (1, [b"b", b"c"])


def test_start_of_the_leaders_log_moves_the_followers(rig: Rig) -> None:
    leader_log, partition = rig.add()
    write(leader_log, (EPOCH, 10))
    rig.lead().high_watermark = 10
    rig.settle()
    leader_log.advance_log_start_offset(7)
    rig.settle()
    assert partition.log.log_start_offset == 7
    sent = [one for request in rig.leader.requests for _, partitions in request.topics for one in partitions]
    assert sent[-1].log_start_offset == 7


def test_shorter_log_of_a_leader_that_knows_no_epoch_of_ours_is_followed(rig: Rig) -> None:
    leader_log, partition = rig.add(follows=False)
    write(leader_log, (1, 5))
    rig.lead().high_watermark = 3
    write(partition.log, (1, 5), (4, 10))  # and the leader did not note that its epoch began
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert_same(leader_log, partition.log)


def test_batches_of_a_later_epoch_than_the_fetch_are_left_out(rig: Rig) -> None:
    """A leader was deposed and cut its log while it sent an answer: what follows there is of a later leader."""
    leader_log, partition = rig.add()
    later = bytes(batch(b"later", base_offset=1, leader_epoch=EPOCH + 1))
    write(leader_log, (EPOCH, 1))
    rig.lead().spoil = lambda records: records + later
    rig.loop.run()
    assert values(partition.log) == [b"5 at 0"]
    rig.lead().spoil = None
    rig.lead().leader_epoch = EPOCH + 1
    write(leader_log, (EPOCH + 1, 2))
    partition.state = following(EPOCH + 1)
    rig.fetcher.add(partition, leader_epoch=EPOCH + 1)
    rig.settle()
    assert_same(leader_log, partition.log)


def test_batch_of_an_older_epoch_than_the_last_one_is_damage(rig: Rig) -> None:
    leader_log, partition = rig.add()
    write(leader_log, (EPOCH, 1))
    older = bytes(batch(b"older", base_offset=1, leader_epoch=EPOCH - 1))
    rig.lead().spoil = lambda records: records + older
    rig.loop.advance(5_000)
    assert partition.log.log_end_offset == 0
    assert rig.fetcher.followed[(TOPIC_ID, 0)].is_stopped


def test_disk_that_fails_in_a_truncation_stops_the_partition(rig: Rig) -> None:
    leader_log, partition = rig.add(follows=False)
    write(leader_log, (1, 4))
    leader_log.leader_epochs.assign(EPOCH, 4)
    write(partition.log, (1, 10))
    rig.disk.fail_next("truncate", errno.EIO)
    rig.fetcher.add(partition, leader_epoch=EPOCH)
    rig.settle()
    assert rig.fetcher.followed[(TOPIC_ID, 0)].is_stopped


def test_log_that_starts_afresh_knows_no_epoch_any_more(rig: Rig) -> None:
    _, partition = rig.add(follows=False)
    write(partition.log, (1, 4), (2, 8))
    flush(partition.log)
    partition.truncate_fully_to(20)
    assert partition.log.leader_epochs.entries() == []
    assert partition.log.last_epoch == -1
    assert (partition.high_watermark, partition.log.recovery_point) == (20, 8)
    info = partition.append_as_follower(
        batch(b"a", base_offset=20, leader_epoch=EPOCH), leader_epoch=EPOCH, now_ms=NOW_MS
    )
    assert (info.error_code, partition.log.leader_epochs.entries()) == (ErrorCode.NONE, [(EPOCH, 20)])
