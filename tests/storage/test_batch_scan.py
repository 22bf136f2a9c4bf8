"""Walking over a log file: blocks of any size, broken bytes, lengths that lie."""

import pytest

from ottla.records.errors import CorruptBatch
from ottla.storage.batch_scan import find_batch, scan_checked, scan_headers
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.log_making import batch


def _batches(sizes: list[int]) -> list[bytes]:
    return [bytes(batch(b"x" * size, base_offset=number)) for number, size in enumerate(sizes)]


@pytest.mark.parametrize("size", [1, 100, 8000, 9000, 70_000, 1_100_000, 2_300_000])
def test_both_walks_see_every_batch_whatever_its_size(size: int) -> None:
    batches = _batches([size, 10, size, 50])
    data = b"".join(batches)
    disk = SimulatedDisk()
    disk.open_append("/f").append(data)
    file = disk.open_read("/f")
    for walk in (scan_headers(file, start=0, end=len(data)), scan_checked(file, start=0, end=len(data))):
        assert [header.base_offset for _, header in walk] == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [100, 1_100_000])
def test_a_flipped_bit_stops_the_checked_walk(size: int) -> None:
    batches = _batches([10, size, 10])
    data = bytearray(b"".join(batches))
    data[len(batches[0]) + len(batches[1]) - 1] ^= 1
    disk = SimulatedDisk()
    disk.open_append("/f").append(data)
    walk = scan_checked(disk.open_read("/f"), start=0, end=len(data))
    assert next(walk)[1].base_offset == 0
    with pytest.raises(CorruptBatch, match="checksum"):
        next(walk)


@pytest.mark.parametrize(
    "tail",
    [b"\0" * 10, b"\0" * 500, b"\xff" * 500, b"\x01" * 61, bytes(batch(b"torn"))[:-1], bytes(batch(b"torn"))[:30]],
)
def test_what_is_no_whole_batch_is_corrupt(tail: bytes) -> None:
    good = bytes(batch(b"good"))
    disk = SimulatedDisk()
    disk.open_append("/f").append(good + tail)
    for scan in (scan_headers, scan_checked):
        walk = scan(disk.open_read("/f"), start=0, end=len(good) + len(tail))
        next(walk)
        with pytest.raises(CorruptBatch):
            next(walk)


def test_find_batch_gives_the_first_that_ends_at_or_after() -> None:
    data = bytes(batch(b"a", b"b", base_offset=10)) + bytes(batch(b"c", base_offset=20))
    disk = SimulatedDisk()
    disk.open_append("/f").append(data)
    file = disk.open_read("/f")
    for offset, expected in ((0, 10), (11, 10), (12, 20), (20, 20)):
        found = find_batch(file, start=0, end=len(data), offset=offset)
        assert found is not None
        assert found[1].base_offset == expected
    assert find_batch(file, start=0, end=len(data), offset=21) is None
