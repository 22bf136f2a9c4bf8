"""The offset index: bytes as Kafka's, lookups, truncation, entries that are not in the file yet."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_files import OpenFiles
from ottla.storage.sparse_index import IndexCorrupt
from ottla.testing.simulated_disk import SimulatedDisk

_PATH = "/00000000000000000100.index"


def _index(disk: SimulatedDisk, *, file_bytes: int = 0, index_bytes_max: int = 1 << 20) -> OffsetIndex:
    return OffsetIndex(
        _PATH, base_offset=100, open_files=OpenFiles(disk), file_bytes=file_bytes, index_bytes_max=index_bytes_max
    )


def test_an_entry_is_a_relative_offset_and_a_position_of_four_bytes_each() -> None:
    disk = SimulatedDisk()
    index = _index(disk)
    index.append(105, 4096)
    index.append(230, 9000)
    index.write_out()
    assert disk.read(_PATH) == struct.pack(">iiii", 5, 4096, 130, 9000)


def test_an_empty_index_points_to_the_beginning() -> None:
    index = _index(SimulatedDisk())
    assert index.lookup(500) == (100, 0)
    assert index.last_entry() == (100, 0)


def test_an_index_is_full_at_its_size() -> None:
    index = _index(SimulatedDisk(), index_bytes_max=17)
    index.append(101, 1)
    assert not index.is_full
    index.append(102, 2)
    assert index.is_full


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 5000), unique=True, max_size=1500).map(sorted),
    st.integers(0, 1500),
    st.lists(st.integers(-10, 5100), min_size=1, max_size=20),
)
def test_lookup_finds_the_last_entry_at_or_below(relative: list[int], written: int, asked: list[int]) -> None:
    index = _index(SimulatedDisk())
    for number, offset in enumerate(relative):
        index.append(100 + offset, number * 10 + 1)
        if number == written:
            index.write_out()
    for key in asked:
        below = [number for number, offset in enumerate(relative) if offset <= key]
        expected = (100 + relative[below[-1]], below[-1] * 10 + 1) if below else (100, 0)
        assert index.lookup(100 + key) == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 300), unique=True, max_size=200).map(sorted), st.integers(0, 200), st.integers(-5, 310))
def test_truncate_drops_entries_at_or_after_the_offset(relative: list[int], written: int, cut: int) -> None:
    disk = SimulatedDisk()
    index = _index(disk)
    for number, offset in enumerate(relative):
        index.append(100 + offset, number)
        if number == written:
            index.write_out()
    index.truncate_to(100 + cut)
    kept = [offset for offset in relative if offset < cut]
    index.append(100 + 400, 999)
    index.write_out()
    assert [index.entry_at(slot)[0] - 100 for slot in range(index.entry_count)] == [*kept, 400]
    assert len(disk.read(_PATH)) == index.size_bytes == 8 * (len(kept) + 1)


def test_a_file_shorter_than_it_was_is_noticed() -> None:
    disk = SimulatedDisk()
    disk.open_append(_PATH).append(bytes(80))
    index = _index(disk, file_bytes=800)
    with pytest.raises(IndexCorrupt):
        index.lookup(200)
    with pytest.raises(IndexCorrupt):
        index.last_entry()
