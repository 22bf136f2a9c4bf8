"""The log as producers and consumers see it: appends, offsets, rolls, reads, lookups by time."""

import errno

import pytest

from ottla.core.errors import ErrorCode, StorageError
from ottla.records.header import read_header
from ottla.storage.log import Log
from ottla.storage.log_config import LOG_APPEND_TIME, LogConfig
from ottla.storage.open_files import OpenFiles
from ottla.storage.segment import Segment
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
    read_bytes,
    values_of,
)

_SMALL_SEGMENTS = LogConfig(segment_bytes=1000, index_interval_bytes=100)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(1)


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return open_log(disk)


def test_a_new_log_is_empty_and_has_the_files_of_its_first_segment(disk: SimulatedDisk, log: Log) -> None:
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert {"0" * 20 + suffix for suffix in (".log", ".index", ".timeindex")} <= names(disk)


def test_append_assigns_offsets_one_after_the_other(log: Log) -> None:
    first = append(log, b"a", b"b", b"c")
    second = append(log, b"d")
    assert (first.first_offset, first.last_offset) == (0, 2)
    assert (second.first_offset, second.last_offset) == (3, 3)
    assert log.log_end_offset == 4


def test_append_writes_offset_and_leader_epoch_into_the_batch(log: Log) -> None:
    append(log, b"a")
    append(log, b"b", leader_epoch=7)
    header = read_header(read_bytes(log, 1))
    assert (header.base_offset, header.leader_epoch) == (1, 7)
    assert log.leader_epochs.entries() == [(0, 0), (7, 1)]


