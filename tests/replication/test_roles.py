"""What the controller sends, and what a follower does with what its leader sends."""

import errno

import pytest

from ottla.core.errors import ErrorCode
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.replication.leaders import EPOCH, Leader, state_of
from tests.replication.partitions import ORDERS, HandReplicas
from tests.storage.log_making import NOW_MS, batch

NONE = ErrorCode.NONE


def following(config: LogConfig | None = None) -> Leader:
    return Leader(state_of(leader=2), config)


def copy(leader: Leader, *values: bytes, offset: int = 0, epoch: int = EPOCH, of: int = EPOCH) -> ErrorCode:
    records = batch(*values, base_offset=offset, leader_epoch=of)
    return leader.partition.append_as_follower(records, leader_epoch=epoch, now_ms=NOW_MS).error_code


def test_state_of_a_partition_that_is_not_here_is_refused() -> None:
    hand = HandReplicas()
    assert hand.replicas.apply_state(ORDERS, state_of()) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_older_leader_epoch_is_ignored() -> None:
    leader = Leader(state_of(epoch=5))
    assert leader.replicas.apply_state(ORDERS, state_of(leader=2, version=9)) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert leader.partition.is_led_here


def test_older_version_within_the_epoch_is_ignored() -> None:
    leader = Leader(state_of(1, 2, version=3))
    assert leader.replicas.apply_state(ORDERS, state_of(1, 2, 3, version=2)) == NONE
    assert leader.isr == (1, 2)


def test_older_version_with_another_leader_is_ignored() -> None:
    leader = Leader(state_of(version=3))
    assert leader.replicas.apply_state(ORDERS, state_of(leader=-1, version=2)) == NONE
    assert leader.partition.is_led_here


def test_partition_without_a_leader_is_led_when_that_is_said_in_the_same_epoch() -> None:
    leader = Leader(state_of(leader=-1))
    assert not leader.partition.is_led_here
    assert leader.replicas.apply_state(ORDERS, state_of()) == NONE
    assert leader.partition.is_led_here
    assert set(leader.partition.followers) == {2, 3}


def test_follower_copies_batches_with_their_offsets_and_epochs() -> None:
    leader = following()
    assert copy(leader, b"a", b"b", of=2) == NONE
    assert copy(leader, b"c", offset=2) == NONE
    log = leader.partition.log
    assert (log.log_end_offset, log.leader_epochs.entries()) == (3, [(2, 0), (EPOCH, 2)])
    assert leader.high_watermark == 0


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_follower_takes_nothing_of_another_epoch(epoch: int) -> None:
    leader = following()
    assert copy(leader, b"a", epoch=epoch) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.partition.log.log_end_offset == 0


