"""A disk in memory that loses, at a crash, what a real one may lose, and that fails on demand.

Everything random comes from one seed. Contents are durable up to the last fsync of the file, names up to the last
`fsync_dir` of their directory; a crash keeps some of what came after, in ways a journaling file system could.
"""

import errno
import os
from random import Random

from ottla.core.disk import AppendFile, DirEntry, ReadFile, VolumeSpace
from ottla.core.types import Buffer

_SECTOR_BYTES = 512


class SimulatedCrash(Exception):
    """The power is off: every operation on this disk fails; the test goes on with the disk that `crash()` returns."""


_VOLUME_BYTES = 1 << 40


class _File:
    """A file's contents apart from its names.

    The first `durable_size` bytes of `data` are durable, and so is `cut_tail`, which a truncation that is not yet
    fsynced took off behind them.
    """

    __slots__ = ("cut_tail", "data", "durable_size", "is_poisoned")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.durable_size = len(data)
        self.cut_tail = b""
        self.is_poisoned = False

    def truncate(self, size_bytes: int) -> None:
        if size_bytes < self.durable_size:
            self.cut_tail = bytes(self.data[size_bytes : self.durable_size]) + self.cut_tail
            self.durable_size = size_bytes
        if size_bytes < len(self.data):
            del self.data[size_bytes:]
        else:
            self.data.extend(bytes(size_bytes - len(self.data)))

    def fsync(self) -> None:
        # After a failed fsync the kernel holds the lost pages for clean: the next fsync "succeeds" and saves nothing.
        if not self.is_poisoned:
            self.durable_size = len(self.data)
            self.cut_tail = b""

    def after_crash(self, random: Random) -> "_File":
        durable = bytes(self.data[: self.durable_size])
        if self.cut_tail and random.random() < 0.5:
            return _File(durable + self.cut_tail)
        volatile = self.data[self.durable_size :]
        if self.is_poisoned or not volatile:
            return _File(durable)
        kept = volatile[: random.choice((0, len(volatile), random.randint(0, len(volatile))))]
        fate = random.randrange(4)
        if kept and fate < 2:
            # The size reached the disk, the last sector did not: it holds zeros, or what was there before.
            damaged = min(len(kept), random.randint(1, _SECTOR_BYTES))
            kept[-damaged:] = bytes(damaged) if fate == 0 else random.randbytes(damaged)
        return _File(durable + kept)


class _Directory:
    __slots__ = ("durable_entries", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, _File | _Directory] = {}
        self.durable_entries: dict[str, _File | _Directory] = {}

    def after_crash(self, random: Random) -> "_Directory":
        survivor = _Directory()
        for name, node in self.durable_entries.items():
            survivor.entries[name] = node.after_crash(random)
        survivor.durable_entries = dict(survivor.entries)
        return survivor


# A change of names that happens as a whole: (directory, name, what the name stands for now).
_NameChange = list[tuple[_Directory, str, _File | _Directory | None]]


class SimulatedReadFile:
    """Reads on a simulated disk; keeps the contents alive after the name is gone, like an open descriptor."""

    __slots__ = ("_disk", "_file", "_path", "fd")

    def __init__(self, disk: "SimulatedDisk", path: str, file: _File) -> None:
        self.fd = -1
        self._disk = disk
        self._path = path
        self._file = file

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        self._disk.begin("pread", self._path)
        return bytes(self._file.data[position : position + length])


