"""The simulated disk keeps its own promises: what fsync covered survives, nothing that never was appears."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.disk import Disk
from ottla.testing.simulated_disk import SimulatedCrash, SimulatedDisk


def _disk(seed: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk(seed)
    disk.make_dirs("/d")
    disk.fsync_dir("/")
    return disk


def test_it_is_a_disk() -> None:
    disk: Disk = SimulatedDisk()
    disk.make_dirs("/d")
    disk.open_append("/d/f").append(b"abc")
    assert disk.open_read("/d/f").pread(2, 1) == b"bc"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), synced=st.binary(max_size=50), unsynced=st.binary(max_size=1500))
def test_crash_keeps_what_was_fsynced_and_at_most_what_was_appended(seed: int, synced: bytes, unsynced: bytes) -> None:
    disk = _disk(seed)
    file = disk.open_append("/d/f")
    disk.fsync_dir("/d")
    file.append(synced)
    file.fsync()
    file.append(unsynced)
    found = disk.crash().read("/d/f")
    assert found.startswith(synced)
    assert len(found) <= len(synced) + len(unsynced)


def test_crash_has_every_kind_of_outcome_for_unsynced_bytes() -> None:
    outcomes = set()
    for seed in range(60):
        disk = _disk(seed)
        file = disk.open_append("/d/f")
        disk.fsync_dir("/d")
        file.append(bytes(range(1, 200)) * 10)
        found = disk.crash().read("/d/f")
        whole = bytes(range(1, 200)) * 10
        if found == whole:
            outcomes.add("whole")
        elif not found:
            outcomes.add("nothing")
        elif whole.startswith(found):
            outcomes.add("prefix")
        else:
            outcomes.add("damaged")
    assert outcomes == {"whole", "nothing", "prefix", "damaged"}


def test_unsynced_truncation_may_be_undone_by_a_crash() -> None:
    outcomes = set()
    for seed in range(40):
        disk = _disk(seed)
        file = disk.open_append("/d/f")
        file.append(b"0123456789")
        file.fsync()
        disk.fsync_dir("/d")
        file.truncate(4)
        file.append(b"abc")
        outcomes.add(disk.crash().read("/d/f"))
    assert b"0123456789" in outcomes
    assert b"0123abc" in outcomes
    assert b"0123456789abc" not in outcomes


def test_created_name_may_vanish_until_its_directory_is_fsynced() -> None:
    found = set()
    for seed in range(40):
        disk = _disk(seed)
        file = disk.open_append("/d/f")
        file.append(b"x")
        file.fsync()
        found.add(disk.crash().exists("/d/f"))
    assert found == {True, False}


def test_rename_is_whole_or_absent() -> None:
    found = set()
    for seed in range(40):
        disk = _disk(seed)
        disk.write_atomically("/d/old", b"x")
        disk.rename("/d/old", "/d/new")
        after = disk.crash()
        found.add(tuple(entry.name for entry in after.list("/d")))
    assert found == {("old",), ("new",)}


def test_changes_of_a_directory_survive_in_order() -> None:
    for seed in range(60):
        disk = _disk(seed)
        for number in range(5):
            disk.open_append(f"/d/{number}")
        names = sorted(entry.name for entry in disk.crash().list("/d"))
        assert names == [str(number) for number in range(len(names))]


def test_write_atomically_is_old_or_new_wherever_the_power_goes() -> None:
    seen = set()
    for operations in range(9):
        disk = _disk(operations)
        disk.write_atomically("/d/f", b"old")
        disk.crash_after(operations)
        try:
            disk.write_atomically("/d/f", b"new")
        except SimulatedCrash:
            pass
        else:
            assert disk.crash().read("/d/f") == b"new"
            continue
        seen.add(disk.crash().read("/d/f"))
    assert seen <= {b"old", b"new"}
    assert b"old" in seen


def test_crashed_disk_refuses_everything() -> None:
    disk = _disk()
    file = disk.open_append("/d/f")
    disk.crash()
    with pytest.raises(SimulatedCrash):
        file.append(b"x")
    with pytest.raises(SimulatedCrash):
        disk.list("/d")


def test_failing_once_hits_the_named_operation_and_path() -> None:
    disk = _disk()
    disk.make_dirs("/e")
    disk.fail_next("append", errno.EIO, path_prefix="/e/")
    disk.open_append("/d/f").append(b"x")
    file = disk.open_append("/e/f")
    with pytest.raises(OSError) as caught:
        file.append(b"x")
    assert caught.value.errno == errno.EIO
    file.append(b"y")
    assert disk.read("/e/f") == b"y"


def test_full_disk_refuses_and_keeps_the_old_size() -> None:
    disk = _disk()
    file = disk.open_append("/d/f")
    disk.no_space_after(3)
    file.append(b"ab")
    with pytest.raises(OSError) as caught:
        file.append(b"cd")
    assert caught.value.errno == errno.ENOSPC
    assert file.size_bytes == 2
    assert disk.read("/d/f") == b"ab"


def test_fsync_after_a_failed_fsync_saves_nothing() -> None:
    disk = _disk()
    file = disk.open_append("/d/f")
    disk.fsync_dir("/d")
    file.append(b"x")
    disk.fail_next("fsync", errno.EIO)
    with pytest.raises(OSError):
        file.fsync()
    file.fsync()
    assert disk.crash().read("/d/f") == b""


def test_same_seed_gives_the_same_crash() -> None:
    def run() -> bytes:
        disk = _disk(7)
        file = disk.open_append("/d/f")
        disk.fsync_dir("/d")
        file.append(b"0123456789" * 100)
        return disk.crash().read("/d/f")

    assert run() == run()
