"""The embedded store with a loop that the test runs by hand, and an applier that only notes what it was told."""

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.controller.deltas import (
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeletionStarted,
    TopicDelta,
)
from ottla.coordination import paths
from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.embedded_file import STORE_FILE_NAME
from ottla.coordination.store import ANY_VERSION, Create, Result
from ottla.core.cluster import TopicImage

WAIT_SECONDS = 30.0


class PumpedStore:
    """A new store with the fixed nodes; callbacks run inside `run_until`, and `settle` before it waits for them."""

    def __init__(self, directory: Path, settle: Callable[[], None] = lambda: None) -> None:
        self._settle = settle
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.post = self._posted.put
        self.store = EmbeddedStore(str(directory / STORE_FILE_NAME), post=self._posted.put)
        if not self.get(paths.TOPICS).is_ok:
            nodes = [Create(path, b"") for path in paths.PERSISTENT_PATHS]
            assert self.call(self.store.multi, nodes).is_ok

    def run_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self._settle()
            if not is_done():
                self._posted.get(timeout=WAIT_SECONDS)()

    def call(self, operation: Callable[..., None], *arguments: Any, **options: Any) -> Any:
        """The answer of `operation(*arguments, on_done, **options)`."""
        answers: list[Any] = []
        operation(*arguments, answers.append, **options)
        self.run_until(lambda: bool(answers))
        return answers[0]

    def get(self, path: str) -> Result:
        result: Result = self.call(self.store.get, path)
        return result

    def put(self, path: str, value: bytes) -> None:
        """Write a node whatever is there."""
        if not self.call(self.store.create, path, value).is_ok:
            assert self.call(self.store.set, path, value, version=ANY_VERSION).is_ok

    def tree(self, path: str = "/") -> dict[str, bytes]:
        """Every node below, with its value."""
        found = {}
        for name in self.call(self.store.children, path).children:
            below = f"{path.rstrip('/')}/{name}"
            found[below] = self.get(below).value
            found.update(self.tree(below))
        return found

    def close(self) -> None:
        self.store.close()


class NotingApplier:
    """The broker's side of the controller; can be told to keep its answers to deletions back."""

    def __init__(self) -> None:
        self.deltas: list[TopicDelta] = []
        self.answers_at_once = True

    def apply(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        self.deltas.append(delta)
        if self.answers_at_once or not isinstance(delta, TopicDeletionStarted):
            on_applied()

    @property
    def applied(self) -> list[TopicImage]:
        return [delta.image for delta in self.deltas if isinstance(delta, TopicCreated)]

    @property
    def added(self) -> list[list[int]]:
        return [list(delta.partitions) for delta in self.deltas if isinstance(delta, PartitionsAdded)]

    @property
    def configs(self) -> list[dict[str, str]]:
        return [delta.configs for delta in self.deltas if isinstance(delta, TopicConfigChanged)]

    @property
    def removed(self) -> list[str]:
        return [delta.topic for delta in self.deltas if isinstance(delta, TopicDeletionStarted)]
