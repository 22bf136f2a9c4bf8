"""The log as its manager sees it: truncation, retention, delete-records, flushing, closing."""

import errno

import pytest

from ottla.core.errors import StorageError
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.log_making import (
    DIRECTORY,
    NOW_MS,
    append,
    batch,
    flush,
    names,
    open_log,
    read_all,
    values_of,
)
from tests.storage.managed_logs import ManagedLogs

_SMALL_SEGMENTS = LogConfig(segment_bytes=1000, index_interval_bytes=100, retention_ms=-1)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(1)


def _filled(disk: SimulatedDisk, config: LogConfig = _SMALL_SEGMENTS, count: int = 20) -> Log:
    log = open_log(disk, config)
    for number in range(count):
        append(log, b"%03d" % number * 60, now_ms=NOW_MS + number)
    return log


# Truncation


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 11, 19])
def test_truncate_drops_batches_at_or_after_the_offset(disk: SimulatedDisk, offset: int) -> None:
    log = _filled(disk)
    for path in log.truncate_to(offset, now_ms=NOW_MS):
        disk.remove(path)
    assert log.log_end_offset == offset
    assert [record.offset for record in read_all(log)] == list(range(offset))
    append(log, b"new", leader_epoch=1, now_ms=NOW_MS + 1000)
    assert values_of(read_all(log))[-1] == b"new"
    found = log.offset_for_timestamp(NOW_MS + 500)
    assert found is not None
    assert found.offset == offset
    log.close(now_ms=NOW_MS)
    reloaded = open_log(disk, _SMALL_SEGMENTS)
    assert [record.offset for record in read_all(reloaded)] == list(range(offset + 1))


