"""__consumer_offsets comes into being with the first need for it, and the coordinator starts on it."""

import logging
from collections.abc import Callable

from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import NewTopic, Topics
from ottla.coordinator.runtime import GroupCoordinator
from ottla.core.cluster import OFFSETS_TOPIC, TopicImage
from ottla.core.config.config import BrokerConfig

_LOG = logging.getLogger("ottla.groups")


class OffsetsTopic:
    """Owned by the broker; event loop only."""

    def __init__(
        self, coordinator: GroupCoordinator, topics: Topics, cache: MetadataCache, config: BrokerConfig
    ) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._cache = cache
        self._config = config
        self._waiting: list[Callable[[], None]] = []

    def maybe_start(self) -> bool:
        """Start the coordinator if the topic is there; whether it is."""
        image = self._cache.topics.get(OFFSETS_TOPIC)
        if image is None:
            return False
        self._coordinator.start(len(image.partitions))
        return True

    def ensure(self, on_done: Callable[[], None]) -> None:
        """Call back when the coordinator has its topic, or can't get it; several who ask wait for one creation."""
        if self.maybe_start():
            on_done()
            return
        self._waiting.append(on_done)
        if len(self._waiting) == 1:
            self._topics.create(self._new_topic(), self._on_created)

    def on_topic_deleted(self, name: str) -> None:
        if name == OFFSETS_TOPIC:
            self._coordinator.stop()
        else:
            self._coordinator.on_topics_deleted([name])

    def _new_topic(self) -> NewTopic:
        config = self._config
        return NewTopic(
            OFFSETS_TOPIC,
            partitions=config.get_int("offsets.topic.num.partitions"),
            replication_factor=min(
                config.get_int("offsets.topic.replication.factor"), max(len(self._cache.brokers), 1)
            ),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.get_int("offsets.topic.segment.bytes")),
            },
        )

    def _on_created(self, outcome: TopicImage | TopicFault) -> None:
        if not self.maybe_start():
            assert isinstance(outcome, TopicFault)
            _LOG.error("%s can't be made, so there are no groups: %s", OFFSETS_TOPIC, outcome.message)
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done()
