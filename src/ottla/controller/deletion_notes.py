"""Notes below /admin/delete_topics: deletions that were cut off, or that somebody else asks for."""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from ottla.controller.fenced_store import FencedStore
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Delete
from ottla.core.config.current import CurrentConfig

_LOG = logging.getLogger("ottla.controller")


class DeletionNotes:
    """Watches /admin/delete_topics; a note without a topic goes, or it would take the next one of that name away.

    So does every note of somebody else while `delete.topic.enable` is off.
    """

    def __init__(self, store: FencedStore, topics: Topics, current: CurrentConfig) -> None:
        self._store = store
        self._topics = topics
        self._current = current

    def start(self) -> None:
        self._store.children(
            paths.DELETE_TOPICS, lambda listed: self.take_up(listed.children), watch=lambda _: self.start()
        )

    def take_up(self, noted: Iterable[str], on_done: Callable[[], None] = lambda: None) -> None:
        """Calls `on_done` when there is nothing to wait for any more but dead brokers."""
        state = self._topics.state
        unfinished = 1  # this call itself

        def on_end(name: str, fault: TopicFault | None) -> None:
            _LOG.info("topic %s: its deletion is finished%s", name, f" ({fault.message})" if fault else "")
            on_one_done()

        def on_one_done(_: object = None) -> None:
            nonlocal unfinished
            unfinished -= 1
            if unfinished == 0:
                on_done()

        for name in noted:
            if name in state.being_deleted:
                continue
            if name in state.topics and self._current.value.get_bool("delete.topic.enable"):
                unfinished += 1
                self._topics.finish_deletion(name, partial(on_end, name))
            else:
                unfinished += 1
                self._store.multi([Delete(paths.delete_topic_path(name), ANY_VERSION)], on_one_done)
        on_one_done()
