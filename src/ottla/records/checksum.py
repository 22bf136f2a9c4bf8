"""CRC-32C over a part of any buffer, without copying large ones.

google-crc32c takes only objects whose buffer needs no release (`bytes`, but neither bytearray nor memoryview). Up to
16 KB a copy is the cheapest way around that. For more we lay ctypes arrays over the caller's memory, of two lengths
only, because a new array type for each length (25 µs) would cost more than the copy.
"""

from collections.abc import Callable
from typing import Any

import google_crc32c

from ottla.core.types import Buffer

SMALL_BYTES = _COPIED_BYTES = 16 * 1024
_STEP_BYTES = 64 * 1024

# Named here because the package has no types of its own.
_value: Callable[[bytes], int] = google_crc32c.value
_extend: Callable[[int, Any], int] = google_crc32c.extend

_lay_over: tuple[Callable[[Buffer, int], Any], Callable[[Buffer, int], Any]] | None = None


def small_crc32c(view: memoryview) -> int:
    """The checksum of a view of at most SMALL_BYTES: the fast path for the batches of small requests."""
    return _value(view.tobytes())


def crc32c(buffer: Buffer, start: int, end: int) -> int:
    """The checksum of `buffer[start:end]`."""
    view = memoryview(buffer)
    if end - start <= _COPIED_BYTES:
        return _value(view[start:end].tobytes())
    crc = 0
    if view.readonly:
        # ctypes can only be laid over writable memory.
        while end - start > _COPIED_BYTES:
            crc = _extend(crc, view[start : start + _COPIED_BYTES].tobytes())
            start += _COPIED_BYTES
    else:
        long_step, short_step = _lay_over or _load_ctypes()
        while end - start >= _STEP_BYTES:
            crc = _extend(crc, long_step(view, start))
            start += _STEP_BYTES
        while end - start > _COPIED_BYTES:
            crc = _extend(crc, short_step(view, start))
            start += _COPIED_BYTES
    return _extend(crc, view[start:end].tobytes())


def _load_ctypes() -> tuple[Callable[[Buffer, int], Any], Callable[[Buffer, int], Any]]:
    """Import ctypes with the first large batch: it takes 8 ms, which the start of a broker saves."""
    global _lay_over
    import ctypes

    _lay_over = ((ctypes.c_char * _STEP_BYTES).from_buffer, (ctypes.c_char * _COPIED_BYTES).from_buffer)
    return _lay_over
