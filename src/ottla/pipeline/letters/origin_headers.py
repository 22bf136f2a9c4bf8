"""The headers of records by where they lie: dead letters hold the record's key and value, its headers are looked up.

A record that is gone, or is another one by now since its topic was made anew, has none.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.clients.consumer.consumer import Consumer
from ottla.core.types import TopicPartition
from ottla.pipeline.letters.range_reading import read_range

Headers = list[tuple[str, bytes | None]]

# Records that are nearer than this are read through; for those further on a new place is looked up.
_READ_THROUGH: Final = 2_000


class Wanted(NamedTuple):
    """A record: where it lies, and what it must be."""

    place: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None


class OriginHeaders:
    """Owned by one redrive; reads by assignment, in no group."""

    def __init__(self, bootstrap: str) -> None:
        self._reader = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False})

    def __enter__(self) -> "OriginHeaders":
        return self

    def __exit__(self, *_: Any) -> None:
        self._reader.close()

    def find(self, wanted: Iterable[Wanted]) -> dict[Wanted, Headers]:
        """Those that are still there, with the headers that they have or have not."""
        by_place: dict[TopicPartition, list[Wanted]] = {}
        for each in wanted:
            by_place.setdefault(each.place, []).append(each)
        topics: dict[str, set[TopicPartition]] = {}
        found: dict[Wanted, Headers] = {}
        for place, records in by_place.items():
            if place.topic not in topics:
                topics[place.topic] = set(self._reader.partitions_for(place.topic))
            if place in topics[place.topic]:
                found |= self._find_in(place, {each.offset: each for each in records})
        return found

    def _find_in(self, place: TopicPartition, wanted: Mapping[int, Wanted]) -> dict[Wanted, Headers]:
        first = self._reader.beginning_offsets([place])[place]
        end = self._reader.end_offsets([place])[place]
        found: dict[Wanted, Headers] = {}
        for start, stop in stretches(sorted(offset for offset in wanted if first <= offset < end)):
            for record in read_range(self._reader, place, start=start, end=stop):
                asked = wanted.get(record.offset)
                if asked is not None and (record.key, record.value) == (asked.key, asked.value):
                    found[asked] = list(record.headers)
        return found


def stretches(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """From where to before where to read: offsets in order that are near to each other are read together."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and offset - found[-1][1] < _READ_THROUGH:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found
