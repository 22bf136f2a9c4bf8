"""The headers of a dead letter's original record: a dead letter holds its key and value, redrive looks its headers up.

A record that is gone has none, nor has one whose topic was created again and that is another record by now.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.values import ConsumerRecord
from ottla.clients.errors import TimedOut
from ottla.core.types import TopicPartition

Headers = list[tuple[str, bytes | None]]

# Offsets with a smaller gap than this are read in one go; beyond it a new fetch position is cheaper.
_READ_THROUGH: Final = 2_000
_POLL_MS: Final = 500
_PATIENCE_S: Final = 60.0


class Wanted(NamedTuple):
    """A record: its position, and the key and value that it must have."""

    topic_partition: TopicPartition
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
        """The records that still exist, with their headers, which may be empty."""
        by_topic_partition: dict[TopicPartition, list[Wanted]] = {}
        for each in wanted:
            by_topic_partition.setdefault(each.topic_partition, []).append(each)
        topics: dict[str, set[TopicPartition]] = {}
        found: dict[Wanted, Headers] = {}
        for topic_partition, records in by_topic_partition.items():
            if topic_partition.topic not in topics:
                topics[topic_partition.topic] = set(self._reader.partitions_for(topic_partition.topic))
            if topic_partition in topics[topic_partition.topic]:
                found |= self._find_in(topic_partition, {each.offset: each for each in records})
        return found

    def _find_in(self, topic_partition: TopicPartition, wanted: Mapping[int, Wanted]) -> dict[Wanted, Headers]:
        first = self._reader.beginning_offsets([topic_partition])[topic_partition]
        end = self._reader.end_offsets([topic_partition])[topic_partition]
        found: dict[Wanted, Headers] = {}
        for start, stop in stretches(sorted(offset for offset in wanted if first <= offset < end)):
            for record in read_range(self._reader, topic_partition, start=start, end=stop):
                asked = wanted.get(record.offset)
                if asked is not None and (record.key, record.value) == (asked.key, asked.value):
                    found[asked] = list(record.headers)
        return found


def stretches(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges to read, from a start to before an end: sorted offsets that are near each other share one."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and offset - found[-1][1] < _READ_THROUGH:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def read_range(
    consumer: Consumer, topic_partition: TopicPartition, *, start: int, end: int
) -> Iterator[ConsumerRecord]:
    """The records of a partition from `start` to before `end`, in no group. Has the consumer to itself until it ends.

    TimedOut when nothing comes for a minute.
    """
    consumer.assign([topic_partition])
    consumer.seek(topic_partition, start)
    position, moved_at_s = start, time.monotonic()
    while position < end:
        for record in consumer.poll(_POLL_MS):
            if record.offset >= end:
                return
            yield record
        # By position, not by records: a compacted topic may have none up to the end.
        reached = consumer.position(topic_partition)
        if reached > position:
            position, moved_at_s = reached, time.monotonic()
        elif time.monotonic() - moved_at_s > _PATIENCE_S:
            why = consumer.unreachable or "no broker says why"
            raise TimedOut(f"{topic_partition}: nothing came from offset {position} on for {_PATIENCE_S:.0f} s: {why}")
