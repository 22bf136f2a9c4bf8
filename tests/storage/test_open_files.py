"""The cache of open files: bounded, least recently used first, never taking a file from who holds it."""

import os
from pathlib import Path

from ottla.storage.open_files import OpenFiles
from ottla.storage.real_disk import RealDisk
from ottla.testing.simulated_disk import SimulatedDisk


def test_a_file_is_opened_once() -> None:
    disk = SimulatedDisk()
    disk.open_append("/a").append(b"a")
    files = OpenFiles(disk, files_max=4)
    assert files.read_file("/a") is files.read_file("/a")
    assert files.append_file("/a") is files.append_file("/a")


def test_the_least_recently_used_file_goes_first() -> None:
    disk = SimulatedDisk()
    for name in ("/a", "/b", "/c"):
        disk.open_append(name)
    files = OpenFiles(disk, files_max=4)
    first = files.read_file("/a")
    second = files.read_file("/b")
    assert files.read_file("/a") is first
    files.read_file("/c")
    assert files.read_file("/a") is first
    assert files.read_file("/b") is not second
    assert len(files) == 2


def test_a_file_that_is_still_held_stays_open_when_it_leaves_the_cache(tmp_path: Path) -> None:
    files = OpenFiles(RealDisk(), files_max=2)
    path = str(tmp_path / "a")
    writer = files.append_file(path)
    files.append_file(str(tmp_path / "b"))
    writer.append(b"still open")
    writer.fsync()
    reader = files.read_file(path)
    files.forget(path)
    os.unlink(path)
    assert reader.pread(10, 0) == b"still open"


def test_a_forgotten_name_stands_for_the_new_file() -> None:
    disk = SimulatedDisk()
    disk.open_append("/a").append(b"old")
    files = OpenFiles(disk)
    files.read_file("/a")
    files.append_file("/a")
    files.forget("/a")
    disk.rename("/a", "/a.deleted")
    files.append_file("/a").append(b"new")
    assert files.read_file("/a").pread(10, 0) == b"new"
