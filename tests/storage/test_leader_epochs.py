"""The history of leader epochs."""

import errno

import pytest

from ottla.storage.checkpoints import MalformedCheckpoint
from ottla.storage.leader_epochs import EpochEnd, LeaderEpochs
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.log_making import append, flush, open_log


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    disk.fsync_dir("/")
    return disk


@pytest.fixture
def epochs(disk: SimulatedDisk) -> LeaderEpochs:
    epochs = LeaderEpochs(disk, "/d")
    epochs.assign(1, 0)
    epochs.assign(3, 10)
    epochs.assign(5, 20)
    return epochs


def test_known_and_older_epochs_change_nothing(epochs: LeaderEpochs) -> None:
    epochs.assign(5, 30)
    epochs.assign(4, 40)
    assert epochs.entries() == [(1, 0), (3, 10), (5, 20)]
    assert epochs.latest_epoch == 5


def test_new_epoch_replaces_one_that_wrote_nothing(epochs: LeaderEpochs) -> None:
    epochs.assign(6, 20)
    assert epochs.entries() == [(1, 0), (3, 10), (6, 20)]


def test_epoch_of_an_offset(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_of(offset) for offset in (0, 9, 10, 19, 20, 99)] == [1, 1, 3, 3, 5, 5]
    epochs.truncate_from_start(15)
    assert epochs.epoch_of(14) == -1


def test_end_offset_follows_kip_101(epochs: LeaderEpochs) -> None:
    assert epochs.end_offset_of(5, log_end_offset=30) == EpochEnd(5, 30)
    assert epochs.end_offset_of(3, log_end_offset=30) == EpochEnd(3, 20)
    assert epochs.end_offset_of(4, log_end_offset=30) == EpochEnd(3, 20)
    assert epochs.end_offset_of(0, log_end_offset=30) == EpochEnd(0, 0)
    assert epochs.end_offset_of(6, log_end_offset=30) == EpochEnd(-1, -1)
    assert epochs.end_offset_of(-1, log_end_offset=30) == EpochEnd(-1, -1)


def test_no_history_has_no_end(disk: SimulatedDisk) -> None:
    assert LeaderEpochs(disk, "/d").end_offset_of(0, log_end_offset=30) == EpochEnd(-1, -1)


def test_truncate_from_end_drops_entries_at_or_after_offset(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_end(20)
    assert epochs.entries() == [(1, 0), (3, 10)]
    epochs.truncate_from_end(11)
    assert epochs.latest_epoch == 3
    epochs.truncate_from_end(0)
    assert epochs.latest_epoch == -1


def test_truncate_from_start_keeps_the_epoch_that_holds_the_offset(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_start(15)
    assert epochs.entries() == [(3, 15), (5, 20)]
    epochs.truncate_from_start(100)
    assert epochs.entries() == [(5, 100)]


def test_truncate_from_start_moves_the_only_epoch(disk: SimulatedDisk) -> None:
    epochs = LeaderEpochs(disk, "/d")
    epochs.assign(2, 0)
    epochs.truncate_from_start(5)
    assert epochs.entries() == [(2, 5)]


def test_history_is_written_as_kafka_does_and_read_back(disk: SimulatedDisk, epochs: LeaderEpochs) -> None:
    epochs.write()
    assert disk.read("/d/leader-epoch-checkpoint") == b"0\n3\n1 0\n3 10\n5 20\n"
    after = LeaderEpochs(disk.crash(), "/d")
    after.load()
    assert after.entries() == epochs.entries()
    assert after.latest_epoch == 5


def test_unchanged_history_is_not_written_again(disk: SimulatedDisk, epochs: LeaderEpochs) -> None:
    epochs.write()
    epochs.assign(5, 50)
    epochs.truncate_from_end(50)
    epochs.truncate_from_start(0)
    epochs.write()
    assert disk.counts["write_atomically"] == 1


def test_copy_is_written_while_the_original_goes_on(disk: SimulatedDisk, epochs: LeaderEpochs) -> None:
    copied = epochs.copy()
    epochs.assign(9, 90)
    copied.write()
    assert disk.read("/d/leader-epoch-checkpoint") == b"0\n3\n1 0\n3 10\n5 20\n"
    assert epochs.is_dirty


def test_failed_write_is_done_again(disk: SimulatedDisk, epochs: LeaderEpochs) -> None:
    disk.fail_next("rename", errno.EIO)
    with pytest.raises(OSError):
        epochs.write()
    assert epochs.is_dirty
    epochs.write()
    assert not epochs.is_dirty


@pytest.mark.parametrize("data", [b"0\n2\n1 0\n1 5\n", b"0\n2\n1 5\n2 4\n", b"0\n1\n1 0", b"0\n1\n-1 0\n"])
def test_malformed_history_is_refused(disk: SimulatedDisk, data: bytes) -> None:
    disk.write_atomically("/d/leader-epoch-checkpoint", data)
    epochs = LeaderEpochs(disk, "/d")
    with pytest.raises(MalformedCheckpoint):
        epochs.load()
    assert epochs.entries() == []


def test_history_that_begins_behind_the_log_start_is_completed_from_the_batches() -> None:
    """Delete-records, a flush that writes the epochs, and a crash before the new log start was checkpointed."""
    disk = SimulatedDisk()
    log = open_log(disk)
    for epoch in (1, 1, 2, 3, 3, 3):
        append(log, b"x", leader_epoch=epoch)
    log.advance_log_start_offset(4)
    assert log.leader_epochs.entries() == [(3, 4)]
    flush(log)
    assert open_log(disk, log_start_offset=4).leader_epochs.entries() == [(3, 4)]
    for was_clean in (True, False):
        loaded = open_log(disk, recovery_point=6, was_clean=was_clean)
        assert loaded.log_start_offset == 0
        assert loaded.leader_epochs.entries() == [(1, 0), (2, 2), (3, 3)]
