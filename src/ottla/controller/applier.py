"""What the controller asks of the broker: to make its decisions about topics real."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.core.cluster import TopicImage


class TopicApplier(Protocol):
    """The broker's side: makes a decision real, then calls back."""

    def apply_topic(self, image: TopicImage, on_applied: Callable[[], None]) -> None: ...

    def apply_partitions(self, image: TopicImage, added: Sequence[int], on_applied: Callable[[], None]) -> None:
        """`image` has partitions that were not there before: those in `added`."""
        ...

    def remove_topic(self, name: str, on_removed: Callable[[], None]) -> None: ...
