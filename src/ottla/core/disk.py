"""The disk port: all that storage may do with files.

`storage/real_disk.py` is the machine's own file system; `testing/simulated_disk.py` keeps everything in memory, loses
what was not fsynced when it crashes, and fails on demand. Paths are plain strings. Failures are `OSError`.
"""

from typing import NamedTuple, Protocol

from ottla.core.types import Buffer


class DirEntry(NamedTuple):
    """One name in a directory."""

    name: str
    is_dir: bool
    size_bytes: int


class VolumeSpace(NamedTuple):
    """How large the volume is that a path lies on, and how much of it we may still use."""

    total_bytes: int
    usable_bytes: int


class ReadFile(Protocol):
    """An open file that is read at any position.

    It stays open as long as somebody holds it (the descriptor is closed with the last reference), so a slice that is
    queued on a slow socket survives the eviction of its segment from the cache of open files, and its deletion.
    """

    fd: int  # for sendfile; -1 on a simulated disk

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...


class AppendFile(Protocol):
    """An open file with one writer, who adds at its end."""

    size_bytes: int

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end; after an OSError the file has its old size again."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def fsync(self) -> None:
        """Make the contents durable; blocks. May be called from another thread than `append`."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system as storage sees it."""

    def open_append(self, path: str) -> AppendFile:
        """Open for appending; created when missing."""
        ...

    def open_read(self, path: str) -> ReadFile: ...

    def read(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace the file as a whole: temporary name, fsync, rename, fsync of the directory."""
        ...

    def list(self, path: str) -> list[DirEntry]: ...

    def exists(self, path: str) -> bool: ...

    def make_dirs(self, path: str) -> None: ...

    def rename(self, old_path: str, new_path: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def fsync_dir(self, path: str) -> None:
        """Make names (created, renamed, removed) durable."""
        ...

    def volume_space(self, path: str) -> VolumeSpace:
        """May block as long as the volume does."""
        ...


class FileSlice(NamedTuple):
    """A stretch of a file on its way to a socket, never read into Python unless it has to be."""

    file: ReadFile
    position: int
    length: int
