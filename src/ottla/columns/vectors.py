"""Varints and byte ranges by numpy, many at a time: what the C kernel does one by one. Pure."""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.records.errors import CorruptBatch

Bytes: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

VARINT_BYTES_MAX: Final = 10
_SEVEN: Final = np.uint64(7)
_LOW_BITS: Final = np.uint64(0x7F)


def read_varints(data: Bytes, positions: Numbers) -> tuple[Numbers, Numbers]:
    """The zigzag varints at `positions`, and the positions behind them; ten bytes must lie behind each."""
    byte = data[positions]
    rest = (byte & 0x7F).astype(np.uint64)
    after = positions + 1
    active = np.flatnonzero(byte >= 0x80)
    shift = 7
    while active.size:
        if shift > 63:
            raise CorruptBatch("a number of more than ten bytes")
        byte = data[after[active]]
        if shift == 63 and (byte > 1).any():
            raise CorruptBatch("a number of more than 64 bits")
        rest[active] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[active] += 1
        active = active[byte >= 0x80]
        shift += 7
    return (rest >> np.uint64(1)).astype(np.int64) ^ -(rest & np.uint64(1)).astype(np.int64), after


def zigzag(numbers: Numbers) -> NDArray[np.uint64]:
    return (numbers.astype(np.uint64) << np.uint64(1)) ^ (numbers >> 63).astype(np.uint64)


def varint_sizes(numbers: Numbers) -> Numbers:
    """How many bytes each takes."""
    rest = zigzag(numbers)
    sizes = np.ones(len(numbers), np.int64)
    while True:
        rest = rest >> _SEVEN
        longer = rest != 0
        if not longer.any():
            return sizes
        sizes += longer


def write_varints(out: Bytes, positions: Numbers, numbers: Numbers) -> Numbers:
    """Put them there; the positions behind them."""
    rest = zigzag(numbers)
    after = positions.copy()
    active = np.arange(len(numbers))
    while active.size:
        current = rest[active]
        following = current >> _SEVEN
        goes_on = following != 0
        out[after[active]] = (current & _LOW_BITS).astype(np.uint8) | (goes_on.astype(np.uint8) << 7)
        after[active] += 1
        rest[active] = following
        active = active[goes_on]
    return after


def offsets_of(lengths: Numbers) -> Numbers:
    """Where each of them begins, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: Numbers, lengths: Numbers) -> Numbers:
    """All indexes of these ranges, one range after the other."""
    offsets = offsets_of(lengths)
    return np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])


def cut_out(data: Bytes, starts: Numbers, lengths: Numbers) -> Bytes:
    """The bytes of ranges that ascend and neither overlap nor touch, one range after the other.

    Marks where they begin and end rather than list every index: an eighth of the memory.
    """
    filled = lengths > 0
    marks = np.zeros(len(data) + 1, np.int8)
    marks[starts[filled]] = 1
    marks[starts[filled] + lengths[filled]] = -1
    return data[np.cumsum(marks[:-1], dtype=np.int8).view(np.bool_)]
