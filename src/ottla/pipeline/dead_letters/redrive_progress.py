"""Which dead letters of a partition redrive has sent back: all before an offset, and some ranges after it.

Kept as a group's committed offset, with the ranges in its metadata, so that any lag tool shows what is left. There is
one group for each error class: dead letters lie in the order of their death, so a choice by time takes neighbours and
leaves few ranges.
"""

from collections.abc import Iterable
from typing import Any, Final

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.core.types import TopicPartition

GROUP_PREFIX: Final = "ottla-redrive-"
METADATA_BYTES_MAX: Final = 4_096  # a broker's `offset.metadata.max.bytes`


class TooManyRanges(ValueError):
    """The chosen dead letters are too scattered for the metadata of an offset."""


def group_of(error_class: str) -> str:
    return GROUP_PREFIX + error_class


class Progress:
    """Of one class in one partition. `next_offset` is the first that was not sent; `ranges` come after it, in order,
    each from its first to before its last, with an unsent dead letter before each of them.
    """

    def __init__(self, next_offset: int = 0, ranges: tuple[tuple[int, int], ...] = ()) -> None:
        self.next_offset = next_offset
        self.ranges = list(ranges)

    @classmethod
    def parse(cls, offset: int, metadata: str) -> "Progress":
        """From a committed offset; ignores metadata that is not ours."""
        ranges = []
        try:
            for text in metadata.split(",") if metadata else ():
                first, _, last = text.partition("-")
                ranges.append((int(first), int(last)))
        except ValueError:
            ranges = []
        return cls(max(offset, 0), tuple(ranges))

    @property
    def metadata(self) -> str:
        text = ",".join(f"{first}-{last}" for first, last in self.ranges)
        if len(text) > METADATA_BYTES_MAX:
            raise TooManyRanges(
                f"{len(self.ranges)} ranges of dead letters that were sent back lie between others that were not, more "
                "than an offset's metadata can hold; redrive the older dead letters of this class first"
            )
        return text

    def is_done(self, offset: int) -> bool:
        return offset < self.next_offset or any(first <= offset < last for first, last in self.ranges)

    def add(self, first: int, last: int) -> None:
        """Dead letters from `first` to before `last` are sent, or not of this class."""
        joined = []
        for start, end in self.ranges:
            if end < first or start > last:
                joined.append((start, end))
            else:
                first, last = min(first, start), max(last, end)
        self.ranges = sorted([*joined, (first, last)])
        while self.ranges and self.ranges[0][0] <= self.next_offset:
            self.next_offset = max(self.next_offset, self.ranges.pop(0)[1])


class Marks:
    """Progress in all partitions. Owned by one redrive; what it plans counts when it is committed."""

    def __init__(self, bootstrap: str, topic_partitions: Iterable[TopicPartition]) -> None:
        self._bootstrap = bootstrap
        self._topic_partitions = list(topic_partitions)
        self._groups: dict[str, Consumer] = {}
        self._progress: dict[str, dict[TopicPartition, Progress]] = {}
        self._planned: dict[str, dict[TopicPartition, Progress]] = {}

    def __enter__(self) -> "Marks":
        return self

    def __exit__(self, *_: Any) -> None:
        for group in self._groups.values():
            group.close()

    def progress(self, error_class: str, topic_partition: TopicPartition) -> Progress:
        if error_class not in self._progress:
            committed = self._group(error_class).committed(self._topic_partitions)
            self._progress[error_class] = {
                each: Progress() if mark is None else Progress.parse(mark.offset, mark.metadata)
                for each, mark in committed.items()
            }
        return self._progress[error_class][topic_partition]

    def plan(self, error_class: str, topic_partition: TopicPartition, *, first: int, last: int) -> None:
        """Dead letters of this class from `first` to before `last` will be sent. Raises TooManyRanges before that."""
        planned = self._planned.setdefault(error_class, {})
        if topic_partition not in planned:
            known = self.progress(error_class, topic_partition)
            planned[topic_partition] = Progress(known.next_offset, tuple(known.ranges))
        planned[topic_partition].add(first, last)
        _ = planned[topic_partition].metadata

    def commit(self) -> None:
        """The planned ones are sent."""
        for error_class, planned in self._planned.items():
            marks = {
                topic_partition: OffsetAndMetadata(each.next_offset, each.metadata)
                for topic_partition, each in planned.items()
            }
            self._group(error_class).commit(marks)
            self._progress[error_class].update(planned)
        self._planned = {}

    def _group(self, error_class: str) -> Consumer:
        if error_class not in self._groups:
            settings = {"group.id": group_of(error_class), "enable.auto.commit": False}
            self._groups[error_class] = Consumer({"bootstrap.servers": self._bootstrap, **settings})
        return self._groups[error_class]