def test_leader_takes_nothing_as_a_follower() -> None:
    leader = following()
    leader.replicas.apply_state(ORDERS, state_of(epoch=EPOCH + 1, version=1))
    assert copy(leader, b"a", epoch=EPOCH + 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.partition.follow(high_watermark=0, log_start_offset=0)
    with pytest.raises(AssertionError, match="a leader never truncates"):
        leader.partition.truncate_to(0)


def test_damaged_records_are_refused_and_the_log_stays() -> None:
    leader = following()
    records = batch(b"a", leader_epoch=EPOCH)
    records[-1] ^= 1
    info = leader.partition.append_as_follower(records, leader_epoch=EPOCH, now_ms=NOW_MS)
    assert info.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert leader.partition.log.log_end_offset == 0


def test_disk_that_fails_under_a_follower_is_reported() -> None:
    hand, disk = HandReplicas(), SimulatedDisk()
    partition = hand.add(state=state_of(leader=2), disk=disk)
    partition.append_as_follower(batch(b"a"), leader_epoch=EPOCH, now_ms=NOW_MS)
    disk.fail_next("append", errno.ENOSPC)
    info = partition.append_as_follower(batch(b"b", base_offset=1), leader_epoch=EPOCH, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [log for log, _ in hand.failures] == [partition.log]


def test_follower_asks_for_a_flush_like_a_leader() -> None:
    leader = following(LogConfig(flush_messages=2))
    copy(leader, b"a")
    assert leader.hand.flushes == []
    copy(leader, b"b", offset=1)
    assert leader.hand.flushes == [leader.partition.log]
    assert leader.partition.durable_end_offset == 1


@pytest.mark.parametrize(("said", "taken"), [(0, 0), (2, 2), (3, 3), (9, 3)])
def test_follower_takes_the_high_watermark_of_its_leader_up_to_its_own_end(said: int, taken: int) -> None:
    leader = following()
    copy(leader, b"a", b"b", b"c")
    leader.partition.follow(high_watermark=said, log_start_offset=0)
    assert leader.high_watermark == taken


def test_high_watermark_of_a_follower_goes_back_only_with_its_log() -> None:
    leader = following()
    copy(leader, b"a")
    copy(leader, b"b", offset=1)
    copy(leader, b"c", offset=2)
    leader.partition.follow(high_watermark=3, log_start_offset=0)
    leader.partition.follow(high_watermark=1, log_start_offset=0)
    assert leader.high_watermark == 3
    leader.partition.truncate_to(2)
    assert (leader.high_watermark, leader.partition.log.log_end_offset) == (2, 2)


def test_follower_starts_afresh_where_its_leader_does() -> None:
    leader = following()
    copy(leader, b"a")
    leader.partition.truncate_fully_to(40)
    log = leader.partition.log
    assert (log.log_start_offset, log.log_end_offset, leader.high_watermark) == (40, 40, 40)
    assert copy(leader, b"b", offset=40) == NONE


def test_follower_deletes_what_its_leader_has_deleted_but_nothing_that_is_not_committed() -> None:
    leader = following()
    copy(leader, b"a", b"b", b"c")
    leader.partition.follow(high_watermark=2, log_start_offset=3)
    assert leader.partition.log.log_start_offset == 2


def test_follower_that_is_elected_keeps_its_high_watermark() -> None:
    leader = following()
    copy(leader, b"a", b"b", b"c")
    leader.partition.follow(high_watermark=2, log_start_offset=0)
    leader.replicas.apply_state(ORDERS, state_of(1, 3, epoch=EPOCH + 1, version=1))
    assert leader.high_watermark == 2
    leader.fetch(3, 3)
    assert leader.high_watermark == 3


def test_follower_that_is_elected_alone_has_committed_all_it_has() -> None:
    leader = following()
    copy(leader, b"a", b"b", b"c")
    leader.replicas.apply_state(ORDERS, state_of(1, epoch=EPOCH + 1, version=1))
    assert leader.high_watermark == 3


def test_flush_moves_no_high_watermark_of_a_follower() -> None:
    leader = following()
    copy(leader, b"a")
    leader.replicas.on_flushed(ORDERS)
    assert leader.high_watermark == 0


def test_restored_high_watermark_of_a_follower_is_not_above_the_checkpoint() -> None:
    leader = following()
    copy(leader, b"a", b"b")
    again = HandReplicas().replicas.add(
        ORDERS, topic_id=bytes(16), log=leader.partition.log, state=state_of(leader=2), high_watermark=1
    )
    assert again.high_watermark == 1


@pytest.mark.parametrize(
    ("epoch", "found"), [(-1, (-1, -1)), (0, (0, 3)), (2, (2, 3)), (4, (2, 3)), (5, (5, 3)), (6, (-1, -1))]
)
def test_sole_replica_knows_where_epochs_end_that_it_has_written_nothing_in(epoch: int, found: tuple[int, int]) -> None:
    leader = Leader(state_of(1, replicas=(1,), epoch=2))
    if epoch != 0:
        leader.appended(3)
    else:
        found = (0, 0)  # of an empty log
    leader.replicas.apply_state(ORDERS, state_of(1, replicas=(1,), epoch=5, version=1))
    assert leader.partition.end_of_epoch(epoch) == found