class SimulatedAppendFile:
    """Appends on a simulated disk."""

    __slots__ = ("_disk", "_file", "_is_closed", "_path", "size_bytes")

    def __init__(self, disk: "SimulatedDisk", path: str, file: _File) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        self._is_closed = False
        self.size_bytes = len(file.data)

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end; after an OSError the file has its old size again."""
        self._check_open()
        self._disk.begin("append", self._path)
        self._disk.take_space(len(data), self._path)
        self._file.data += data
        self.size_bytes += len(data)

    def truncate(self, size_bytes: int) -> None:
        self._check_open()
        self._disk.begin("truncate", self._path)
        self._file.truncate(size_bytes)
        self.size_bytes = size_bytes

    def fsync(self) -> None:
        """Make the contents durable."""
        self._check_open()
        try:
            self._disk.begin("fsync", self._path)
        except OSError:
            self._file.is_poisoned = True
            raise
        self._file.fsync()

    def close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, f"{self._path} is closed", self._path)


class _Fault:
    __slots__ = ("errno", "operation", "path_prefix", "times")

    def __init__(self, operation: str, errno: int, path_prefix: str, times: int) -> None:
        self.operation = operation
        self.errno = errno
        self.path_prefix = path_prefix
        self.times = times


class SimulatedDisk:
    """The disk port in memory, for one test; not for several threads at once.

    `crash()` gives the disk as it is found after a power loss; `fail_next`, `no_space_after`, `crash_after` break it.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)
        self._root = _Directory()
        self._pending: list[_NameChange] = []
        self._faults: list[_Fault] = []
        self._space_left: int | None = None
        self._operations_left: int | None = None
        self._is_crashed = False
        self.operations = 0
        self.counts: dict[str, int] = {}

    # Breaking it

    def fail_next(self, operation: str, errno: int, *, path_prefix: str = "", times: int = 1) -> None:
        """The next `times` calls of `operation` ("*": any) on paths under `path_prefix` raise OSError(errno)."""
        self._faults.append(_Fault(operation, errno, path_prefix, times))

    def heal(self) -> None:
        """Forget the faults that were ordered and give the space back."""
        self._faults.clear()
        self._space_left = None
        self._operations_left = None

    def no_space_after(self, size_bytes: int | None) -> None:
        """After that many more appended bytes the disk is full."""
        self._space_left = size_bytes

    def crash_after(self, operations: int) -> None:
        """Let that many more operations happen; the one after them raises SimulatedCrash, and so do all later ones."""
        self._operations_left = operations

    def crash(self) -> "SimulatedDisk":
        """The power fails: this disk is dead, the returned one holds what survived."""
        self._is_crashed = True
        random = self._random
        survivor = SimulatedDisk(random.getrandbits(64))
        # A journal keeps the order of changes within a directory: once one is lost, so are all that follow it there.
        chance_of_loss = random.random()
        lost_directories: set[int] = set()
        for change in self._pending:
            touched = {id(directory) for directory, _, _ in change}
            if touched & lost_directories or random.random() < chance_of_loss:
                lost_directories |= touched
            else:
                _make_durable(change)
        survivor._root = self._root.after_crash(random)
        return survivor

    def end_process(self) -> "SimulatedDisk":
        """The process was killed: it can't use this disk any more; the returned one holds all that was written."""
        self._is_crashed = True
        survivor = SimulatedDisk(self._random.getrandbits(64))
        survivor._root = self._root
        survivor._pending = self._pending
        survivor._faults = self._faults
        survivor._space_left = self._space_left
        survivor._operations_left = self._operations_left
        return survivor

    def corrupt(self, path: str, position: int, *, xor: int = 0x01) -> None:
        """Flip bits of one byte of a file, durably: rot on the platter."""
        file = self._file(path)
        file.data[position] ^= xor

    def begin(self, operation: str, path: str) -> None:
        """Count an operation and fail it if that was ordered. Used by the open files of this disk."""
        if self._is_crashed:
            raise SimulatedCrash(f"{operation} {path}: the disk has crashed")
        if self._operations_left is not None:
            if self._operations_left == 0:
                self._is_crashed = True
                raise SimulatedCrash(f"power lost before {operation} {path}")
            self._operations_left -= 1
        self.operations += 1
        self.counts[operation] = self.counts.get(operation, 0) + 1
        for fault in self._faults:
            if fault.operation in ("*", operation) and path.startswith(fault.path_prefix):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                raise OSError(fault.errno, os.strerror(fault.errno), path)

    def take_space(self, size_bytes: int, path: str) -> None:
        """Account for appended bytes."""
        if self._space_left is None:
            return
        if size_bytes > self._space_left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self._space_left -= size_bytes

    # The port

    def open_append(self, path: str) -> AppendFile:
        """Open for appending; created when missing."""
        self.begin("open_append", path)
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is None:
            node = _File()
            self._change([(directory, name, node)])
        return SimulatedAppendFile(self, path, node)

    def open_read(self, path: str) -> ReadFile:
        self.begin("open_read", path)
        return SimulatedReadFile(self, path, self._file(path))

    def read(self, path: str) -> bytes:
        self.begin("read", path)
        return bytes(self._file(path).data)

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace the file as a whole; each of its steps is an operation that can crash or fail."""
        self.begin("write_atomically", path)
        temporary = path + ".tmp"
        if self.exists(temporary):
            self.remove(temporary)
        file = self.open_append(temporary)
        file.append(data)
        file.fsync()
        file.close()
        self.rename(temporary, path)
        self.fsync_dir(os.path.dirname(path))

    def list(self, path: str) -> list[DirEntry]:
        self.begin("list", path)
        entries = self._directory(path).entries
        return [
            DirEntry(name, True, 0) if isinstance(node, _Directory) else DirEntry(name, False, len(node.data))
            for name, node in entries.items()
        ]

    def exists(self, path: str) -> bool:
        self.begin("exists", path)
        return self._find(path) is not None

    def make_dirs(self, path: str) -> None:
        self.begin("make_dirs", path)
        directory = self._root
        for name in _parts(path):
            node = directory.entries.get(name)
            if node is None:
                node = _Directory()
                self._change([(directory, name, node)])
            elif not isinstance(node, _Directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            directory = node

    def rename(self, old_path: str, new_path: str) -> None:
        self.begin("rename", old_path)
        old_directory, old_name = self._parent(old_path)
        new_directory, new_name = self._parent(new_path)
        node = old_directory.entries.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old_path)
        replaced = new_directory.entries.get(new_name)
        if isinstance(replaced, _Directory) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new_path)
        self._change([(old_directory, old_name, None), (new_directory, new_name, node)])

    def remove(self, path: str) -> None:
        self.begin("remove", path)
        self._file(path)
        directory, name = self._parent(path)
        self._change([(directory, name, None)])

    def remove_tree(self, path: str) -> None:
        self.begin("remove_tree", path)
        directory = self._directory(path)
        for name, node in list(directory.entries.items()):
            child_path = f"{path}/{name}"
            if isinstance(node, _Directory):
                self.remove_tree(child_path)
            else:
                self.remove(child_path)
        parent, own_name = self._parent(path)
        self._change([(parent, own_name, None)])

    def volume_space(self, path: str) -> VolumeSpace:
        self.begin("volume_space", path)
        return VolumeSpace(_VOLUME_BYTES, _VOLUME_BYTES if self._space_left is None else self._space_left)

    def fsync_dir(self, path: str) -> None:
        """Make names (created, renamed, removed) durable."""
        self.begin("fsync_dir", path)
        directory = self._directory(path)
        # A change over two directories drags the earlier changes of the other one along, as a journal would.
        needed = {id(directory)}
        kept: list[_NameChange] = []
        committed: list[_NameChange] = []
        for change in reversed(self._pending):
            touched = {id(touched_directory) for touched_directory, _, _ in change}
            if touched & needed:
                needed |= touched
                committed.append(change)
            else:
                kept.append(change)
        for change in reversed(committed):
            _make_durable(change)
        kept.reverse()
        self._pending = kept

    # Finding the way

    def _change(self, change: _NameChange) -> None:
        for directory, name, node in change:
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node
        self._pending.append(change)

    def _find(self, path: str) -> _File | _Directory | None:
        node: _File | _Directory | None = self._root
        for name in _parts(path):
            if not isinstance(node, _Directory):
                return None
            node = node.entries.get(name)
        return node

    def _file(self, path: str) -> _File:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        directory_path, _, name = path.rstrip("/").rpartition("/")
        return self._directory(directory_path), name


def _make_durable(change: _NameChange) -> None:
    for directory, name, node in change:
        if node is None:
            directory.durable_entries.pop(name, None)
        else:
            directory.durable_entries[name] = node


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
