"""Offsets of partitions and their JSON form, which is that of Spark's Kafka source: `{"topic": {"0": 23}}`.

Pure. Also the bounds that options name: an end of the log, offsets, or times.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.core.types import Offset, TopicPartition

Offsets: TypeAlias = dict[TopicPartition, Offset]
# The form in a checkpoint, for Python's and Spark's JSON.
OffsetsJson: TypeAlias = dict[str, dict[str, int]]

# In offsets that a user writes, as in Kafka's own requests.
LATEST_OFFSET: Final[Offset] = -1
EARLIEST_OFFSET: Final[Offset] = -2


class BoundKind(Enum):
    """How a bound is given."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"  # one for all partitions
    TIMESTAMPS = "timestamps"  # one for each


class Bound(NamedTuple):
    """Where to begin or to end; `by_topic_partition` holds offsets or milliseconds, as `kind` says."""

    kind: BoundKind
    by_topic_partition: Offsets | None = None
    timestamp_ms: int | None = None


def to_json(offsets: Mapping[TopicPartition, Offset]) -> OffsetsJson:
    """Sorted, so that the same offsets are the same text."""
    found: OffsetsJson = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found


def from_json(given: Mapping[str, Mapping[str, int]]) -> Offsets:
    """From the output of `to_json`, or of another program with the same checkpoints."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in given.items()
        for partition, offset in partitions.items()
    }


def parse_numbers(text: str) -> Offsets:
    """Numbers by partition as a user wrote them; ValueError says what is wrong."""
    parsed = _parse_object(text, '{"topic": {"0": 23, "1": -2}}')
    found: Offsets = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"topic {topic} has {json.dumps(partitions)}; expected numbers by partition")
        for partition, number in partitions.items():
            if not partition.isdecimal():
                raise ValueError(f"topic {topic}: {partition!r} is not a partition")
            if isinstance(number, bool) or not isinstance(number, int):
                raise ValueError(f"{topic}-{partition} has {json.dumps(number)}; expected a whole number")
            found[TopicPartition(topic, int(partition))] = number
    return found


def parse_topic_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Partitions by topic as a user wrote them: `{"topic": [0, 1]}`."""
    parsed = _parse_object(text, '{"topic": [0, 1]}')
    found = []
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list):
            raise ValueError(f"topic {topic} has {json.dumps(partitions)}; expected a list of partitions")
        for partition in partitions:
            if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
                raise ValueError(f"topic {topic}: {json.dumps(partition)} is not a partition")
            found.append(TopicPartition(topic, partition))
    if not found:
        raise ValueError("it names no partition")
    return tuple(sorted(set(found)))


def _parse_object(text: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no JSON ({error}); expected the like of {example}") from error
    if not isinstance(parsed, dict) or not parsed:
        raise ValueError(f"expected the like of {example}")
    return parsed
