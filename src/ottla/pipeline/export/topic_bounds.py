"""Where to begin and end reading topics, as a user writes it: `earliest`, `latest`, a time, or offsets as JSON."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ottla.clients.admin import Admin
from ottla.clients.admin_offsets import NO_OFFSET
from ottla.core.types import TopicPartition

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

Offsets = dict[str, dict[int, int]]  # topic -> partition -> offset


class BadBound(ValueError):
    """The bound doesn't exist on these topics."""


class Bounds(NamedTuple):
    """For each partition its records from `starts` to before `ends`."""

    starts: Offsets
    ends: Offsets


def parse_bound(text: str) -> str | int | Offsets:
    """The word, the milliseconds of a time, or offsets: `{"topic": {"0": 23}}`."""
    text = text.strip()
    if text in (EARLIEST, LATEST):
        return text
    if text.startswith("{"):
        try:
            return {
                str(topic): {int(partition): int(offset) for partition, offset in offsets.items()}
                for topic, offsets in json.loads(text).items()
            }
        except (ValueError, TypeError, AttributeError) as error:
            raise BadBound(f'{text}: offsets are written as {{"topic": {{"0": 23}}}}') from error
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadBound(f"{text!r}: expected earliest, latest, a time as 2025-09-01T12:00:00Z, or offsets") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def find_bounds(admin: Admin, topics: Sequence[str], *, start: str, end: str) -> Bounds:
    """Skips topics that don't exist. Moves offsets that are out of range to the nearest one in it."""
    there = sorted(set(topics) & set(admin.list_topics()))
    described = admin.describe_topics(there) if there else {}
    topic_partitions = [
        TopicPartition(name, number) for name in there for number in range(len(described[name].partitions))
    ]
    firsts = {
        topic_partition: found.offset
        for topic_partition, found in admin.list_offsets(topic_partitions, Admin.EARLIEST).items()
    }
    lasts = {
        topic_partition: found.offset
        for topic_partition, found in admin.list_offsets(topic_partitions, Admin.LATEST).items()
    }
    starts = _resolved(admin, parse_bound(start), firsts, lasts, default=firsts)
    ends = _resolved(admin, parse_bound(end), firsts, lasts, default=lasts)
    return Bounds(_by_topic(starts), _by_topic(ends))


def _resolved(
    admin: Admin,
    bound: str | int | Offsets,
    firsts: Mapping[TopicPartition, int],
    lasts: Mapping[TopicPartition, int],
    *,
    default: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Partitions that the offsets don't name get the default: all of their records."""
    if isinstance(bound, str):
        return dict(firsts if bound == EARLIEST else lasts)
    if isinstance(bound, int):
        found = admin.list_offsets(firsts, bound)
        return {
            topic_partition: lasts[topic_partition] if each.offset == NO_OFFSET else each.offset
            for topic_partition, each in found.items()
        }
    unknown = sorted(
        f"{topic}-{partition}"
        for topic, offsets in bound.items()
        for partition in offsets
        if TopicPartition(topic, partition) not in firsts
    )
    if unknown:
        raise BadBound(f"offsets are given of partitions that are not exported: {', '.join(unknown)}")
    return {
        topic_partition: min(
            max(bound.get(topic_partition.topic, {}).get(topic_partition.partition, default[topic_partition]), first),
            lasts[topic_partition],
        )
        for topic_partition, first in firsts.items()
    }


def _by_topic(offsets: Mapping[TopicPartition, int]) -> Offsets:
    found: Offsets = {}
    for topic_partition, offset in offsets.items():
        found.setdefault(topic_partition.topic, {})[topic_partition.partition] = offset
    return found
