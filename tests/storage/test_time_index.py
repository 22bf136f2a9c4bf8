"""The time index: bytes as Kafka's, only growing timestamps, lookups, truncation by offset."""

import struct

from ottla.storage.open_files import OpenFiles
from ottla.storage.time_index import TimeIndex
from ottla.testing.simulated_disk import SimulatedDisk

_PATH = "/00000000000000000100.timeindex"


def _index(disk: SimulatedDisk, *, file_bytes: int = 0) -> TimeIndex:
    return TimeIndex(_PATH, base_offset=100, open_files=OpenFiles(disk), file_bytes=file_bytes, index_bytes_max=1 << 20)


def test_an_entry_is_a_timestamp_of_eight_bytes_and_a_relative_offset_of_four() -> None:
    disk = SimulatedDisk()
    index = _index(disk)
    index.maybe_append(1_700_000_000_000, 107)
    index.write_out()
    assert disk.read(_PATH) == struct.pack(">qi", 1_700_000_000_000, 7)


def test_only_larger_timestamps_are_added() -> None:
    index = _index(SimulatedDisk())
    for timestamp_ms, offset in ((10, 101), (10, 102), (9, 103), (11, 104), (-1, 105)):
        index.maybe_append(timestamp_ms, offset)
    assert [index.entry_at(slot) for slot in range(index.entry_count)] == [(10, 101), (11, 104)]


def test_lookup_finds_the_last_entry_at_or_below() -> None:
    index = _index(SimulatedDisk())
    assert index.lookup(50) == (-1, 100)
    for number in range(300):
        index.maybe_append(number * 10, 100 + number)
        if number == 250:
            index.write_out()
    assert index.lookup(5) == (0, 100)
    assert index.lookup(-5) == (-1, 100)
    assert index.lookup(1234) == (1230, 223)
    assert index.lookup(2600) == (2600, 360)
    assert index.lookup(9999) == (2990, 399)


def test_the_last_entry_is_read_from_the_file() -> None:
    disk = SimulatedDisk()
    index = _index(disk)
    index.maybe_append(10, 101)
    index.maybe_append(20, 105)
    index.write_out()
    reopened = _index(disk, file_bytes=24)
    assert reopened.last_entry() == (20, 105)
    reopened.maybe_append(15, 106)
    assert reopened.entry_count == 2


def test_truncate_drops_entries_at_or_after_the_offset() -> None:
    index = _index(SimulatedDisk())
    for number in range(10):
        index.maybe_append(number, 100 + number * 2)
    index.truncate_to(110)
    assert index.last_entry() == (4, 108)
    index.clear()
    assert index.last_entry() == (-1, 100)
