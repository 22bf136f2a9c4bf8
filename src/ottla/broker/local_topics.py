"""Makes the controller's decisions about topics real on this broker: logs, partitions, the metadata cache."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

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
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager

_LOG = logging.getLogger("ottla.topics")

# Folders made or renamed in one turn of the loop, some milliseconds: nobody else may wait for a topic of thousands.
_LOGS_PER_TURN = 20


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
        forget_log: Callable[[Log, Callable[[], None]], None],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._log_manager = log_manager
        self._replicas = replicas
        self._cache = cache
        self._config = config
        self._broker_id = broker_id
        self._clock = clock
        self._forget_log = forget_log
        self._call_soon = call_soon
        self._default_log_config: LogConfig | None = None
        self._being_made: dict[str, _BeingMade] = {}  # by topic
        # Called with the name of each topic that is deleted, when clients no longer see it and before its files go.
        self.on_topic_deleted: list[Callable[[str], None]] = []

    def apply_topic(self, image: TopicImage, on_applied: Callable[[], None]) -> None:
        """A new topic: make what this broker holds of it, durably, then let clients see it."""
        self.apply_partitions(image, list(image.partitions), on_applied)

    def apply_partitions(self, image: TopicImage, added: Sequence[int], on_applied: Callable[[], None]) -> None:
        """The same for the partitions that a topic got; those that it had are left alone."""
        mine = self._partitions_here(image, added)
        being_made = self._being_made.setdefault(image.name, _BeingMade(image.configs))
        being_made.indexes.update(added)

        def is_overtaken() -> bool:
            """Whether a deletion has taken the topic away, and the logs that were made with it."""
            return self._being_made.get(image.name) is not being_made

        def make_from(start: int) -> None:
            if is_overtaken():
                on_applied()
                return
            end = start + _LOGS_PER_TURN
            with_configs = image._replace(configs=being_made.configs)
            self._make_missing_logs(mine[start:end], with_configs, is_new=True)
            if end < len(mine):
                self._call_soon(lambda: make_from(end))
            else:
                self._log_manager.make_names_durable(on_durable)

        def on_durable() -> None:
            if not is_overtaken():
                being_made.indexes.difference_update(added)
                if not being_made.indexes:
                    del self._being_made[image.name]
                self._serve(mine, self._grown(image._replace(configs=being_made.configs), added), {})
            on_applied()

        make_from(0)

    def _grown(self, image: TopicImage, added: Sequence[int]) -> TopicImage:
        """What clients see of the topic now, with the added partitions: the rest of `image` may be out of date."""
        seen = self._cache.topics.get(image.name)
        if seen is None:
            return image
        return seen._replace(partitions={**seen.partitions, **{index: image.partitions[index] for index in added}})

    def apply_loaded(self, image: TopicImage, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """A topic that was there before the start: its logs are loaded, a missing one is made.

        Not while a log directory is offline: the log may be in there, and an empty one in its place would hide that.
        """
        mine = self._partitions_here(image, image.partitions)
        self._make_missing_logs(mine, image, is_new=False)
        self._serve(mine, image, high_watermarks)

    def apply_config(self, image: TopicImage) -> None:
        """A topic's config has changed: its logs go by it from now on."""
        self._log_manager.update_config(image.name, self._log_config_of(image))
        being_made = self._being_made.get(image.name)
        if being_made is not None:
            being_made.configs = image.configs
        seen = self._cache.topics.get(image.name)
        if seen is not None:  # else it is not visible yet, or no longer; new partitions become so on their own
            self._cache.put_topic(seen._replace(configs=image.configs))

    def use_config(self, config: BrokerConfig, images: Iterable[TopicImage]) -> None:
        """The broker's config has changed, and with it that of every topic that does not have its own."""
        self._config = config
        self._default_log_config = None
        self._log_manager.update_configs({image.name: self._log_config_of(image) for image in images})

    def remove_topic(self, name: str, on_removed: Callable[[], None]) -> None:
        """Hide the topic from clients, then put its files out of the way."""
        image = self._cache.topics.get(name)
        self._cache.remove_topic(name)
        being_made = self._being_made.pop(name, None)
        indexes = set(() if image is None else image.partitions).union(() if being_made is None else being_made.indexes)
        removed = [TopicPartition(name, index) for index in sorted(indexes)]
        unfinished = 1  # the renaming of the folders, and each log that is being flushed

        def on_part_removed() -> None:
            nonlocal unfinished
            unfinished -= 1
            if unfinished == 0:
                on_removed()

        for topic_partition in removed:
            partition = self._replicas.remove(topic_partition)
            if partition is not None:
                unfinished += 1
                self._forget_log(partition.log, on_part_removed)
        for on_topic_deleted in self.on_topic_deleted:
            on_topic_deleted(name)

        def delete_from(start: int) -> None:
            end = start + _LOGS_PER_TURN
            self._log_manager.delete_logs(removed[start:end], self._clock())
            if end < len(removed):
                self._call_soon(lambda: delete_from(end))
            else:
                self._log_manager.make_names_durable(on_part_removed)

        delete_from(0)

    def _log_config_of(self, image: TopicImage) -> LogConfig:
        if image.configs:
            return log_config_of(TopicConfig.of_stored(image.configs, self._config)[0])
        if self._default_log_config is None:  # most topics have no config of their own
            self._default_log_config = log_config_of(TopicConfig({}, self._config))
        return self._default_log_config

    def _partitions_here(self, image: TopicImage, indexes: Iterable[int]) -> list[TopicPartition]:
        partitions = image.partitions
        return [TopicPartition(image.name, index) for index in indexes if self._broker_id in partitions[index].replicas]

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
                stray = self._log_manager.set_aside(topic_partition)
                _LOG.warning("%s: belongs to an older topic of this name, set aside as %s", topic_partition, stray)
                missing.append(topic_partition)
        config = self._log_config_of(image)
        for topic_partition in missing:
            try:
                self._log_manager.create_log(topic_partition, image.topic_id, config, self._clock())
            except StorageError as error:
                # Something is in its way, or no directory is online: this one is served with error 56.
                _LOG.error("topic %s: %s", image.name, error)


class _BeingMade:
    """Partitions of a topic that clients don't see yet: their folders are being made, and made durable."""

    __slots__ = ("configs", "indexes")

    def __init__(self, configs: dict[str, str]) -> None:
        self.configs = configs  # of the topic, as they are now
        self.indexes: set[int] = set()