def test_create_time_is_kept_and_append_time_is_stamped(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    info = append(log, b"a", now_ms=NOW_MS, timestamp_ms=5)
    assert info.append_time_ms == NOW_MS
    assert read_all(log)[0].timestamp_ms == NOW_MS
    other = open_log(disk, directory="/data/orders-1")
    assert append(other, b"a", timestamp_ms=NOW_MS - 5).append_time_ms == -1
    assert read_all(other)[0].timestamp_ms == NOW_MS - 5


def test_a_batch_with_a_flipped_bit_is_refused_and_the_end_unchanged(log: Log) -> None:
    records = batch(b"value")
    records[-1] ^= 1
    info = log.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 0
    assert log.size_bytes == 0


def test_a_batch_over_the_segment_size_is_refused(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogConfig(segment_bytes=500))
    info = log.append_as_leader(batch(b"x" * 600), leader_epoch=0, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_batch_over_the_message_limit_is_refused(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogConfig(max_message_bytes=500))
    info = log.append_as_leader(batch(b"x" * 600), leader_epoch=0, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_record_without_a_key_is_refused_by_a_compacted_log(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogConfig(compact=True))
    info = log.append_as_leader(batch(b"x", key=None), leader_epoch=0, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.INVALID_RECORD
    assert info.record_indexes == (0,)
    append(log, b"with key")


def test_a_changed_configuration_counts_from_the_next_append_on(log: Log) -> None:
    log.set_config(LogConfig(max_message_bytes=100))
    info = log.append_as_leader(batch(b"x" * 600), leader_epoch=0, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.MESSAGE_TOO_LARGE


def _idempotent(sequence: int, *values: bytes, epoch: int = 0) -> memoryview:
    return batch(*values, producer_id=9, producer_epoch=epoch, base_sequence=sequence)


def test_a_retried_batch_is_answered_with_its_first_offset_and_not_written_again(log: Log) -> None:
    append(log, b"other")
    first = log.append_as_leader(_idempotent(0, b"a", b"b"), leader_epoch=0, now_ms=NOW_MS)
    size_bytes = log.size_bytes
    again = log.append_as_leader(_idempotent(0, b"a", b"b"), leader_epoch=0, now_ms=NOW_MS)
    assert not first.is_duplicate
    assert again.is_duplicate
    assert (again.error_code, again.first_offset, again.last_offset) == (0, 1, 2)
    assert log.size_bytes == size_bytes


def test_a_sequence_gap_and_an_old_producer_epoch_are_refused(log: Log) -> None:
    log.append_as_leader(_idempotent(0, b"a", epoch=1), leader_epoch=0, now_ms=NOW_MS)
    gap = log.append_as_leader(_idempotent(5, b"b", epoch=1), leader_epoch=0, now_ms=NOW_MS)
    old = log.append_as_leader(_idempotent(1, b"c", epoch=0), leader_epoch=0, now_ms=NOW_MS)
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_retry_after_a_restart_is_still_a_duplicate(disk: SimulatedDisk, log: Log, was_clean: bool) -> None:
    log.append_as_leader(_idempotent(0, b"a"), leader_epoch=0, now_ms=NOW_MS)
    if was_clean:
        log.close(now_ms=NOW_MS)
    reloaded = open_log(disk, was_clean=was_clean)
    assert reloaded.append_as_leader(_idempotent(0, b"a"), leader_epoch=0, now_ms=NOW_MS).is_duplicate


def test_a_failed_write_leaves_the_log_as_it_was(disk: SimulatedDisk, log: Log) -> None:
    append(log, b"a")
    disk.fail_next("append", errno.ENOSPC, path_prefix=DIRECTORY)
    with pytest.raises(StorageError, match="orders-0"):
        append(log, b"b")
    assert log.log_end_offset == 1
    append(log, b"c")
    assert values_of(read_all(log)) == [b"a", b"c"]


def test_a_file_of_another_size_than_expected_is_not_appended_to(disk: SimulatedDisk) -> None:
    open_files = OpenFiles(disk)
    log = open_log(disk, open_files=open_files)
    append(log, b"a")
    disk.open_append(f"{DIRECTORY}/{0:020d}.log").append(b"stray")
    open_files.forget(f"{DIRECTORY}/{0:020d}.log")
    with pytest.raises(StorageError, match="bytes"):
        append(log, b"b")


# As follower


def test_a_follower_takes_batches_as_they_are_and_leaves_out_a_partial_one(log: Log) -> None:
    data = bytes(batch(b"a", b"b", base_offset=10, leader_epoch=3)) + bytes(batch(b"c", base_offset=15, leader_epoch=4))
    partial = bytes(batch(b"never", base_offset=16, leader_epoch=4))[:-3]
    info = log.append_as_follower(memoryview(bytearray(data + partial)), now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset) == (10, 15)
    assert log.log_end_offset == 16
    assert read_bytes(log, 10) == data
    assert log.leader_epochs.entries() == [(3, 10), (4, 15)]


def test_a_follower_refuses_offsets_that_do_not_grow(log: Log) -> None:
    data = bytes(batch(b"a", base_offset=5)) + bytes(batch(b"b", base_offset=5))
    info = log.append_as_follower(memoryview(bytearray(data)), now_ms=NOW_MS)
    assert info.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_end_offset == 0


def test_a_follower_refuses_a_batch_with_a_wrong_checksum(log: Log) -> None:
    data = batch(b"a", base_offset=5)
    data[-1] ^= 1
    info = log.append_as_follower(data, now_ms=NOW_MS)
    assert info.error_code == ErrorCode.CORRUPT_MESSAGE
    assert log.size_bytes == 0


def test_a_follower_rolls_within_one_append(disk: SimulatedDisk) -> None:
    log = open_log(disk, _SMALL_SEGMENTS)
    data = b"".join(bytes(batch(b"x" * 200, base_offset=offset)) for offset in range(20))
    disk.counts.clear()
    log.append_as_follower(memoryview(bytearray(data)), now_ms=NOW_MS)
    assert log.segment_count > 4
    assert [record.offset for record in read_all(log)] == list(range(20))


def test_a_follower_jumps_to_a_segment_that_can_hold_the_offset(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    log.append_as_follower(batch(b"far", base_offset=5_000_000_000), now_ms=NOW_MS)
    assert f"{5_000_000_000:020d}.log" in names(disk)
    assert [record.offset for record in read_all(log, 5_000_000_000)] == [5_000_000_000]
    assert values_of(read_all(log, 0)) == [b"far"]


# Rolling


def test_a_segment_rolls_when_a_batch_would_exceed_its_size(disk: SimulatedDisk) -> None:
    log = open_log(disk, _SMALL_SEGMENTS)
    for _ in range(10):
        append(log, b"x" * 300)
    assert log.segment_count == 5
    assert f"{2:020d}.log" in names(disk)
    assert f"{2:020d}.snapshot" in names(disk)
    assert [record.offset for record in read_all(log)] == list(range(10))


def test_a_segment_rolls_when_its_first_batch_is_older_than_segment_ms(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogConfig(segment_ms=1000))
    append(log, b"a", now_ms=NOW_MS)
    append(log, b"b", now_ms=NOW_MS + 1000)
    assert log.segment_count == 1
    append(log, b"c", now_ms=NOW_MS + 1001)
    assert log.segment_count == 2


def test_jitter_lets_segments_roll_earlier_each_at_a_time_of_its_own() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    open_files = OpenFiles(SimulatedDisk())
    segments = [Segment(f"/data/t-{n}", 0, open_files=open_files, config=config, created_ms=0) for n in range(50)]
    rolls = [segment.roll_after_ms for segment in segments]
    assert 600 < min(rolls) < 700
    assert 900 < max(rolls) <= 1000
    assert len(set(rolls)) > 30


def test_a_segment_whose_records_have_no_time_rolls_by_the_clock(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogConfig(segment_ms=1000))
    append(log, b"a", now_ms=NOW_MS, timestamp_ms=-1)
    append(log, b"b", now_ms=NOW_MS + 1001, timestamp_ms=-1)
    assert log.segment_count == 2


def test_a_reloaded_segment_still_rolls_by_its_first_timestamp(disk: SimulatedDisk) -> None:
    config = LogConfig(segment_ms=1000)
    log = open_log(disk, config)
    append(log, b"a", now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)
    log = open_log(disk, config, now_ms=NOW_MS + 5000)
    append(log, b"b", now_ms=NOW_MS + 5000)
    assert log.segment_count == 2


def test_a_segment_rolls_when_an_index_is_full(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogConfig(index_interval_bytes=1, segment_index_bytes=36))
    for number in range(20):
        append(log, b"x", now_ms=NOW_MS + number)
    assert log.segment_count > 3
    assert len(read_all(log)) == 20


def test_rolling_an_empty_segment_does_nothing(log: Log) -> None:
    log.roll(NOW_MS)
    assert log.segment_count == 1


# Reading


def test_reading_outside_of_the_log_is_out_of_range(log: Log) -> None:
    append(log, b"a", b"b")
    log.advance_log_start_offset(1)
    assert log.read(0, max_bytes=100).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(3, max_bytes=100).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(-1, max_bytes=100).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_reading_at_the_end_gives_nothing(log: Log) -> None:
    append(log, b"a")
    result = log.read(1, max_bytes=100)
    assert (result.slice, result.error_code) == (None, 0)


def test_reading_within_a_batch_returns_it_whole(log: Log) -> None:
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    assert read_header(read_bytes(log, 3)).base_offset == 1


def test_a_first_batch_over_the_limit_is_returned_whole(log: Log) -> None:
    append(log, b"x" * 500)
    append(log, b"y" * 500)
    first_bytes = log.read(0, max_bytes=10)
    assert first_bytes.slice is not None
    assert first_bytes.slice.length == read_header(read_bytes(log, 0)).size_bytes
    assert log.read(0, max_bytes=10, at_least_one=False).slice is None


def test_a_read_is_cut_by_its_limit(log: Log) -> None:
    for _ in range(5):
        append(log, b"x" * 500)
    assert len(read_bytes(log, 0, max_bytes=1500)) == 1500


@pytest.mark.parametrize("count", [10, 400])
def test_a_read_ends_with_the_last_batch_below_the_high_watermark(disk: SimulatedDisk, count: int) -> None:
    log = open_log(disk, LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for number in range(count):
        append(log, b"%d" % number, b"second")
    for high_watermark in (2, 6, count, count * 2 - 2, count * 2):
        offset = max(0, high_watermark - 4)
        data = b""
        while offset < high_watermark:
            data = read_bytes(log, offset, max_offset=high_watermark)
            offset = [header for _, header in _headers(data)][-1].next_offset
        assert offset == high_watermark
    assert log.read(4, max_bytes=1000, max_offset=4).slice is None


def _headers(data: bytes) -> "list[tuple[int, object]]":
    from ottla.records.header import iter_headers

    return list(iter_headers(data))


def test_reading_goes_on_in_the_next_segment(disk: SimulatedDisk) -> None:
    log = open_log(disk, _SMALL_SEGMENTS)
    for number in range(50):
        append(log, b"%d" % number * 50)
    for offset in range(50):
        assert read_all(log, offset)[0].offset == offset
    assert len(read_all(log, max_bytes=100)) == 50


def test_a_slice_survives_the_deletion_of_its_segment(disk: SimulatedDisk) -> None:
    log = open_log(disk, _SMALL_SEGMENTS)
    for _ in range(10):
        append(log, b"x" * 300)
    result = log.read(0, max_bytes=10_000)
    assert result.slice is not None
    log.advance_log_start_offset(9)
    for path in log.delete_old_segments(NOW_MS):
        disk.remove(path)
    assert read_header(result.slice.file.pread(result.slice.length, result.slice.position)).base_offset == 0


def test_few_open_files_are_enough_for_many_segments(disk: SimulatedDisk) -> None:
    open_files = OpenFiles(disk, files_max=4)
    log = open_log(disk, _SMALL_SEGMENTS, open_files=open_files)
    for number in range(60):
        append(log, b"%d" % number * 50)
    assert len(read_all(log)) == 60
    assert len(open_files) <= 4
    flush(log)


# By time


def test_a_record_is_found_by_its_time(disk: SimulatedDisk) -> None:
    log = open_log(disk, _SMALL_SEGMENTS)
    for number in range(60):
        append(log, b"x" * 100, now_ms=NOW_MS + number * 10, leader_epoch=number // 10)
    for timestamp_ms, expected in ((0, 0), (NOW_MS, 0), (NOW_MS + 1, 1), (NOW_MS + 300, 30), (NOW_MS + 590, 59)):
        found = log.offset_for_timestamp(timestamp_ms)
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (expected, NOW_MS + expected * 10)
        assert found.leader_epoch == expected // 10
    assert log.offset_for_timestamp(NOW_MS + 591) is None


def test_the_record_within_a_compressed_batch_is_found_by_its_time(log: Log) -> None:
    from ottla.records.build import build_batch
    from ottla.records.compression import GZIP

    times = [NOW_MS, NOW_MS + 5, NOW_MS + 3, NOW_MS + 9]
    records = memoryview(build_batch([(time_ms, b"k", b"v", ()) for time_ms in times], codec=GZIP))
    log.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS)
    found = log.offset_for_timestamp(NOW_MS + 4)
    assert found == (NOW_MS + 5, 1, 0)
    assert log.offset_of_max_timestamp() == (NOW_MS + 9, 3, 0)


def test_the_largest_timestamp_is_found_wherever_it_is(disk: SimulatedDisk) -> None:
    log = open_log(disk, _SMALL_SEGMENTS)
    assert log.offset_of_max_timestamp() is None
    for number in range(30):
        append(log, b"x" * 100, timestamp_ms=NOW_MS + (1000 if number == 7 else number))
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (NOW_MS + 1000, 7)
    log.advance_log_start_offset(8)
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (NOW_MS + 29, 29)
    assert log.offset_for_timestamp(NOW_MS + 500) is None


def test_a_lookup_by_time_begins_at_the_log_start(log: Log) -> None:
    append(log, b"a", b"b", b"c", now_ms=NOW_MS)
    log.advance_log_start_offset(2)
    found = log.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert found.offset == 2
