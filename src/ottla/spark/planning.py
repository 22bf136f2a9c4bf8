"""Which offsets make up a batch, and how they are cut into Spark's partitions: pure functions, no cluster, no clock."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from ottla.core.types import Offset, TopicPartition
from ottla.spark.offsets import Offsets

# Fewer offsets than this take less time to read than a task of their own takes to start.
OFFSETS_WORTH_A_TASK: Final = 5_000


class LogSlice(NamedTuple):
    """Offsets of one partition, from `start` to before `end`; what one task of Spark's reads."""

    topic: str
    partition: int
    start: Offset
    end: Offset
    topic_id: str | None = None  # as it was when the slice was planned, to find out a topic that was made anew

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def offset_count(self) -> int:
        return self.end - self.start


class Gone(NamedTuple):
    """A partition whose records of the batch are gone, in whole or in part, and why that is known."""

    topic_partition: TopicPartition
    reason: str


def limit_offsets(start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset], most: int) -> Offsets:
    """Ends so that about `most` offsets lie between, each partition having its share of what it has to offer.

    Every partition with something to read moves by one at least: a large neighbour must not keep it waiting, even if
    there are more partitions than `most`.
    """
    counts = {topic_partition: offset - start.get(topic_partition, 0) for topic_partition, offset in end.items()}
    total = sum(count for count in counts.values() if count > 0)
    if total <= most:
        return dict(end)
    limited = dict(end)
    for topic_partition, count in counts.items():
        if count > 0:
            share = count * most // total
            limited[topic_partition] = end[topic_partition] - count + min(count, max(share, 1))
    return limited


def count_offsets(start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]) -> int:
    """How many offsets are new; partitions that begin anew elsewhere don't count against the others."""
    return sum(max(offset - start.get(topic_partition, 0), 0) for topic_partition, offset in end.items())


def is_due(*, available: int, least: int | None, waited_ms: int, longest_wait_ms: int) -> bool:
    """Whether a batch begins: enough to read, or the wait is over."""
    return least is None or available >= least or waited_ms >= longest_wait_ms


def plan_slices(
    slices: Iterable[LogSlice], *, at_least: int | None = None, most_offsets: int | None = None
) -> list[LogSlice]:
    """Cut slices so that none has more than `most_offsets`, and that there are about `at_least` of them.

    Small ones stay whole; in order of topic, partition and offset.
    """
    wanted = sorted(each for each in slices if each.offset_count > 0)
    if most_offsets is not None:
        wanted = [part for each in wanted for part in cut(each, -(-each.offset_count // most_offsets))]
    if at_least is None or len(wanted) >= at_least:
        return wanted
    return [part for each, parts in zip(wanted, _parts_of(wanted, at_least), strict=True) for part in cut(each, parts)]


def cut(whole: LogSlice, parts: int) -> list[LogSlice]:
    """So many parts of nearly the same size, none of them empty."""
    parts = max(1, min(parts, whole.offset_count))
    bounds = [whole.start + whole.offset_count * number // parts for number in range(parts + 1)]
    return [whole._replace(start=first, end=end) for first, end in pairwise(bounds)]


def pack_slices(slices: Sequence[LogSlice], *, at_most: int | None = None) -> list[tuple[LogSlice, ...]]:
    """What each task reads: one slice, or several where there would be more tasks than wanted.

    A task costs the same whether it reads ten rows or a million. Loads are about even; slices stay whole, those of a
    task are in order.
    """
    if at_most is None or len(slices) <= at_most:
        return [(each,) for each in slices]
    packs: list[list[LogSlice]] = [[] for _ in range(at_most)]
    loads = [(0, number) for number in range(at_most)]
    for each in sorted(slices, key=lambda each: (-each.offset_count, each.topic_partition, each.start)):
        load, number = heapq.heappop(loads)
        packs[number].append(each)
        heapq.heappush(loads, (load + each.offset_count, number))
    return [tuple(sorted(pack)) for pack in packs]


def tasks_worthwhile(slices: Sequence[LogSlice], *, at_most: int | None) -> int | None:
    """How many tasks these slices are worth, where a bound of them is given: small batches have fewer."""
    if at_most is None:
        return None
    offsets = sum(each.offset_count for each in slices)
    return max(1, min(at_most, -(-offsets // OFFSETS_WORTH_A_TASK)))


def _parts_of(slices: Sequence[LogSlice], at_least: int) -> list[int]:
    """In how many parts to cut each, by size; those that are too small to be cut have their own part beforehand."""
    parts = [1] * len(slices)
    left = at_least
    open_slices = list(range(len(slices)))
    while open_slices:
        total = sum(slices[index].offset_count for index in open_slices)
        small = [index for index in open_slices if slices[index].offset_count * left <= total]
        if not small:
            for index in open_slices:
                parts[index] = max(1, -(-slices[index].offset_count * left // total))
            break
        left -= len(small)
        open_slices = [index for index in open_slices if index not in small]
    return parts
