"""Buffers for frames that don't arrive whole, kept for reuse: a fresh megabyte costs 256 page faults.

Classes are powers of two. Larger buffers are anonymous maps, whose pages cost nothing until bytes arrive: a peer that
announces 100 MB and sends nothing holds nothing. What is kept is bounded, and shrinks by `trim` when it isn't used.
"""

import mmap

_SMALLEST_CLASS_BITS = 13  # 8 KB
_MAP_MIN_BYTES = 128 * 1024

DEFAULT_RETAINED_MAX_BYTES = 64 * 1024 * 1024


class BufferPool:
    """Owned by the server. `give` takes back exactly what `take` gave; it must not be used afterwards."""

    __slots__ = ("_free", "_low_water", "_retained_max_bytes", "retained_bytes")

    def __init__(self, retained_max_bytes: int = DEFAULT_RETAINED_MAX_BYTES) -> None:
        self._free: dict[int, list[memoryview]] = {}  # by class size
        self._low_water: dict[int, int] = {}  # fewest free of a class since the last trim: those nobody needed
        self._retained_max_bytes = retained_max_bytes
        self.retained_bytes = 0

    def take(self, length: int) -> memoryview:
        """A writable buffer of at least `length` bytes, with anything in it."""
        size = 1 << max((length - 1).bit_length(), _SMALLEST_CLASS_BITS)
        free = self._free.get(size)
        if free:
            self.retained_bytes -= size
            buffer = free.pop()
            if len(free) < self._low_water[size]:
                self._low_water[size] = len(free)
            return buffer
        if size >= _MAP_MIN_BYTES:
            return memoryview(mmap.mmap(-1, size))
        return memoryview(bytearray(size))

    def give(self, buffer: memoryview) -> None:
        """Take a buffer back; above the bound it is freed."""
        size = len(buffer)
        if self.retained_bytes + size > self._retained_max_bytes:
            return
        free = self._free.get(size)
        if free is None:
            free = self._free[size] = []
            self._low_water[size] = 0
        free.append(buffer)
        self.retained_bytes += size

    def trim(self) -> None:
        """Free half of what nobody took since the last call, rounded up: an idle broker ends with nothing."""
        for size, free in self._free.items():
            surplus = (self._low_water[size] + 1) // 2
            del free[:surplus]
            self.retained_bytes -= surplus * size
            self._low_water[size] = len(free)

    def clear(self) -> None:
        self._free.clear()
        self._low_water.clear()
        self.retained_bytes = 0
