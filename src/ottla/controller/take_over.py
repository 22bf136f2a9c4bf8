"""What a new controller reads before it acts: live brokers, all topics, deletions that are noted; the tree once."""

from collections.abc import Callable, Mapping

from ottla.controller.fenced_store import FencedStore
from ottla.controller.live_brokers import Brokers
from ottla.controller.picture import Picture
from ottla.controller.topic_watches import TopicWatches
from ottla.controller.tree_loader import TreeError
from ottla.coordination import paths
from ottla.coordination.store import Result
from ottla.core.cluster import TopicImage
from ottla.core.types import BrokerId


class TakeOver:
    """One reading. `on_brokers` is called by whoever reads the brokers and goes on to watch them."""

    def __init__(
        self, store: FencedStore, watches: TopicWatches, on_done: Callable[[Picture | TreeError], None]
    ) -> None:
        self._store = store
        self._loader = watches.loader(self._on_loaded)
        self._on_done = on_done
        self._brokers: Brokers | None = None
        self._images: dict[str, TopicImage] | None = None
        self._noted: tuple[str, ...] | None = None
        self._is_done = False

    def start(self) -> None:
        self._loader.start()
        self._store.children(paths.DELETE_TOPICS, self._on_noted)

    def on_brokers(self, brokers: Brokers, registered_at: Mapping[BrokerId, int]) -> None:
        self._brokers = brokers
        self._registered_at = registered_at
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
        self._on_done(Picture(self._without_reborn(self._brokers), self._images, self._noted))

    def _without_reborn(self, brokers: Brokers) -> Brokers:
        """Those that lead nothing by an election of an earlier life of theirs.

        Who registered after it was elected may have lost the end of its log, and must not append there in the same
        leader epoch: its followers would keep what it lost. So it went, and comes when others were elected.
        """
        oldest_led, registered_at = self._loader.oldest_led, self._registered_at
        return {
            broker_id: broker
            for broker_id, broker in brokers.items()
            if oldest_led.get(broker_id, registered_at[broker_id]) >= registered_at[broker_id]
        }
