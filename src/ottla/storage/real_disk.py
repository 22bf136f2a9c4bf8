"""The machine's own file system behind the disk port.

An append is one `write`, an fsync is `fdatasync` where there is one (it covers the file's size). Nothing here hides an
`OSError`: what to do about a failing disk is decided by the log manager. Only the want of a descriptor is no failure of
the disk: the owner of cached files is asked to close some, and the open is tried once more.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from ottla.core.disk import AppendFile, DirEntry, ReadFile, VolumeSpace
from ottla.core.operating_system import sync_data, sync_file
from ottla.core.types import Buffer

_APPEND_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

_Opened = TypeVar("_Opened")


class RealReadFile:
    """A file open for positioned reads; its descriptor is closed with the last reference."""

    __slots__ = ("fd",)

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = os.open(path, _READ_FLAGS)

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        data = os.pread(self.fd, length, position)
        if len(data) == length or not data:
            return data
        # A read that came back short is at the end of the file, or the kernel stopped early: the next read shows which.
        parts = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(self.fd, missing, position + length - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class RealAppendFile:
    """A file open for appending, owned by one writer; only `fsync` may run on another thread.

    `close` during an fsync does not wait for it: the descriptor is closed when the fsync is done, so the number of the
    descriptor can't be given to another file under a running fsync.
    """

    __slots__ = ("_fd", "_is_closed", "_lock", "_path", "_syncs_running", "size_bytes")

    def __init__(self, path: str) -> None:
        self._fd = -1
        self._path = path
        self._lock = Lock()
        self._syncs_running = 0
        self._is_closed = False
        self._fd = os.open(path, _APPEND_FLAGS, 0o644)
        self.size_bytes = os.lseek(self._fd, 0, os.SEEK_END)

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end; after an OSError the file has its old size again."""
        length = len(data)
        try:
            written = os.write(self._fd, data)
            if written != length:
                self._write_rest(data, written)
        except OSError:
            self._undo_append()
            raise
        self.size_bytes += length

    def _write_rest(self, data: Buffer, written: int) -> None:
        # A short write is a full disk most of the time: the next write says so by its errno.
        rest = memoryview(data)[written:]
        while rest:
            written = os.write(self._fd, rest)
            if written == 0:
                raise OSError(errno.ENOSPC, f"{self._path}: no byte was written of {len(rest)}", self._path)
            rest = rest[written:]

    def _undo_append(self) -> None:
        if self._fd < 0:
            return
        try:
            os.ftruncate(self._fd, self.size_bytes)
        except OSError:
            # Half a batch may now be the end of the file. Nothing may be appended after it: close for good.
            self.close()

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)
        self.size_bytes = size_bytes

    def fsync(self) -> None:
        """Make the contents durable; blocks. May be called from another thread than `append`."""
        with self._lock:
            if self._is_closed:
                raise OSError(errno.EBADF, f"{self._path}: fsync of a closed file", self._path)
            self._syncs_running += 1
            fd = self._fd
        try:
            sync_data(fd)
        finally:
            with self._lock:
                self._syncs_running -= 1
                close_now = self._is_closed and self._syncs_running == 0
            if close_now:
                os.close(fd)

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            fd = self._fd
            self._fd = -1  # a later append fails with EBADF
            close_now = self._syncs_running == 0
        if close_now:
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            self.close()


class RealDisk:
    """The `Disk` of a running broker; one instance serves every directory and thread.

    `on_out_of_descriptors` is called on the thread that finds no descriptor left.
    """

    __slots__ = ("_on_out_of_descriptors",)

    def __init__(self, *, on_out_of_descriptors: Callable[[], None] | None = None) -> None:
        self._on_out_of_descriptors = on_out_of_descriptors

    def _open(self, open_it: Callable[[], _Opened]) -> _Opened:
        try:
            return open_it()
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS or self._on_out_of_descriptors is None:
                raise
        self._on_out_of_descriptors()
        return open_it()

    def open_append(self, path: str) -> AppendFile:
        """Open for appending; created when missing."""
        return self._open(lambda: RealAppendFile(path))

    def open_read(self, path: str) -> ReadFile:
        return self._open(lambda: RealReadFile(path))

    def read(self, path: str) -> bytes:
        fd = self._open(lambda: os.open(path, _READ_FLAGS))
        try:
            size = os.fstat(fd).st_size
            # One byte more than the size: a file that did not grow meanwhile is read in a single call.
            data = os.read(fd, size + 1)
            if len(data) == size:
                return data
            parts = [data]
            while data:
                data = os.read(fd, 1 << 20)
                parts.append(data)
            return b"".join(parts)
        finally:
            os.close(fd)

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace the file as a whole: temporary name, fsync, rename, fsync of the directory."""
        temporary = path + ".tmp"
        fd = self._open(lambda: os.open(temporary, _CREATE_FLAGS, 0o644))
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                sync_file(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self.fsync_dir(os.path.dirname(path) or ".")

    def list(self, path: str) -> list[DirEntry]:
        entries = []
        with self._open(lambda: os.scandir(path)) as scan:
            for entry in scan:
                if entry.is_dir():
                    entries.append(DirEntry(entry.name, True, 0))
                    continue
                try:
                    size_bytes = entry.stat().st_size
                except FileNotFoundError:
                    continue  # removed while we looked: as if it had never been there
                entries.append(DirEntry(entry.name, False, size_bytes))
        return entries

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old_path: str, new_path: str) -> None:
        os.rename(old_path, new_path)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with self._open(lambda: os.scandir(path)) as scan:
            entries = list(scan)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                self.remove_tree(entry.path)
            else:
                os.unlink(entry.path)
        os.rmdir(path)

    def fsync_dir(self, path: str) -> None:
        """Make names (created, renamed, removed) durable."""
        fd = self._open(lambda: os.open(path, _DIRECTORY_FLAGS))
        try:
            sync_file(fd)
        finally:
            os.close(fd)

    def volume_space(self, path: str) -> VolumeSpace:
        stat = os.statvfs(path)
        return VolumeSpace(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)
