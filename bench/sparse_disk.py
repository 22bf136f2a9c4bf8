"""The real disk, but of each large append only the first block is written: huge logs that take little room."""

import os

from ottla.core.disk import AppendFile
from ottla.core.types import Buffer
from ottla.storage.real_disk import RealDisk

_WRITTEN_BYTES = 4096


class SparseAppendFile:
    """Stands in for the real append file; a hole follows the first block of what is appended."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self.size_bytes = os.fstat(self._fd).st_size

    def append(self, data: Buffer) -> None:
        view = memoryview(data)
        os.pwrite(self._fd, view[:_WRITTEN_BYTES] if len(view) > 2 * _WRITTEN_BYTES else view, self.size_bytes)
        self.size_bytes += len(view)
        os.ftruncate(self._fd, self.size_bytes)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)
        self.size_bytes = size_bytes

    def fsync(self) -> None:
        """Nothing here has to survive a crash."""

    def close(self) -> None:
        os.close(self._fd)
        self._fd = -1


class SparseDisk(RealDisk):
    def open_append(self, path: str) -> AppendFile:
        return SparseAppendFile(path)
