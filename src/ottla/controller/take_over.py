"""What a new controller reads before it acts: live brokers, all topics, deletions that are noted; the tree once."""

from collections.abc import Callable

from ottla.controller.fenced_store import FencedStore
from ottla.controller.live_brokers import Brokers
from ottla.controller.picture import Picture
from ottla.controller.topic_watches import TopicWatches
from ottla.controller.tree_loader import TreeError
from ottla.coordination import paths
from ottla.coordination.store import Result
from ottla.core.cluster import TopicImage


class TakeOver:
    """One reading. `on_brokers` is called by whoever reads the brokers and goes on to watch them."""

    def __init__(
        self, store: FencedStore, watches: TopicWatches, on_done: Callable[[Picture | TreeError], None]
    ) -> None:
        self._store = store
        self._watches = watches
        self._on_done = on_done
        self._brokers: Brokers | None = None
        self._images: dict[str, TopicImage] | None = None
        self._noted: tuple[str, ...] | None = None
        self._is_done = False

    def start(self) -> None:
        self._watches.loader(self._on_loaded).start()
        self._store.children(paths.DELETE_TOPICS, self._on_noted)

    def on_brokers(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._maybe_finish()

    def _on_loaded(self, images: dict[str, TopicImage] | TreeError) -> None:
        if isinstance(images, TreeError):
            self._on_done(images)
        else:
            self._images = images
            self._maybe_finish()

    def _on_noted(self, result: Result) -> None:
        self._noted = result.children
        self._maybe_finish()

    def _maybe_finish(self) -> None:
        if self._is_done or self._brokers is None or self._images is None or self._noted is None:
            return
        self._is_done = True
        self._on_done(Picture(self._brokers, self._images, self._noted))
