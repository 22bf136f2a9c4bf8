"""The partition of a record by its key, as in Kafka's own clients: one key has one partition, whichever client sends.

The hash is Kafka's murmur2 (seed 0x9747b28c), in 32-bit arithmetic.
"""

from functools import lru_cache
from typing import Final

_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF
# Keys repeat a lot: a hash takes some microseconds in pure Python, a cache lookup a tenth of one.
_CACHED_KEYS: Final = 65_536


def murmur2(key: bytes) -> int:
    """The hash as an unsigned 32-bit number."""
    length = len(key)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    rest = length - whole
    if rest:
        hashed ^= int.from_bytes(key[whole:], "little")
        hashed = hashed * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


@lru_cache(maxsize=_CACHED_KEYS)
def partition_for_key(key: bytes, partition_count: int) -> int:
    """Kafka's default partition for records with a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
