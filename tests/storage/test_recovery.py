"""Loading a log whose files are torn, missing, corrupt or left over."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.log_making import DIRECTORY, NOW_MS, append, batch, names, open_log, read_all, values_of

_CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)
_COUNT = 20  # batches of one record, three to a segment: the last segment begins at 18


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(1)
    log = open_log(disk, _CONFIG)
    for number in range(_COUNT):
        append(log, b"%03d" % number * 60, now_ms=NOW_MS + number, leader_epoch=number // 5)
    log.close(now_ms=NOW_MS)
    return disk


def _path(base_offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def _replace(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open_append(path)
    file.truncate(0)
    file.append(data)


def _expect(log: Log, end_offset: int) -> None:
    """The log holds exactly the first offsets, can be searched by time, and goes on."""
    assert log.log_end_offset == end_offset
    assert [record.offset for record in read_all(log)] == list(range(end_offset))
    for offset in range(end_offset):
        assert read_all(log, offset)[0].offset == offset
        found = log.offset_for_timestamp(NOW_MS + offset)
        assert found is not None
        assert found.offset == offset
    info = append(log, b"next", now_ms=NOW_MS + 1000, leader_epoch=100)
    assert info.first_offset == end_offset
    assert values_of(read_all(log))[-1] == b"next"


@pytest.mark.parametrize("recovery_point", [0, 7, 18, 19, 20])
def test_an_unclean_log_that_is_whole_loses_nothing(disk: SimulatedDisk, recovery_point: int) -> None:
    log = open_log(disk, _CONFIG, was_clean=False, recovery_point=recovery_point)
    assert log.recovery.is_clean
    assert log.recovery.segments_checked >= 1
    assert log.leader_epochs.entries() == [(0, 0), (1, 5), (2, 10), (3, 15)]
    assert log.recovery_point == recovery_point
    _expect(log, _COUNT)


def test_only_segments_from_the_recovery_point_on_are_read(disk: SimulatedDisk) -> None:
    log = open_log(disk, _CONFIG, was_clean=False, recovery_point=19)
    assert log.recovery.segments_checked == 1
    # One that ends exactly there may have indexes that were never fsynced.
    log = open_log(disk, _CONFIG, was_clean=False, recovery_point=18)
    assert log.recovery.segments_checked == 2


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("cut", [1, 30, 60, 61, 100, 243])
def test_a_torn_last_batch_is_cut(disk: SimulatedDisk, cut: int, was_clean: bool) -> None:
    data = disk.read(_path(18))
    size_bytes = len(data) // 2  # two batches
    _replace(disk, _path(18), data[: size_bytes + min(cut, size_bytes - 1)])
    log = open_log(disk, _CONFIG, was_clean=was_clean, recovery_point=18)
    assert log.recovery.bytes_truncated == min(cut, size_bytes - 1)
    assert log.recovery.first_fault is not None
    _expect(log, 19)


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("tail", [b"\0" * 7, b"\0" * 5000, b"\xff" * 300, b"garbage" * 100])
def test_bytes_that_are_no_batch_are_cut(disk: SimulatedDisk, tail: bytes, was_clean: bool) -> None:
    disk.open_append(_path(18)).append(tail)
    log = open_log(disk, _CONFIG, was_clean=was_clean, recovery_point=18)
    assert log.recovery.bytes_truncated == len(tail)
    _expect(log, _COUNT)


def test_a_batch_that_fails_its_checksum_ends_the_log_with_all_later_segments(disk: SimulatedDisk) -> None:
    data = disk.read(_path(9))
    disk.corrupt(_path(9), len(data) // 3 * 2 - 1)
    log = open_log(disk, _CONFIG, was_clean=False, recovery_point=5)
    assert log.recovery.segments_dropped == 3
    assert log.recovery.bytes_truncated > 0
    assert log.leader_epochs.entries() == [(0, 0), (1, 5)]
    assert _path(12).rpartition("/")[2] not in names(disk)
    _expect(log, 10)


def test_offsets_that_go_back_end_the_log(disk: SimulatedDisk) -> None:
    disk.open_append(_path(18)).append(bytes(batch(b"again", base_offset=18, leader_epoch=3)))
    _expect(open_log(disk, _CONFIG, was_clean=False), _COUNT)


def test_a_leader_epoch_that_goes_back_ends_the_log(disk: SimulatedDisk) -> None:
    disk.open_append(_path(18)).append(bytes(batch(b"older", base_offset=20, leader_epoch=2)))
    _expect(open_log(disk, _CONFIG, was_clean=False), _COUNT)


def test_a_hole_between_segments_ends_the_log(disk: SimulatedDisk) -> None:
    data = disk.read(_path(12))
    _replace(disk, _path(12), data[: len(data) // 3])
    log = open_log(disk, _CONFIG, was_clean=False, recovery_point=10)
    assert log.recovery.segments_dropped == 2
    _expect(log, 13)


def test_a_compacted_log_may_have_holes(disk: SimulatedDisk) -> None:
    data = disk.read(_path(12))
    _replace(disk, _path(12), data[: len(data) // 3])
    log = open_log(disk, _CONFIG._replace(compact=True), was_clean=False, recovery_point=10)
    assert log.recovery.segments_dropped == 0
    assert [record.offset for record in read_all(log)] == [*range(13), *range(15, 20)]


@pytest.mark.parametrize("was_clean", [True, False])
def test_an_empty_last_segment_ends_where_it_begins(disk: SimulatedDisk, was_clean: bool) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        _replace(disk, _path(18, suffix), b"")
    _expect(open_log(disk, _CONFIG, was_clean=was_clean), 18)


def test_a_log_file_alone_is_enough(disk: SimulatedDisk) -> None:
    for name in names(disk):
        if not name.endswith(".log"):
            disk.remove(f"{DIRECTORY}/{name}")
    log = open_log(disk, _CONFIG)
    assert log.recovery.indexes_rebuilt == 7
    assert log.leader_epochs.entries() == [(0, 0), (1, 5), (2, 10), (3, 15)]
    _expect(log, _COUNT)


@pytest.mark.parametrize("base_offset", [0, 9, 18])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd size", "zeros", "garbage", "beyond", "empty", "reversed"])
@pytest.mark.parametrize("was_clean", [True, False])
def test_a_damaged_index_is_rebuilt(
    disk: SimulatedDisk, base_offset: int, suffix: str, damage: str, was_clean: bool
) -> None:
    path = _path(base_offset, suffix)
    data = disk.read(path)
    entry_bytes = 8 if suffix == ".index" else 12
    if damage == "missing":
        disk.remove(path)
    else:
        entries = [data[at : at + entry_bytes] for at in range(0, len(data), entry_bytes)]
        damaged = {
            "odd size": data + b"abc",
            "zeros": bytes(entry_bytes * 100),
            "garbage": b"\x13\x37" * (entry_bytes * 50),
            "beyond": data + (b"\x00\x00\x00\x01\x7f\xff\xff\xff\xff\xff\xff\xff")[:entry_bytes],
            "empty": b"",
            "reversed": b"".join(reversed(entries)),
        }
        _replace(disk, path, damaged[damage])
    _expect(open_log(disk, _CONFIG, was_clean=was_clean, recovery_point=_COUNT), _COUNT)


def test_retention_does_not_believe_a_corrupt_time_index(disk: SimulatedDisk) -> None:
    entry = (1).to_bytes(8, "big") + (0).to_bytes(4, "big")
    _replace(disk, _path(0, ".timeindex"), entry)
    log = open_log(disk, _CONFIG._replace(retention_ms=100_000))
    assert log.delete_old_segments(NOW_MS + 50_000) == []


def test_a_broken_header_in_an_old_segment_is_an_error_of_that_read_only(disk: SimulatedDisk) -> None:
    disk.corrupt(_path(9), 16, xor=0xFF)  # the magic byte of the first batch
    log = open_log(disk, _CONFIG)
    assert log.read(9, max_bytes=100).error_code == ErrorCode.CORRUPT_MESSAGE
    assert read_all(log, 10)[0].offset == 10  # the index leads behind it
    assert read_all(log, 12)[0].offset == 12
    found = log.offset_for_timestamp(NOW_MS + 12)
    assert found is not None
    assert found.offset == 12
    append(log, b"goes on", leader_epoch=9)


def test_a_broken_log_with_a_broken_index_is_not_searched_with_every_read(disk: SimulatedDisk) -> None:
    disk.corrupt(_path(9), 16, xor=0xFF)
    _replace(disk, _path(9, ".index"), b"\x00\x00\x00\x01\x00\x00\x00\x05" * 2)
    log = open_log(disk, _CONFIG)
    assert log.read(10, max_bytes=100).error_code == ErrorCode.CORRUPT_MESSAGE
    disk.counts.clear()
    assert log.read(11, max_bytes=100).error_code == ErrorCode.CORRUPT_MESSAGE
    assert disk.counts["pread"] <= 3
    assert log.delete_old_segments(NOW_MS + 10) == []


def test_leftovers_are_removed(disk: SimulatedDisk) -> None:
    leftovers = [
        f"{3:020d}.log.deleted",
        f"{3:020d}.index.deleted",
        f"{0:020d}.log.cleaned",
        f"{0:020d}.timeindex.cleaned",
        "leader-epoch-checkpoint.tmp",
    ]
    for name in leftovers:
        disk.open_append(f"{DIRECTORY}/{name}").append(b"x")
    log = open_log(disk, _CONFIG)
    assert log.recovery.leftovers_removed == 5
    assert not names(disk) & set(leftovers)
    _expect(log, _COUNT)


def test_an_index_without_its_log_is_removed(disk: SimulatedDisk) -> None:
    disk.open_append(_path(5, ".index")).append(b"12345678")
    _expect(open_log(disk, _CONFIG), _COUNT)
    assert f"{5:020d}.index" not in names(disk)


def _swap(disk: SimulatedDisk) -> bytes:
    """What a cleaner made of the segments at 0 and 3: the records 1 and 5."""
    data = bytes(batch(b"one", base_offset=1, leader_epoch=0)) + bytes(batch(b"five", base_offset=5, leader_epoch=1))
    disk.open_append(_path(0, ".log.swap")).append(data)
    disk.open_append(_path(0, ".index.swap"))
    disk.open_append(_path(0, ".timeindex.swap"))
    return data


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_swap_takes_the_place_of_what_it_was_made_from(disk: SimulatedDisk, was_clean: bool) -> None:
    _swap(disk)
    log = open_log(disk, _CONFIG._replace(compact=True), was_clean=was_clean)
    assert log.recovery.swaps_finished == 1
    assert [record.offset for record in read_all(log)] == [1, 5, *range(6, 20)]
    assert not any(name.endswith(".swap") for name in names(disk))
    assert f"{3:020d}.log" not in names(disk)


def test_a_swap_is_undone_when_its_operation_was_not_complete(disk: SimulatedDisk) -> None:
    _swap(disk)
    disk.open_append(_path(0, ".log.cleaned")).append(b"half")
    log = open_log(disk, _CONFIG)
    assert log.recovery.swaps_finished == 0
    _expect(log, _COUNT)


def test_a_broken_swap_does_not_cost_the_originals(disk: SimulatedDisk) -> None:
    data = _swap(disk)
    disk.corrupt(_path(0, ".log.swap"), len(data) - 1)
    _expect(open_log(disk, _CONFIG), _COUNT)


def test_swapped_indexes_alone_are_renamed_too(disk: SimulatedDisk) -> None:
    disk.rename(_path(3, ".index"), _path(3, ".index.swap"))
    log = open_log(disk, _CONFIG)
    assert f"{3:020d}.index" in names(disk)
    assert log.recovery.indexes_rebuilt == 0
    _expect(log, _COUNT)


def test_a_log_that_ends_below_its_start_begins_afresh(disk: SimulatedDisk) -> None:
    log = open_log(disk, _CONFIG, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert append(log, b"a", leader_epoch=9).first_offset == 500


def test_a_malformed_epoch_file_is_made_anew_from_the_batches(disk: SimulatedDisk) -> None:
    _replace(disk, f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\nnonsense\n")
    log = open_log(disk, _CONFIG)
    assert log.leader_epochs.entries() == [(0, 0), (1, 5), (2, 10), (3, 15)]


def test_recovery_reads_in_blocks(disk: SimulatedDisk) -> None:
    large = open_log(disk, directory="/data/large-0")
    for _ in range(8):
        append(large, b"x" * 900_000)
    disk.counts.clear()
    log = open_log(disk, directory="/data/large-0", was_clean=False)
    assert log.log_end_offset == 8
    assert 8 <= disk.counts["pread"] <= 40


def test_a_second_recovery_finds_nothing_more_to_do(disk: SimulatedDisk) -> None:
    disk.open_append(_path(18)).append(b"\0" * 100)
    open_log(disk, _CONFIG, was_clean=False).close(now_ms=NOW_MS)
    log = open_log(disk, _CONFIG, was_clean=False)
    assert log.recovery.is_clean
    _expect(log, _COUNT)
