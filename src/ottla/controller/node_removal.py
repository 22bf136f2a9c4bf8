"""Removes the nodes of a topic's partitions, whatever there is of them, in multis that the store can take.

The topic's own node and the note of its deletion stay for the last: until then the next controller goes on with it.
"""

from collections.abc import Callable

from ottla.controller.fenced_store import FencedStore
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Code, Delete, Result

_REMOVED_AT_ONCE = 1_000  # some 100 KB


class NodeRemoval:
    """One topic's. What others write or remove meanwhile makes it look again."""

    def __init__(self, store: FencedStore, topic: str, on_done: Callable[[], None]) -> None:
        self._store = store
        self._root = paths.topic_partitions_path(topic)
        self._config = paths.config_path("topics", topic)
        self._topic = topic
        self._on_done = on_done

    def start(self) -> None:
        self._store.exists(self._config, self._on_config)

    def _on_config(self, config: Result) -> None:
        self._found: list[str] = [self._config] if config.is_ok else []  # parents before their children
        self._unread = 2
        self._store.children(self._root, self._on_children)
        self._store.children(paths.ELIGIBLE, self._on_eligible)

    def _on_eligible(self, result: Result) -> None:
        for name in result.children:
            if paths.partition_of_eligible(name).topic == self._topic:
                self._found.append(f"{paths.ELIGIBLE}/{name}")
        self._end_read()

    def _on_children(self, result: Result) -> None:
        if result.is_ok:
            self._found.append(result.path)
            self._unread += len(result.children)
            for name in result.children:
                self._store.children(f"{result.path}/{name}", self._on_children)
        self._end_read()

    def _end_read(self) -> None:
        self._unread -= 1
        if not self._unread:
            self._found.sort()
            self._remove()

    def _remove(self) -> None:
        last = self._found[-_REMOVED_AT_ONCE:]
        del self._found[-_REMOVED_AT_ONCE:]
        if not last:
            self._on_done()
            return
        self._store.multi([Delete(path, ANY_VERSION) for path in reversed(last)], self._on_removed)

    def _on_removed(self, result: Result) -> None:
        if result.is_ok:
            self._remove()
        elif result.code in (Code.NO_NODE, Code.NOT_EMPTY, Code.CONNECTION_LOST):
            self.start()
        else:
            self._on_done()  # the last step is refused for the same reason, with words
