"""The embedded store with a loop that the test runs by hand, and an applier that only notes what it was told."""

import queue
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ottla.coordination import paths
from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.embedded_file import STORE_FILE_NAME
from ottla.coordination.store import ANY_VERSION, Create, Result
from ottla.core.cluster import TopicImage

WAIT_SECONDS = 30.0


class PumpedStore:
    """A new store with the fixed nodes; callbacks run inside `run_until`."""

    def __init__(self, directory: Path) -> None:
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.store = EmbeddedStore(str(directory / STORE_FILE_NAME), post=self._posted.put)
        if not self.get(paths.TOPICS).is_ok:
            nodes = [Create(path, b"") for path in paths.PERSISTENT_PATHS]
            assert self.call(self.store.multi, nodes).is_ok

    def run_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
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
    """The broker's side of `Topics`; can be told to keep its answers back."""

    def __init__(self) -> None:
        self.applied: list[TopicImage] = []
        self.added: list[tuple[TopicImage, list[int]]] = []
        self.removed: list[str] = []
        self.answers_at_once = True

    def apply_topic(self, image: TopicImage, on_applied: Callable[[], None]) -> None:
        self.applied.append(image)
        on_applied()

    def apply_partitions(self, image: TopicImage, added: Sequence[int], on_applied: Callable[[], None]) -> None:
        self.added.append((image, list(added)))
        on_applied()

    def remove_topic(self, name: str, on_removed: Callable[[], None]) -> None:
        self.removed.append(name)
        if self.answers_at_once:
            on_removed()
