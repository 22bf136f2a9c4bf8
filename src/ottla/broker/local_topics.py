"""Carries out the controller's decisions about topics on this broker: logs, partitions, what clients see.

It follows the controller's deltas, one by one, and decides nothing. What clients see, in the metadata cache, is each
topic as it is now, but for partitions whose folders are not durable yet.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from ottla.broker.log_settings import log_config_of
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.deltas import (
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeletionStarted,
    TopicDelta,
    with_partitions,
)
from ottla.core.clock import Clock
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.errors import StorageError
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.replication.replicas import Replicas
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager

_LOG = logging.getLogger("ottla.topics")

# Folders made or renamed in one turn of the loop, some milliseconds: a topic of thousands must not delay others.
_LOGS_PER_TURN = 20


class LocalTopics:
    """This broker's `Applier`; event loop only."""

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
        self._images: dict[str, TopicImage] = {}  # each topic as the last delta left it
        self._in_making: dict[str, set[int]] = {}  # by topic: partitions whose folders are not durable yet
        # Called with the name of each topic that is deleted, when clients no longer see it and before its files go.
        self.on_topic_deleted: list[Callable[[str], None]] = []

    def apply(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        """Carry out what the controller decided; calls `on_applied` when clients can rely on it here."""
        if isinstance(delta, TopicCreated):
            self._images[delta.image.name] = delta.image
            self._make(delta.image.name, delta.image.partitions, on_applied)
        elif isinstance(delta, PartitionsAdded):
            self._images[delta.topic] = with_partitions(self._images[delta.topic], delta.partitions)
            self._make(delta.topic, delta.partitions, on_applied)
        elif isinstance(delta, TopicConfigChanged):
            self._use_topic_config(delta.topic, delta.configs)
            on_applied()
        elif isinstance(delta, TopicDeletionStarted):
            self._remove(delta.topic, delta.partitions, on_applied)
        else:
            on_applied()  # its logs went with the start of its deletion

    def _make(self, name: str, added: Mapping[int, PartitionState], on_made: Callable[[], None]) -> None:
        """Make what this broker holds of new partitions, durably, then let clients see them."""
        mine = self._partitions_here(name, added)
        in_making = self._in_making.setdefault(name, set())
        in_making.update(added)

        def is_overtaken() -> bool:
            """Whether a deletion has taken the topic away, and the logs that were made with it."""
            return self._in_making.get(name) is not in_making

        def make_from(start: int) -> None:
            if is_overtaken():
                on_made()
                return
            end = start + _LOGS_PER_TURN
            self._make_missing_logs(mine[start:end], self._images[name], is_new=True)
            if end < len(mine):
                self._call_soon(lambda: make_from(end))
            else:
                self._log_manager.sync_dirs(on_durable)

        def on_durable() -> None:
            if not is_overtaken():
                in_making.difference_update(added)
                if not in_making:
                    del self._in_making[name]
                self._serve(mine, self._images[name], {})
                self._show(name)
            on_made()

        make_from(0)

    def _show(self, name: str) -> None:
        """Let clients see the topic as it is now, without the partitions that can't be used yet."""
        image = self._images[name]
        in_making = self._in_making.get(name)
        if in_making:
            ready = {number: state for number, state in image.partitions.items() if number not in in_making}
            if not ready:
                return
            image = image._replace(partitions=ready)
        self._cache.put_topic(image)

    def _use_topic_config(self, name: str, configs: dict[str, str]) -> None:
        """The topic's logs use it from now on, also those that are being made."""
        image = self._images.get(name)
        if image is None:  # it is being deleted
            return
        image = self._images[name] = image._replace(configs=configs)
        self._log_manager.update_config(name, self._log_config_of(image))
        self._show(name)

    def apply_loaded(self, image: TopicImage, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """A topic that was there before the start: its logs are loaded, a missing one is made.

        Not while a log directory is offline: the log may be in there, and an empty one in its place would hide that.
        """
        self._images[image.name] = image
        mine = self._partitions_here(image.name, image.partitions)
        self._make_missing_logs(mine, image, is_new=False)
        self._serve(mine, image, high_watermarks)
        self._show(image.name)

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's config has changed, and with it that of every topic that does not have its own."""
        self._config = config
        self._default_log_config = None
        self._log_manager.update_configs({image.name: self._log_config_of(image) for image in self._images.values()})

    def _remove(self, name: str, partitions: Iterable[int], on_removed: Callable[[], None]) -> None:
        """Hide the topic from clients, then put its files out of the way."""
        self._images.pop(name, None)
        self._in_making.pop(name, None)
        self._cache.remove_topic(name)
        removed = [TopicPartition(name, partition) for partition in sorted(partitions)]
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
                self._log_manager.sync_dirs(on_part_removed)

        delete_from(0)

    def _log_config_of(self, image: TopicImage) -> LogConfig:
        if image.configs:
            return log_config_of(TopicConfig.of_stored(image.configs, self._config)[0])
        if self._default_log_config is None:  # most topics have no config of their own
            self._default_log_config = log_config_of(TopicConfig({}, self._config))
        return self._default_log_config

    def _partitions_here(self, name: str, partitions: Mapping[int, PartitionState]) -> list[TopicPartition]:
        mine = (partition for partition, state in partitions.items() if self._broker_id in state.replicas)
        return [TopicPartition(name, partition) for partition in mine]

    def _serve(
        self, mine: list[TopicPartition], image: TopicImage, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> None:
        for topic_partition in mine:
            log = self._log_manager.get(topic_partition)
            if log is None:
                self._replicas.add_unavailable(topic_partition)
            else:
                self._replicas.add(
                    topic_partition,
                    topic_id=image.topic_id,
                    log=log,
                    state=image.partitions[topic_partition.partition],
                    high_watermark=high_watermarks.get(topic_partition),
                )

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
