"""Watches what others write about topics: new ones, and partitions that they add."""

import logging
from functools import partial

from ottla.controller.fenced_store import FencedStore
from ottla.controller.found_topics import TopicFound, TopicGrown
from ottla.controller.queue import Done, EventQueue
from ottla.controller.topic_faults import TopicFault
from ottla.controller.tree_loader import OnLoaded, TreeError, TreeLoader
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Result, WatchEvent, WatchKind
from ottla.core.cluster import TopicImage

_LOG = logging.getLogger("ottla.controller")


class TopicWatches:
    """Owned by one term of the controller, for a store that others write, too."""

    def __init__(self, store: FencedStore) -> None:
        self._store = store
        self._watched: set[str] = set()  # topics whose nodes are watched
        self._queue: EventQueue | None = None
        # What the watches of the loader said before there was a queue.
        self._has_changed = False
        self._changed_topics: dict[str, None] = {}

    def loader(self, on_loaded: OnLoaded) -> TreeLoader:
        """Reads topics and watches them, from before they are known on."""
        return TreeLoader(self._store, on_loaded, on_topics=self._on_topics, on_topic=self._on_topic)

    def start(self, queue: EventQueue) -> None:
        """All that the loader read is in the queue's state; what changed since then comes now."""
        self._queue = queue
        self._watched.update(queue.state.topics)
        for name in self._changed_topics:
            self._read_again(name)
        if self._has_changed:
            self._list_topics()

    def on_deleted(self, name: str) -> None:
        """Nothing is left of a topic. Another broker may have made one of that name before the list was read again, and
        then the list looked as before."""
        self._watched.discard(name)
        self._store.children(paths.TOPICS, self._on_listed)

    def _on_topics(self, event: WatchEvent) -> None:
        if self._queue is None:
            self._has_changed = True
        else:
            self._list_topics()

    def _list_topics(self) -> None:
        self._store.children(paths.TOPICS, self._on_listed, watch=self._on_topics)

    def _on_listed(self, listed: Result) -> None:
        queue = self._queue
        assert queue is not None
        present = set(listed.children)
        self._watched &= present
        unwatched = [name for name in listed.children if name not in self._watched]
        self._watched |= present
        for name in unwatched:
            if name in queue.state.topics:  # this controller made it
                self._read_again(name)
        found = [name for name in unwatched if name not in queue.state.topics]
        if found:
            TreeLoader(self._store, self._on_found, on_topic=self._on_topic).start_with(found)

    def _on_found(self, images: dict[str, TopicImage] | TreeError) -> None:
        queue = self._queue
        assert queue is not None
        if isinstance(images, TreeError):
            _LOG.error("topics that were written by others are left alone: %s", images)
            return
        for image in images.values():
            queue.submit(TopicFound(image), partial(_note, image.name, "found in the tree"))

    def _on_topic(self, event: WatchEvent) -> None:
        name = event.path.rpartition("/")[2]
        if event.kind == WatchKind.DELETED:
            return
        if self._queue is None:
            self._changed_topics[name] = None
        else:
            self._read_again(name)

    def _read_again(self, name: str) -> None:
        def on_read(result: Result) -> None:
            queue = self._queue
            image = None if queue is None else queue.state.find(name)
            if queue is None or image is None or not result.is_ok:
                return
            try:
                assigned = paths.decode_topic(result.path, result.value)
            except MalformedNodeError as error:
                _LOG.error("%s", error)
                return
            if any(partition not in image.partitions for partition in assigned.partitions):
                queue.submit(TopicGrown(name), partial(_note, name, "grown in the tree"))

        self._store.get(paths.topic_path(name), on_read, watch=self._on_topic)


def _note(name: str, what: str, outcome: Done | TopicFault) -> None:
    if isinstance(outcome, Done):
        _LOG.info("topic %s: %s", name, what)
