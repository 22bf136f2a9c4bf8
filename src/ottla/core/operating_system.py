"""Calls that only some operating systems have, each with a substitute where it is missing.

Chosen once, at import, so that a call needs no test. Broker rooms take these calls from here only, so that a system
without them (macOS, a BSD) works with the substitutes. docs/platforms.md lists them.
"""

import errno
import fcntl
import os
import select
import socket
from collections.abc import Callable
from typing import Final, Protocol

# For `preadv`: bytes that are in memory, or BlockingIOError. Linux only; elsewhere no call says what is in memory.
RWF_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
CAN_PROBE_PAGE_CACHE: Final = bool(RWF_NOWAIT) and hasattr(os, "preadv")

# For `send`: more bytes follow, don't send a packet yet. Linux only; elsewhere the header gets a packet of its own.
MSG_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)

_NOT_OFFERED: Final = frozenset({errno.ENOTSUP, errno.EINVAL, errno.ENOTTY, errno.ENOSYS})


class Epoll(Protocol):
    """The part of `select.epoll` that we use: other systems don't have that type."""

    def register(self, fd: int, eventmask: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


# None where the system has none: then the event loop itself watches each descriptor.
open_epoll: Final[Callable[[], Epoll] | None] = getattr(select, "epoll", None)
EPOLLIN: Final[int] = getattr(select, "EPOLLIN", 1)


def _no_advice(fd: int, position: int, length: int) -> None:
    """The kernel alone decides what to read ahead."""


def _advise_will_need(fd: int, position: int, length: int) -> None:
    os.posix_fadvise(fd, position, length, os.POSIX_FADV_WILLNEED)  # type: ignore[attr-defined,unused-ignore]


# Says that this stretch of a file will be read soon.
advise_will_need: Final = _advise_will_need if hasattr(os, "posix_fadvise") else _no_advice


def _preadv_into(fd: int, buffer: bytearray, position: int) -> int:
    return os.preadv(fd, (buffer,), position)


def _pread_into(fd: int, buffer: bytearray, position: int) -> int:
    data = os.pread(fd, len(buffer), position)
    buffer[: len(data)] = data
    return len(data)


# Reads into a buffer from a position of a file; the bytes read, 0 at its end.
read_into: Final = _preadv_into if hasattr(os, "preadv") else _pread_into

# On macOS an fsync ends when the drive has the bytes, which may still be in its cache; this waits for the medium.
_F_FULLFSYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)


def _full_fsync(fd: int) -> None:
    assert _F_FULLFSYNC is not None
    try:
        fcntl.fcntl(fd, _F_FULLFSYNC)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise
        os.fsync(fd)  # network file systems don't know it


# Both make a file's contents durable; `sync_data` may skip its times, never its size. For the names in a folder use
# the first.
sync_file: Final[Callable[[int], None]] = os.fsync if _F_FULLFSYNC is None else _full_fsync
sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync) if _F_FULLFSYNC is None else _full_fsync

_BOOT_ID_FILE: Final = "/proc/sys/kernel/random/boot_id"


def read_boot_id() -> str:
    """Another text after each boot of the machine; empty where the system has none."""
    try:
        with open(_BOOT_ID_FILE, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2  # of Linux's renameat2; RENAME_SWAP of macOS's renamex_np has the same number


def exchange_names(one: str, other: str) -> bool:
    """Swap two files or folders in one step; False where the system or the file system can't."""
    import ctypes  # takes milliseconds, and a broker never needs it

    libc = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if hasattr(libc, "renameat2"):
        failed = libc.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
    elif hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(first, second, _RENAME_EXCHANGE)
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), one)
