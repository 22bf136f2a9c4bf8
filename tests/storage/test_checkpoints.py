"""Checkpoint files: Kafka's text, written whole, never believed when malformed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.types import TopicPartition
from ottla.storage.checkpoints import MalformedCheckpoint, read_offsets, write_offsets
from ottla.testing.simulated_disk import SimulatedDisk


def _disk_with(data: bytes) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    disk.write_atomically("/d/c", data)
    return disk


def test_offsets_are_kafkas_text() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    write_offsets(disk, "/d/c", {TopicPartition("a-b.c", 0): 7, TopicPartition("t", 12): 0})
    assert disk.read("/d/c") == b"0\n2\na-b.c 0 7\nt 12 0\n"
    assert read_offsets(disk, "/d/c") == {TopicPartition("a-b.c", 0): 7, TopicPartition("t", 12): 0}


def test_missing_file_is_empty() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    assert read_offsets(disk, "/d/c") == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0",
        b"0\n",
        b"1\n0\n",
        b"0\n2\nt 0 1\n",
        b"0\n0\nt 0 1\n",
        b"0\n1\nt 0 1",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 -1\n",
        b"0\n1\nt x 1\n",
        b"0\n1\nt 0 1 2\n",
        b"0\n1\n 0 1\n",
        b"0\n2\nt 0 1\nt 0 2\n",
        b"0\n1\nt 0 \xd9\xa1\n",
        b"0\n1\nt 0 \xff\n",
        bytes(40),
    ],
)
def test_malformed_file_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        read_offsets(_disk_with(data), "/d/c")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    offsets=st.dictionaries(
        st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 1000)),
        st.integers(0, 2**63 - 1),
        max_size=5,
    ),
    cut=st.integers(1, 20),
)
def test_cut_file_is_never_taken_for_a_shorter_one(offsets: dict[TopicPartition, int], cut: int) -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    write_offsets(disk, "/d/c", offsets)
    assert read_offsets(disk, "/d/c") == offsets
    data = disk.read("/d/c")
    with pytest.raises(MalformedCheckpoint):
        read_offsets(_disk_with(data[:-cut]), "/d/c")
