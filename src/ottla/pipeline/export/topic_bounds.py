"""Where reading of topics begins and ends, as a person says it: `earliest`, `latest`, a time, or offsets as JSON."""

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
    """What was given is no place on these topics."""


class Bounds(NamedTuple):
    """Of each partition: its records from `starts` to before `ends`."""

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
    """Topics that don't exist are left out: they hold nothing. Offsets that a partition has not are brought into it."""
    there = sorted(set(topics) & set(admin.list_topics()))
    described = admin.describe_topics(there) if there else {}
    places = [TopicPartition(name, number) for name in there for number in range(len(described[name].partitions))]
    firsts = {place: found.offset for place, found in admin.list_offsets(places, Admin.EARLIEST).items()}
    lasts = {place: found.offset for place, found in admin.list_offsets(places, Admin.LATEST).items()}
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
    """Partitions that offsets don't name have the default: all of it."""
    if isinstance(bound, str):
        return dict(firsts if bound == EARLIEST else lasts)
    if isinstance(bound, int):
        found = admin.list_offsets(firsts, bound)
        return {place: lasts[place] if each.offset == NO_OFFSET else each.offset for place, each in found.items()}
    unknown = sorted(
        f"{topic}-{partition}"
        for topic, offsets in bound.items()
        for partition in offsets
        if TopicPartition(topic, partition) not in firsts
    )
    if unknown:
        raise BadBound(f"offsets are given of partitions that are not exported: {', '.join(unknown)}")
    return {
        place: min(max(bound.get(place.topic, {}).get(place.partition, default[place]), first), lasts[place])
        for place, first in firsts.items()
    }


def _by_topic(offsets: Mapping[TopicPartition, int]) -> Offsets:
    found: Offsets = {}
    for place, offset in offsets.items():
        found.setdefault(place.topic, {})[place.partition] = offset
    return found
