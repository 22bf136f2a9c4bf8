"""The partition of each row of a table: the given one, else by its key as in Kafka's clients, else in runs. Pure."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ottla.columns.arrow_columns import NO_PARTITION, RowColumns, Values
from ottla.columns.vectors import Bytes, Numbers
from ottla.records.kernel import IS_COMPILED, kernel

_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_SEED: Final = 0x9747B28C
_WITHOUT_SIGN: Final = np.uint32(0x7FFFFFFF)
NO_KEY: Final = -1


def partitions_of(columns: RowColumns, *, partition_count: int, run_bytes: int, run: int) -> tuple[Numbers, int]:
    """The partition of each row, and the next run.

    Rows with neither a partition nor a key stay together for about a batch, then the next partition has its turn:
    batches get full that way, which they would not if every row went elsewhere.
    """
    partitions = (
        np.full(columns.row_count, NO_PARTITION, np.int64) if columns.partitions is None else columns.partitions
    )
    wrong = (partitions >= partition_count) | (partitions < NO_PARTITION)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"row {row}: partition {partitions[row]}, the topic has {partition_count}")
    if columns.key is not None:
        hashes = hash_keys(columns.key, columns.row_count)
        partitions = np.where((partitions == NO_PARTITION) & (hashes != NO_KEY), hashes % partition_count, partitions)
    free = np.flatnonzero(partitions == NO_PARTITION)
    if free.size:
        rows_per_run = max(1, run_bytes * columns.row_count // max(1, columns.data_bytes))
        runs = run + np.arange(free.size) // rows_per_run
        partitions = partitions.copy()
        partitions[free] = runs % partition_count
        run = int(runs[-1]) + 1
    return partitions, run


def hash_keys(key: Values, count: int) -> Numbers:
    """murmur2 of each key without its sign, NO_KEY for a null."""
    if IS_COMPILED:
        return np.frombuffer(kernel.hash_keys(key, count), np.int32).astype(np.int64)
    return hash_keys_by_numpy(key, count)


def hash_keys_by_numpy(key: Values, count: int) -> Numbers:
    """The same for machines without the kernel: a step for each four bytes of the longest key."""
    starts, lengths, data = value_ranges(key, np.arange(count))
    filled = np.maximum(lengths, 0)
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    hashes = np.uint32(_SEED) ^ filled.astype(np.uint32)
    at = starts.copy()
    left = filled.copy()
    active = np.flatnonzero(left >= 4)
    while active.size:
        word = _word(padded, at[active]) * _MULTIPLIER
        word ^= word >> np.uint32(24)
        hashes[active] = hashes[active] * _MULTIPLIER ^ word * _MULTIPLIER
        at[active] += 4
        left[active] -= 4
        active = active[left[active] >= 4]
    rest = np.flatnonzero(left > 0)
    kept_bits = (np.uint32(1) << (left[rest] * 8).astype(np.uint32)) - np.uint32(1)
    hashes[rest] = (hashes[rest] ^ _word(padded, at[rest]) & kept_bits) * _MULTIPLIER
    hashes = (hashes ^ hashes >> np.uint32(13)) * _MULTIPLIER
    hashes ^= hashes >> np.uint32(15)
    return np.where(lengths < 0, NO_KEY, (hashes & _WITHOUT_SIGN).astype(np.int64))


def _word(data: Bytes, positions: Numbers) -> NDArray[np.uint32]:
    word = data[positions].astype(np.uint32)
    for place in (1, 2, 3):
        word |= data[positions + place].astype(np.uint32) << np.uint32(8 * place)
    return word


def value_ranges(values: Values, rows: Numbers) -> tuple[Numbers, Numbers, Bytes]:
    """Where the values of these rows begin in the column's data, and how long they are (-1 for null)."""
    offsets_buffer, data_buffer, validity_buffer, first, length = values
    if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= length):
        raise ValueError(f"a row outside of the {length} of its array")
    offsets = np.frombuffer(offsets_buffer, np.int32)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    places = rows + first
    starts = offsets[places].astype(np.int64)
    lengths = offsets[places + 1].astype(np.int64) - starts
    if validity_buffer is not None:
        bits = np.frombuffer(validity_buffer, np.uint8)
        lengths[bits[places >> 3] >> (places & 7) & 1 == 0] = -1
    if ((starts < 0) | (starts + lengths > len(data)) | (lengths < -1))[lengths >= 0].any():
        raise ValueError("a value outside of its array")
    return starts, lengths, data
