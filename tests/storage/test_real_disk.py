"""The machine's own file system behind the disk port."""

import errno
import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.core.disk import AppendFile, DirEntry, Disk
from ottla.storage.real_disk import RealDisk


@pytest.fixture
def disk() -> Disk:
    return RealDisk()


@pytest.fixture
def small_file_limit() -> Iterator[int]:
    """Writes beyond 1000 bytes of a file fail with EFBIG, the first of them after a short write."""
    old_limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old_limits[1]))
    yield 1000
    resource.setrlimit(resource.RLIMIT_FSIZE, old_limits)
    signal.signal(signal.SIGXFSZ, old_handler)


def test_append_adds_at_the_end_and_is_read_back(disk: Disk, tmp_path: Path) -> None:
    path = f"{tmp_path}/a.log"
    file = disk.open_append(path)
    file.append(b"one")
    file.append(memoryview(bytearray(b"two")))
    assert file.size_bytes == 6
    reader = disk.open_read(path)
    assert reader.pread(100, 0) == b"onetwo"
    assert reader.pread(2, 3) == b"tw"
    assert reader.pread(2, 6) == b""
    assert disk.read(path) == b"onetwo"


def test_reopened_file_continues_where_it_ended(disk: Disk, tmp_path: Path) -> None:
    path = f"{tmp_path}/a.log"
    first = disk.open_append(path)
    first.append(b"one")
    first.close()
    second = disk.open_append(path)
    assert second.size_bytes == 3
    second.append(b"two")
    assert disk.read(path) == b"onetwo"


def test_truncate_then_append_leaves_no_hole(disk: Disk, tmp_path: Path) -> None:
    path = f"{tmp_path}/a.log"
    file = disk.open_append(path)
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size_bytes == 4
    file.append(b"x")
    assert disk.read(path) == b"0123x"


def test_short_write_is_undone(disk: Disk, tmp_path: Path, small_file_limit: int) -> None:
    path = f"{tmp_path}/a.log"
    file = disk.open_append(path)
    file.append(b"a" * 900)
    with pytest.raises(OSError) as caught:
        file.append(b"b" * 900)
    assert caught.value.errno == errno.EFBIG
    assert file.size_bytes == 900
    assert os.path.getsize(path) == 900
    file.append(b"c" * 100)
    assert disk.read(path) == b"a" * 900 + b"c" * 100


def test_append_to_a_closed_file_fails(disk: Disk, tmp_path: Path) -> None:
    file = disk.open_append(f"{tmp_path}/a.log")
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.append(b"x")
    with pytest.raises(OSError):
        file.fsync()


def test_read_file_outlives_its_name(disk: Disk, tmp_path: Path) -> None:
    path = f"{tmp_path}/a.log"
    disk.open_append(path).append(b"kept")
    reader = disk.open_read(path)
    disk.remove(path)
    assert reader.pread(4, 0) == b"kept"


def test_read_file_closes_its_descriptor_with_the_last_reference(disk: Disk, tmp_path: Path) -> None:
    path = f"{tmp_path}/a.log"
    disk.open_append(path).append(b"x")
    reader = disk.open_read(path)
    fd = reader.fd
    os.fstat(fd)
    del reader
    with pytest.raises(OSError):
        os.fstat(fd)


def test_close_during_fsync_from_another_thread_is_safe(disk: Disk, tmp_path: Path) -> None:
    for round_number in range(50):
        file: AppendFile = disk.open_append(f"{tmp_path}/{round_number}.log")
        file.append(b"x" * 4096)
        unexpected: list[int | None] = []

        def sync(file: AppendFile = file, unexpected: list[int | None] = unexpected) -> None:
            try:
                file.fsync()
            except OSError as error:
                if "closed file" not in str(error):  # EBADF of the kernel would mean a descriptor closed under us
                    unexpected.append(error.errno)

        thread = threading.Thread(target=sync)
        thread.start()
        file.close()
        thread.join()
        assert not unexpected


def test_write_atomically_replaces_and_leaves_no_temporary_file(disk: Disk, tmp_path: Path) -> None:
    path = f"{tmp_path}/checkpoint"
    disk.write_atomically(path, b"old")
    disk.write_atomically(path, b"new")
    assert disk.read(path) == b"new"
    assert [entry.name for entry in disk.list(str(tmp_path))] == ["checkpoint"]


def test_failed_write_atomically_keeps_the_old_file(disk: Disk, tmp_path: Path, small_file_limit: int) -> None:
    path = f"{tmp_path}/checkpoint"
    disk.write_atomically(path, b"old")
    with pytest.raises(OSError):
        disk.write_atomically(path, b"x" * 2000)
    assert disk.read(path) == b"old"
    assert [entry.name for entry in disk.list(str(tmp_path))] == ["checkpoint"]


def test_list_rename_exists_and_remove_tree(disk: Disk, tmp_path: Path) -> None:
    disk.make_dirs(f"{tmp_path}/a/b")
    disk.make_dirs(f"{tmp_path}/a/b")
    disk.write_atomically(f"{tmp_path}/a/b/file", b"12345")
    disk.write_atomically(f"{tmp_path}/a/file", b"123")
    assert sorted(disk.list(f"{tmp_path}/a")) == [DirEntry("b", True, 0), DirEntry("file", False, 3)]
    disk.rename(f"{tmp_path}/a", f"{tmp_path}/c")
    disk.fsync_dir(str(tmp_path))
    assert disk.exists(f"{tmp_path}/c/b/file")
    assert not disk.exists(f"{tmp_path}/a")
    disk.remove_tree(f"{tmp_path}/c")
    assert disk.list(str(tmp_path)) == []
