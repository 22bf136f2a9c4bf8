"""The logs of this broker's replicas, made and removed as its topics need them: a few in each turn of the loop.

`LocalTopics` says which; it knows states and leaders, this knows folders and configs.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.broker.log_settings import log_config_of
from ottla.core.clock import Clock
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.errors import StorageError
from ottla.core.types import TopicPartition
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager

_LOG = logging.getLogger("ottla.topics")

# Folders made or renamed in one turn of the loop, some milliseconds: a topic of thousands must not delay others.
LOGS_PER_TURN = 20


class WantedLog(NamedTuple):
    """A log that must be there. `is_new`: nobody has ever appended to it, so that it is missing says nothing."""

    topic_partition: TopicPartition
    topic_id: bytes
    is_new: bool


class LocalLogs:
    """Owned by `LocalTopics`; event loop only."""

    def __init__(
        self,
        log_manager: LogManager,
        config: BrokerConfig,
        *,
        configs_of: Callable[[str], Mapping[str, str]],
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """`configs_of` says what is set for a topic now: that may change while its logs are being made."""
        self._log_manager = log_manager
        self._config = config
        self._configs_of = configs_of
        self._clock = clock
        self._call_soon = call_soon
        self._default_log_config: LogConfig | None = None

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self._log_manager.get(topic_partition)

    def use_config(self, config: BrokerConfig, images: Iterable[TopicImage]) -> None:
        """The broker's config has changed, and with it that of every topic that does not have its own."""
        self._config = config
        self._default_log_config = None
        self._log_manager.update_configs({image.name: self._log_config_of(image.configs) for image in images})

    def use_topic_config(self, topic: str, configs: Mapping[str, str]) -> None:
        self._log_manager.update_config(topic, self._log_config_of(configs))

    def make_missing(self, wanted: Iterable[WantedLog]) -> bool:
        """Make the logs that are not there. Whether any was: it must be durable before anything is acknowledged in it.

        A log that is missing though it was there before is not made while a log directory is offline: it may be in
        there, and an empty one in its place would hide that.
        """
        manager = self._log_manager
        missing = []
        for log in wanted:
            topic_partition = log.topic_partition
            if manager.is_offline(topic_partition):
                continue
            if manager.get(topic_partition) is None:
                if log.is_new or not manager.offline_directories:
                    missing.append(log)
                continue
            found_id = manager.topic_id_of(topic_partition)
            if found_id is None:
                manager.assign_topic_id(topic_partition, log.topic_id)
            elif found_id != log.topic_id:
                # The data of another topic that had this name; it must not be served as this one's.
                self.set_aside(topic_partition, "belongs to an older topic of this name")
                missing.append(log)
        for log in missing:
            if not log.is_new:
                _LOG.warning("%s: its log is missing; an empty one is made", log.topic_partition)
            try:
                config = self._log_config_of(self._configs_of(log.topic_partition.topic))
                manager.create_log(log.topic_partition, log.topic_id, config, self._clock())
            except StorageError as error:
                # Something is in its way, or no directory is online: this one is served with error 56.
                _LOG.error("topic %s: %s", log.topic_partition.topic, error)
        return bool(missing)

    def make_durably(self, wanted: list[WantedLog], on_durable: Callable[[], None]) -> None:
        """As `make_missing`, for any number of logs. Calls back when those that were made are durable."""
        made_any = False

        def make_from(start: int) -> None:
            nonlocal made_any
            end = start + LOGS_PER_TURN
            made_any = self.make_missing(wanted[start:end]) or made_any
            if end < len(wanted):
                self._call_soon(lambda: make_from(end))
            elif made_any:
                self._log_manager.sync_dirs(on_durable)
            else:
                on_durable()

        make_from(0)

    def delete_durably(self, topic_partitions: list[TopicPartition], on_deleted: Callable[[], None]) -> None:
        """Put the folders out of the way; calls back when a crash can't bring them back."""

        def delete_from(start: int) -> None:
            end = start + LOGS_PER_TURN
            self._log_manager.delete_logs(topic_partitions[start:end], self._clock())
            if end < len(topic_partitions):
                self._call_soon(lambda: delete_from(end))
            else:
                self._log_manager.sync_dirs(on_deleted)

        delete_from(0)

    def set_aside(self, topic_partition: TopicPartition, why: str) -> None:
        """The folder of a log that is not wanted here goes out of the way and stays, for people to look at."""
        stray = self._log_manager.set_aside(topic_partition)
        _LOG.warning("%s: %s, set aside as %s", topic_partition, why, stray)

    def _log_config_of(self, configs: Mapping[str, str]) -> LogConfig:
        if configs:
            return log_config_of(TopicConfig.of_stored(configs, self._config)[0])
        if self._default_log_config is None:  # most topics have no config of their own
            self._default_log_config = log_config_of(TopicConfig({}, self._config))
        return self._default_log_config
