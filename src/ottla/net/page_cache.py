"""Whether a stretch of a file is in the page cache, and reading it there on a thread when it isn't.

A read that goes to the disk takes milliseconds, in which the event loop would serve nobody.
"""

import errno
import os

from ottla.core.disk import FileSlice
from ottla.core.operating_system import CAN_PROBE_PAGE_CACHE, RWF_NOWAIT, advise_will_need, read_into
from ottla.core.types import Buffer

_WARM_STEP_BYTES = 1024 * 1024


class TruncatedSliceError(Exception):
    """The file ends before the slice does: its bytes were promised in a size already sent, and don't exist."""


class PageCacheProbe:
    """Owned by the server. Where the kernel or the file system can't say, everything counts as cached."""

    __slots__ = ("is_supported",)

    def __init__(self) -> None:
        self.is_supported = CAN_PROBE_PAGE_CACHE

    def read_if_cached(self, part: FileSlice) -> Buffer | None:
        """The bytes of a small slice; None when some of them are not in memory."""
        file, position, length = part
        fd = file.fd
        if fd < 0 or not self.is_supported:
            return read_slice(part)
        buffer = bytearray(length)
        try:
            count = os.preadv(fd, (buffer,), position, RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            self.is_supported = False
            return read_slice(part)
        # A short count is the cached beginning, or the end of the file; the blocking read on the thread shows which.
        return buffer if count == length else None

    def is_cached(self, part: FileSlice, length: int) -> bool:
        """Look at the first and the last byte of the slice's first `length`: read-ahead fills what lies between."""
        if not self.is_supported:
            return True
        fd = part.file.fd
        probe = (bytearray(1),)
        try:
            os.preadv(fd, probe, part.position, RWF_NOWAIT)
            os.preadv(fd, probe, part.position + length - 1, RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            self.is_supported = False
        return True


def read_slice(part: FileSlice) -> bytes:
    """Read a slice whole; may block on the disk."""
    data = part.file.pread(part.length, part.position)
    if len(data) != part.length:
        raise TruncatedSliceError(f"{len(data)} of {part.length} bytes at {part.position}")
    return data


def warm(part: FileSlice, length: int) -> None:
    """Bring the first `length` bytes of a slice into the page cache; blocks, for a thread."""
    fd = part.file.fd
    advise_will_need(fd, part.position, length)
    scratch = bytearray(min(length, _WARM_STEP_BYTES))
    end = part.position + length
    position = part.position
    while position < end:
        count = read_into(fd, scratch, position)
        if not count:
            return  # sendfile will find the end of the file too, and close
        position += count
