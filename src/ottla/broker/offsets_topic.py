"""Creates __consumer_offsets when it is first needed, and starts the coordinator on it."""

import logging
from collections.abc import Callable

from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.new_topics import NewTopic
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import Topics
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.cluster import OFFSETS_TOPIC, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.errors import ErrorCode

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
        """Start the coordinator on the partitions that this broker leads; False while there is no topic."""
        image = self._cache.topics.get(OFFSETS_TOPIC)
        if image is None:
            return False
        if not self._coordinator.partition_count:
            self._coordinator.start(len(image.partitions))
            broker_id = self._config.get_int("broker.id")
            self._coordinator.load(
                {
                    partition: state.leader_epoch
                    for partition, state in image.partitions.items()
                    if state.leader == broker_id
                }
            )
        return True

    def ensure(self, on_done: Callable[[], None]) -> None:
        """Call back when the coordinator has its topic, or can't get it; several callers share one creation."""
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

    def on_partition_offline(self, partition: int) -> None:
        """The log of a partition can't be used any more, though this broker still leads it."""
        image = self._cache.topics.get(OFFSETS_TOPIC)
        state = None if image is None else image.partitions.get(partition)  # the topic may be deleted by now
        if state is not None:
            self._coordinator.unload(partition, state.leader_epoch, ErrorCode.COORDINATOR_NOT_AVAILABLE)

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
            _LOG.error("%s can't be created, so there are no groups: %s", OFFSETS_TOPIC, outcome.message)
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done()
