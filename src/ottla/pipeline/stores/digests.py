"""128-bit digests of Arrow strings, in numpy: indexes of event ids hold them in place of the ids.

Fast and well distributed, but not safe against someone who searches for collisions. Stores keep digests: another
function here needs another version of the stores.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]

_FIRST_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND_SEED: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST_FACTOR: Final = np.uint64(0x87C37B91114253D5)
_SECOND_FACTOR: Final = np.uint64(0x4CF5AD432745937F)
_ADDEND: Final = np.uint64(0x52DCE72938495AB5)
_FINAL_FACTORS: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))


def digest(strings: pa.ChunkedArray | pa.Array) -> tuple[Words, Words]:
    """Both halves, for each string. A null counts as the empty string."""
    array = _one_array(strings)
    count = len(array)
    first = np.empty(count, np.uint64)
    second = np.empty(count, np.uint64)
    if count == 0:
        return first, second
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[array.offset : array.offset + count + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest == longest:
        rows = data[offsets[0] : offsets[-1]].reshape(count, longest)
        return _digest_rows(rows, longest)
    # Strings of one length are a matrix; ids come in a handful of lengths.
    for length in np.unique(lengths).tolist():
        positions = np.nonzero(lengths == length)[0]
        rows = data[offsets[positions][:, None] + np.arange(length)]
        first[positions], second[positions] = _digest_rows(rows, length)
    return first, second


def _one_array(strings: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings
    if isinstance(array, pa.ChunkedArray):  # more than an array may hold
        array = pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in array.chunks])
    if array.null_count:
        array = pc.fill_null(array, "")
    return array.cast(pa.large_string())


def _digest_rows(rows: npt.NDArray[np.uint8], length: int) -> tuple[Words, Words]:
    count = len(rows)
    words_per_row = (length + 7) // 8
    padded = rows
    if length % 8 or not rows.flags.c_contiguous:
        padded = np.zeros((count, words_per_row * 8), np.uint8)
        padded[:, :length] = rows
    words = np.frombuffer(padded.tobytes(), np.uint64).reshape(count, words_per_row) if length else None
    first = np.full(count, _FIRST_SEED ^ np.uint64(length), np.uint64)
    second = np.full(count, _SECOND_SEED ^ np.uint64(length), np.uint64)
    for position in range(words_per_row):
        assert words is not None
        word = words[:, position]
        first ^= _rotated(word * _FIRST_FACTOR, 31) * _SECOND_FACTOR
        first = _rotated(first, 27) + second
        first = first * np.uint64(5) + _ADDEND
        second ^= _rotated(word * _SECOND_FACTOR, 33) * _FIRST_FACTOR
        second = _rotated(second, 31) + first
        second = second * np.uint64(5) + _FIRST_SEED
    first += second
    second += first
    first, second = _scattered(first), _scattered(second)
    first += second
    second += first
    return first, second


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _scattered(words: Words) -> Words:
    shift = np.uint64(33)
    for factor in _FINAL_FACTORS:
        words = words ^ (words >> shift)
        words = words * factor
    return words ^ (words >> shift)
