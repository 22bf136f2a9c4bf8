"""Makes the controller's decisions about topics real on this broker: logs, partitions, the metadata cache."""

import logging
from collections.abc import Callable, Mapping

from ottla.broker.log_settings import log_config_of
from ottla.broker.metadata_cache import MetadataCache
from ottla.core.clock import Clock
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.errors import StorageError
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager

_LOG = logging.getLogger("ottla.topics")


class LocalTopics:
    """The applier of `Topics`; event loop only."""

    def __init__(
        self,
        log_manager: LogManager,
        replicas: Replicas,
        cache: MetadataCache,
        config: BrokerConfig,
        *,
        broker_id: BrokerId,
        clock: Clock,
        forget_log: Callable[[Log], None],
    ) -> None:
        self._log_manager = log_manager
        self._replicas = replicas
        self._cache = cache
        self._config = config
        self._broker_id = broker_id
        self._clock = clock
        self._forget_log = forget_log

    def apply_topic(self, image: TopicImage, on_applied: Callable[[], None]) -> None:
        """A new topic: make what this broker holds of it, durably, then let clients see it."""
        mine = self._partitions_here(image)
        self._make_missing_logs(mine, image, is_new=True)

        def on_durable() -> None:
            self._serve(mine, image, {})
            on_applied()

        self._log_manager.make_names_durable(on_durable)

    def apply_loaded(self, image: TopicImage, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """A topic that was there before the start: its logs are loaded, a missing one is made.

        Not while a log directory is offline: the log may be in there, and an empty one in its place would hide that.
        """
        mine = self._partitions_here(image)
        self._make_missing_logs(mine, image, is_new=False)
        self._serve(mine, image, high_watermarks)

    def remove_topic(self, name: str, on_removed: Callable[[], None]) -> None:
        """Hide the topic from clients, then put its files out of the way."""
        image = self._cache.topics.get(name)
        self._cache.remove_topic(name)
        if image is not None:
            removed = [TopicPartition(name, index) for index in image.partitions]
            for topic_partition in removed:
                partition = self._replicas.remove(topic_partition)
                if partition is not None:
                    self._forget_log(partition.log)
            self._log_manager.delete_logs(removed, self._clock())
        self._log_manager.make_names_durable(on_removed)

    def _partitions_here(self, image: TopicImage) -> list[TopicPartition]:
        return [
            TopicPartition(image.name, index)
            for index, state in image.partitions.items()
            if self._broker_id in state.replicas
        ]

    def _serve(
        self, mine: list[TopicPartition], image: TopicImage, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> None:
        for topic_partition in mine:
            log = self._log_manager.get(topic_partition)
            if log is None:
                self._replicas.add_unavailable(topic_partition)
            else:
                partition = Partition(
                    topic_partition,
                    topic_id=image.topic_id,
                    log=log,
                    state=image.partitions[topic_partition.partition],
                )
                partition.restore_high_watermark(high_watermarks.get(topic_partition))
                self._replicas.add(partition)
        self._cache.put_topic(image)

    def _make_missing_logs(self, mine: list[TopicPartition], image: TopicImage, *, is_new: bool) -> None:
        may_be_offline = not is_new and bool(self._log_manager.offline_directories)
        missing = []
        for topic_partition in mine:
            if self._log_manager.is_offline(topic_partition):
                continue
            if self._log_manager.get(topic_partition) is None:
                if not may_be_offline:
                    missing.append(topic_partition)
                continue
            found_id = self._log_manager.topic_id_of(topic_partition)
            if found_id is None:
                self._log_manager.assign_topic_id(topic_partition, image.topic_id)
            elif found_id != image.topic_id:
                # The data of another topic that had this name; it must not be served as this one's.
                _LOG.warning("%s: the folder belongs to an older topic of this name and is deleted", topic_partition)
                self._log_manager.delete_log(topic_partition, self._clock())
                missing.append(topic_partition)
        if missing:
            config = log_config_of(TopicConfig.parse(image.configs, self._config))
            try:
                self._log_manager.create_logs(missing, image.topic_id, config, self._clock())
            except StorageError as error:
                # The directory is offline by now: the partitions are served with error 56.
                _LOG.error("topic %s: %s", image.name, error)
