"""Where redrive's progress is kept: offsets that groups have committed, a group for each class of errors."""

from collections.abc import Iterable
from typing import Any

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.core.types import TopicPartition
from ottla.pipeline.letters.redrive_progress import Progress, group_of


class Marks:
    """Of the partitions that are redriven. Owned by one redrive; what it plans counts when it is committed."""

    def __init__(self, bootstrap: str, places: Iterable[TopicPartition]) -> None:
        self._bootstrap = bootstrap
        self._places = list(places)
        self._groups: dict[str, Consumer] = {}
        self._progress: dict[str, dict[TopicPartition, Progress]] = {}
        self._planned: dict[str, dict[TopicPartition, Progress]] = {}

    def __enter__(self) -> "Marks":
        return self

    def __exit__(self, *_: Any) -> None:
        for group in self._groups.values():
            group.close()

    def progress(self, error_class: str, place: TopicPartition) -> Progress:
        if error_class not in self._progress:
            committed = self._group(error_class).committed(self._places)
            self._progress[error_class] = {
                each: Progress() if mark is None else Progress.parse(mark.offset, mark.metadata)
                for each, mark in committed.items()
            }
        return self._progress[error_class][place]

    def plan(self, error_class: str, place: TopicPartition, *, first: int, last: int) -> None:
        """Letters of this class from `first` to before `last` are about to be sent. TooManyRanges before they are."""
        planned = self._planned.setdefault(error_class, {})
        if place not in planned:
            known = self.progress(error_class, place)
            planned[place] = Progress(known.next_offset, tuple(known.ranges))
        planned[place].add(first, last)
        _ = planned[place].metadata

    def commit(self) -> None:
        """What was planned is done."""
        for error_class, planned in self._planned.items():
            marks = {place: OffsetAndMetadata(each.next_offset, each.metadata) for place, each in planned.items()}
            self._group(error_class).commit(marks)
            self._progress[error_class].update(planned)
        self._planned = {}

    def _group(self, error_class: str) -> Consumer:
        if error_class not in self._groups:
            settings = {"group.id": group_of(error_class), "enable.auto.commit": False}
            self._groups[error_class] = Consumer({"bootstrap.servers": self._bootstrap, **settings})
        return self._groups[error_class]
