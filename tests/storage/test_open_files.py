"""The cache of open files: bounded, least recently used first, never taking a file from who holds it."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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


def test_without_a_descriptor_left_cached_files_are_let_go_and_the_open_is_tried_again(tmp_path: Path) -> None:
    disk = RealDisk(on_out_of_descriptors=lambda: files.evict_all())
    files = OpenFiles(disk)
    for name in ("a", "b", "c"):
        files.append_file(f"{tmp_path}/{name}").append(name.encode())
    with no_descriptor_left():
        assert files.read_file(f"{tmp_path}/a").pread(10, 0) == b"a"
        assert len(files) == 1
        files.append_file(f"{tmp_path}/d").append(b"d")
    with no_descriptor_left():
        disk.write_atomically(f"{tmp_path}/e", b"e")
        files.append_file(f"{tmp_path}/b").append(b"!")
    with no_descriptor_left():
        assert {entry.name for entry in disk.list(str(tmp_path))} == set("abcde")
        assert disk.read(f"{tmp_path}/b") == b"b!"


def test_with_nothing_to_let_go_the_want_of_a_descriptor_is_an_error(tmp_path: Path) -> None:
    for disk in (RealDisk(), RealDisk(on_out_of_descriptors=lambda: None)):
        disk.write_atomically(f"{tmp_path}/a", b"a")
        with no_descriptor_left(), pytest.raises(OSError) as raised:
            disk.open_read(f"{tmp_path}/a")
        assert raised.value.errno == errno.EMFILE


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
