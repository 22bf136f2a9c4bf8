"""Creates __consumer_offsets when it is first needed, and has the coordinator serve what this broker leads of it."""

import logging
from collections.abc import Callable

from ottla.broker.local_replicas import LocalReplicas
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.topic_creation import TopicCreator
from ottla.controller.new_topics import NewTopic
from ottla.controller.topic_faults import TopicFault
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.cluster import OFFSETS_TOPIC, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.errors import ErrorCode
from ottla.core.types import LeaderEpoch, TopicPartition
from ottla.replication.replicas import Replicas

_LOG = logging.getLogger("ottla.groups")


class OffsetsTopic:
    """Owned by the broker; event loop only."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        topics: TopicCreator,
        cache: MetadataCache,
        replicas: Replicas,
        config: BrokerConfig,
        *,
        is_alone: bool,
    ) -> None:
        """`is_alone`: no other broker will ever come, so the topic has as many replicas as it can have."""
        self._coordinator = coordinator
        self._topics = topics
        self._cache = cache
        self._replicas = replicas
        self._config = config
        self._is_alone = is_alone
        self._waiting: list[Callable[[], None]] = []

    def maybe_start(self) -> bool:
        """Start the coordinator on the partitions that this broker leads; False while there is no topic."""
        image = self._cache.topics.get(OFFSETS_TOPIC)
        if image is None:
            return False
        if not self._coordinator.partition_count:
            # Not before: a group's partition depends on their number, and a load asks which topics there are.
            self._coordinator.start(len(image.partitions))
            self._coordinator.load(self._led_here(image))
        return True

    def follow(self, replicas: LocalReplicas) -> None:
        """Load and unload with the leadership of each partition from now on."""
        replicas.on_leading.append(self._on_leading)
        replicas.on_following.append(lambda topic_partition, epoch, _: self._on_not_leading(topic_partition, epoch))
        replicas.on_stopped.append(self._on_not_leading)

    def _on_leading(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        if topic_partition.topic == OFFSETS_TOPIC and self._coordinator.partition_count:
            self._coordinator.load({topic_partition.partition: leader_epoch})

    def _on_not_leading(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        if topic_partition.topic == OFFSETS_TOPIC:
            self._coordinator.unload(topic_partition.partition, leader_epoch, ErrorCode.NOT_COORDINATOR)

    def _led_here(self, image: TopicImage) -> dict[int, LeaderEpoch]:
        """What this broker leads by what its replicas know: the metadata may be older or newer than that."""
        led = {}
        for partition, state in image.partitions.items():
            found = self._replicas.find(OFFSETS_TOPIC, partition)
            if not isinstance(found, ErrorCode):
                led[partition] = found.state.leader_epoch
            elif found == ErrorCode.KAFKA_STORAGE_ERROR and state.leader == self._replicas.broker_id:
                led[partition] = state.leader_epoch  # it can't be loaded: its groups get error 15
        return led

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
            # Among others it is not made before enough of them live: Kafka's brokers answer 15 until then.
            replication_factor=1 if self._is_alone else config.get_int("offsets.topic.replication.factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.get_int("offsets.topic.segment.bytes")),
            },
        )

    def _on_created(self, outcome: TopicImage | TopicFault) -> None:
        if not self.maybe_start() and isinstance(outcome, TopicFault):
            _LOG.error("%s can't be created, so there are no groups: %s", OFFSETS_TOPIC, outcome.message)
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done()
