"""Changes of configs on a broker that does not control the cluster: it writes them, and all brokers hear of the note.

What it knows may be old. But a change is decided on what its node says, and the store takes it only if it still does.
"""

from collections.abc import Callable

from ottla.controller.deltas import TopicConfigChanged, TopicDelta
from ottla.controller.queue import EventQueue
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.coordination.store import Store
from ottla.core.cluster import TopicImage
from ottla.core.config.current import CurrentConfig


class OwnConfigs:
    """One per broker; gives each change a queue of its own, because the store keeps changes apart."""

    def __init__(
        self,
        store: Store,
        current: CurrentConfig,
        *,
        seen_topic: Callable[[str], TopicImage | None],
        stored_configs: Callable[[], StoredBrokerConfigs],
        on_topic_configs: Callable[[str, dict[str, str]], None],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`seen_topic` is what clients of this broker see of a topic."""
        self._store = store
        self._current = current
        self._seen_topic = seen_topic
        self._stored_configs = stored_configs
        self._on_topic_configs = on_topic_configs
        self._random_bytes = random_bytes

    def queue_for(self, topic: str) -> EventQueue:
        image = self._seen_topic(topic)
        return EventQueue(
            self._store,
            ClusterState([] if image is None else [image], self._stored_configs()),
            self,
            self._current,
            random_bytes=self._random_bytes,
            live_brokers=list,
            controller_epoch=lambda: 0,
        )

    def apply(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        if isinstance(delta, TopicConfigChanged):
            self._on_topic_configs(delta.topic, delta.configs)
        on_applied()