def test_truncate_within_a_batch_drops_all_of_it(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    log.truncate_to(3, now_ms=NOW_MS)
    assert log.log_end_offset == 1
    assert values_of(read_all(log)) == [b"a"]


def test_truncate_beyond_the_end_does_nothing(disk: SimulatedDisk) -> None:
    log = _filled(disk)
    assert log.truncate_to(20, now_ms=NOW_MS) == []
    assert log.log_end_offset == 20


def test_truncate_below_the_start_begins_afresh(disk: SimulatedDisk) -> None:
    log = open_log(disk, log_start_offset=50)
    append(log, b"a")
    log.truncate_to(30, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (30, 30, 0)
    append(log, b"b")
    assert [record.offset for record in read_all(log)] == [30]


def test_truncate_forgets_epochs_and_producers_behind_the_offset(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    for sequence in range(4):
        records = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=sequence)
        log.append_as_leader(records, leader_epoch=sequence, now_ms=NOW_MS)
    log.truncate_to(2, now_ms=NOW_MS)
    assert log.leader_epochs.entries() == [(0, 0), (1, 1)]
    again = batch(b"y", producer_id=5, producer_epoch=0, base_sequence=2)
    info = log.append_as_leader(again, leader_epoch=9, now_ms=NOW_MS)
    assert (info.error_code, info.is_duplicate, info.first_offset) == (0, False, 2)


def test_truncate_keeps_the_largest_timestamp_of_what_is_left(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogConfig(index_interval_bytes=200))
    for number, timestamp_ms in enumerate((5, 100, 7, 8, 200, 9)):
        append(log, b"%d" % number * 100, timestamp_ms=timestamp_ms, now_ms=NOW_MS)
    log.truncate_to(4, now_ms=NOW_MS)
    assert log.offset_of_max_timestamp() == (100, 1, 0)
    log.truncate_to(1, now_ms=NOW_MS)
    assert log.offset_of_max_timestamp() == (5, 0, 0)


def test_a_full_truncation_goes_on_at_the_given_offset(disk: SimulatedDisk) -> None:
    log = _filled(disk)
    removed = log.truncate_fully_and_start_at(0, now_ms=NOW_MS)
    assert f"{DIRECTORY}/{0:020d}.log.deleted" in removed
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    append(log, b"a")
    assert values_of(read_all(log)) == [b"a"]
    log.truncate_fully_and_start_at(1000, now_ms=NOW_MS)
    assert append(log, b"b").first_offset == 1000


# Retention


def test_segments_older_than_retention_ms_go(disk: SimulatedDisk) -> None:
    log = _filled(disk, _SMALL_SEGMENTS._replace(retention_ms=1000))
    assert log.delete_old_segments(NOW_MS + 1000) == []
    removed = log.delete_old_segments(NOW_MS + 1000 + 10)
    assert removed
    assert all(path.endswith(".deleted") and disk.exists(path) for path in removed)
    assert log.log_start_offset == read_all(log)[0].offset == 9
    assert log.log_end_offset == 20


def test_the_active_segment_goes_too_when_it_has_expired(disk: SimulatedDisk) -> None:
    log = _filled(disk, LogConfig(retention_ms=1000))
    log.delete_old_segments(NOW_MS + 5000)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert f"{20:020d}.log" in names(disk)
    assert log.delete_old_segments(NOW_MS + 50_000_000) == []
    append(log, b"after")
    assert [record.offset for record in read_all(log)] == [20]


def test_what_is_above_the_high_watermark_stays(disk: SimulatedDisk) -> None:
    log = _filled(disk, _SMALL_SEGMENTS._replace(retention_ms=1000))
    log.delete_old_segments(NOW_MS + 50_000, high_watermark=11)
    assert log.log_start_offset == 9


def test_segments_in_excess_of_retention_bytes_go(disk: SimulatedDisk) -> None:
    log = _filled(disk, _SMALL_SEGMENTS._replace(retention_bytes=2000))
    log.delete_old_segments(NOW_MS)
    assert 2000 <= log.size_bytes < 3000
    assert [record.offset for record in read_all(log)] == list(range(log.log_start_offset, 20))
    assert log.delete_old_segments(NOW_MS) == []


def test_a_log_that_is_only_compacted_has_no_retention(disk: SimulatedDisk) -> None:
    log = _filled(disk, _SMALL_SEGMENTS._replace(retention_ms=1, retention_bytes=1, delete=False, compact=True))
    assert log.delete_old_segments(NOW_MS + 50_000) == []


def test_deleted_records_take_their_segments_with_them(disk: SimulatedDisk) -> None:
    log = _filled(disk, _SMALL_SEGMENTS._replace(delete=False, compact=True))
    assert log.advance_log_start_offset(10)
    assert not log.advance_log_start_offset(10)
    assert not log.advance_log_start_offset(21)
    assert [record.offset for record in read_all(log)] == list(range(10, 20))
    assert log.delete_old_segments(NOW_MS)
    assert f"{9:020d}.log" in names(disk)
    assert f"{6:020d}.log" not in names(disk)
    log.advance_log_start_offset(20)
    assert read_all(log) == []


# Flushing


def test_a_flush_covers_what_was_there_when_it_began(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, b"a")
    job = log.start_flush()
    assert job is not None
    append(log, b"b")
    job.run()
    log.finish_flush(job, now_ms=NOW_MS + 5)
    assert (log.recovery_point, log.unflushed_messages, log.last_flush_ms) == (1, 1, NOW_MS + 5)


def test_nothing_new_needs_no_flush(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, b"a")
    flush(log)
    assert log.start_flush() is None


def test_rolled_segments_are_synced_with_their_indexes(disk: SimulatedDisk) -> None:
    log = _filled(disk)
    assert log.has_unsynced_segments
    disk.counts.clear()
    flush(log)
    assert not log.has_unsynced_segments
    assert disk.counts["fsync"] >= 4 * 3 + 1
    assert log.recovery_point == 20


def test_a_failed_fsync_moves_nothing(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, b"a")
    job = log.start_flush()
    assert job is not None
    disk.fail_next("fsync", errno.EIO)
    with pytest.raises(StorageError, match="fsync"):
        job.run()
    log.fail_flush(job)
    assert log.recovery_point == 0
    assert log.start_flush() is not None


def test_a_flush_that_a_truncation_overtook_does_not_count(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, b"a")
    append(log, b"b")
    job = log.start_flush()
    assert job is not None
    job.run()
    log.truncate_to(1, now_ms=NOW_MS)
    append(log, b"c", leader_epoch=1)
    log.finish_flush(job, now_ms=NOW_MS)
    assert log.recovery_point == 0


def test_a_segment_can_be_deleted_while_it_is_flushed(disk: SimulatedDisk) -> None:
    log = _filled(disk, _SMALL_SEGMENTS._replace(retention_ms=1000))
    job = log.start_flush()
    assert job is not None
    for path in log.delete_old_segments(NOW_MS + 5000):
        disk.remove(path)
    job.run()
    log.finish_flush(job, now_ms=NOW_MS)
    assert log.recovery_point == 20


# Closing


def test_a_closed_log_is_loaded_without_reading_more_than_its_end(disk: SimulatedDisk) -> None:
    log = _filled(disk, LogConfig(), count=500)
    log.close(now_ms=NOW_MS)
    disk.counts.clear()
    reloaded = open_log(disk)
    assert (reloaded.log_end_offset, reloaded.recovery_point) == (500, 500)
    assert reloaded.recovery.is_clean
    assert disk.counts["list"] == 1
    assert disk.counts["pread"] <= 3
    assert disk.counts["open_read"] <= 2
    assert "open_append" not in disk.counts


def test_an_untouched_log_is_closed_without_touching_the_disk(disk: SimulatedDisk) -> None:
    _filled(disk).close(now_ms=NOW_MS)
    reloaded = open_log(disk, _SMALL_SEGMENTS)
    disk.counts.clear()
    reloaded.close(now_ms=NOW_MS)
    assert disk.counts == {}


def test_everything_survives_a_close_and_a_loss_of_power(disk: SimulatedDisk) -> None:
    disk.make_dirs(DIRECTORY)
    disk.fsync_dir("/")
    disk.fsync_dir("/data")
    log = _filled(disk)
    log.close(now_ms=NOW_MS)
    reloaded = open_log(disk.crash(), _SMALL_SEGMENTS)
    assert [record.offset for record in read_all(reloaded)] == list(range(20))
    assert reloaded.leader_epochs.entries() == [(0, 0)]
    assert reloaded.recovery.is_clean


@pytest.mark.parametrize("seed", range(40))
def test_loss_of_power_after_a_truncation_never_mixes_old_batches_with_new_ones(seed: int) -> None:
    """The new batches end where the old ones did, and the next segment begins: what is cut may come back before it."""
    disk = SimulatedDisk(seed)
    config = LogConfig(segment_bytes=1000)
    broker = ManagedLogs(disk, config=config)
    log = broker.create()
    for _ in range(20):
        append(log, b"old" * 20, leader_epoch=1)
    flush(log)
    broker.manager.await_truncation(log, 4, lambda: None)
    broker.manager.truncate_log(log, 4, NOW_MS)
    for _ in range(12):
        append(log, b"new" * 20, leader_epoch=2)
    values = ManagedLogs(disk.crash(), config=config).values()
    assert values[:4] == [b"old" * 20] * 4
    assert len(set(values[4:])) <= 1
