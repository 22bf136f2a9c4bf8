"""Digests of strings: alike for alike strings, however Arrow holds them, and spread over all bits."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.stores.digests import digest


def pairs(array: pa.Array | pa.ChunkedArray) -> list[tuple[int, int]]:
    first, second = digest(array)
    return list(zip(first.tolist(), second.tolist(), strict=True))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(max_size=40), max_size=30))
def test_strings_have_the_same_digest_wherever_they_stand(strings: list[str]) -> None:
    alone = [pairs(pa.array([string]))[0] for string in strings]
    assert pairs(pa.array(strings, pa.string())) == alone
    assert pairs(pa.array(strings, pa.large_string())) == alone
    assert pairs(pa.array(["before", *strings], pa.string()).slice(1)) == alone
    assert pairs(pa.chunked_array([strings[:3], strings[3:]], pa.string())) == alone
    assert len(set(alone)) == len(set(strings))


def test_a_null_is_like_the_empty_string() -> None:
    assert len(set(pairs(pa.array([None, ""], pa.string())))) == 1


def test_digests_stay_what_they_are() -> None:
    """They are kept in Cassandra: another function here needs another version of the store."""
    expected = [
        (0xA4D656A01BD817C6, 0x9A825437F13F443C),
        (0x177C5609E44861AA, 0x53583FD2F18CE931),
        (0x1B67176FFA03C214, 0x376066D19CB7F42A),
        (0x1D472A83EAA68054, 0x1B4BF9473A444A5C),
    ]
    assert pairs(pa.array(["", "event-1", "01234567", "0123456789abcdef0123456789abcdef"])) == expected


def test_neighbouring_ids_differ_in_half_of_the_bits() -> None:
    first, second = digest(pa.array([f"event-{number:08d}" for number in range(20_000)]))
    assert len(np.unique(first)) == len(np.unique(second)) == 20_000
    for half in (first, second):
        flipped = np.bitwise_count(half[1:] ^ half[:-1])
        assert 31 < flipped.mean() < 33
