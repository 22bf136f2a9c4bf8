"""A broker among others: it follows what they lead, says who is in sync, hears of configs that they change, and takes
part in electing the controller. A broker alone has none of this, and never imports it.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.broker.cluster_join import store_failed
from ottla.broker.config_watch import ConfigWatch
from ottla.broker.control_link import ControlLinks
from ottla.broker.isr_store import IsrStore
from ottla.broker.leaving import LeavingPorts, leave
from ottla.broker.local_topics import LocalTopics
from ottla.broker.lossy_start import Loss, LossyStart, find_losses, log_losses
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.ports import BrokerPorts
from ottla.broker.registration import Registration
from ottla.broker.replica_links import ReplicaLinks, fetcher_settings_of
from ottla.broker.steps import Answer, ask
from ottla.broker.timers import Timers
from ottla.controller.controller import Controller
from ottla.controller.state import StoredBrokerConfigs
from ottla.coordination import paths
from ottla.coordination.store import Code, Result, Store
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.control import ControlledShutdown
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicPartition
from ottla.replication.fetcher import FetcherPorts
from ottla.replication.fetchers import ReplicaFetchers
from ottla.replication.ports import ClusterPorts
from ottla.replication.replicas import Replicas
from ottla.storage.log_manager import LogManager

# Each looks only at partitions whose last write of in-sync replicas failed; all of them are looked at more rarely.
_ISR_INTERVAL_MS: Final = 500
_NOTE_AGAIN_MS: Final = 1_000


class _Rooms(NamedTuple):
    """The rooms of the broker that live on the cluster."""

    replicas: Replicas
    cache: MetadataCache
    local_topics: LocalTopics
    log_manager: LogManager


class Membership:
    """Made by the core once its store is open, before its replicas; event loop only."""

    def __init__(self, store: Store, ports: BrokerPorts, timers: Timers, *, broker_id: BrokerId) -> None:
        self._store = store
        self._ports = ports
        self._timers = timers
        self._broker_id = broker_id
        self._rooms: _Rooms | None = None
        self._losses: list[Loss] = []
        self._is_left = False
        self._picture: Answer[None] = Answer()
        self._has_picture = False
        self.controller: Controller  # set by the core, which makes it for a broker alone, too

    # Before it is a member

    async def last_epoch(self) -> BrokerEpoch:
        """Of the last life's registration."""
        result: Result = await ask(self._store.exists, paths.broker_epoch_path(self._broker_id))
        if result.stat is not None:
            return result.stat.version
        if result.code != Code.NO_NODE:
            raise store_failed("reading", result)
        return NO_BROKER_EPOCH

    def find_losses(self, log_manager: LogManager, images: Iterable[TopicImage]) -> None:
        """Which replicas may have lost what other brokers count on."""
        self._losses = find_losses(log_manager, images, self._broker_id)
        log_losses(self._losses)

    async def leave_lossy(self, log_manager: LogManager, registration: Registration) -> None:
        """Nothing lossy may be taken for in sync when the broker registers."""
        if not all(loss.is_sole for loss in self._losses):
            # Not earlier: a broker that was given a live one's id by mistake must change nothing.
            await registration.wait_for_free_id()
            await LossyStart(self._store, self._broker_id, self._timers.call_later).leave(self._losses)
        log_manager.confirm_loss()

    def replication_ports(self, config: BrokerConfig) -> ClusterPorts:
        """What `Replicas` gets; it is used from `join` on."""
        isr_store = IsrStore(
            self._store,
            controller_epoch=lambda: self._joined.local_topics.fence.controller_epoch,
            call_later=self._timers.call_later,
        )
        return ClusterPorts(isr_store, self._live_epoch, config.get_int("replica.lag.time.max.ms"))

    @property
    def _joined(self) -> _Rooms:
        assert self._rooms is not None
        return self._rooms

    def _live_epoch(self, broker_id: BrokerId) -> BrokerEpoch | None:
        broker = self._joined.cache.brokers.get(broker_id)
        return None if broker is None else broker.epoch

    def join(
        self,
        replicas: Replicas,
        cache: MetadataCache,
        local_topics: LocalTopics,
        log_manager: LogManager,
        config: BrokerConfig,
    ) -> None:
        """Follow and lead as the controller says, from its first request on."""
        self._rooms = rooms = _Rooms(replicas, cache, local_topics, log_manager)
        self._config = config
        ports = self._ports
        links = ReplicaLinks(config, broker_id=self._broker_id, loop=ports.links, random=ports.random)
        self._fetchers = fetchers = ReplicaFetchers(
            rooms.replicas.partitions,
            open_channel=links.open,
            settings=fetcher_settings_of(config),
            ports=FetcherPorts(
                self._broker_id,
                lambda: local_topics.fence.broker_epoch,
                ports.clock,
                ports.links,
                ports.random,
                rooms.log_manager.await_truncation,
            ),
        )
        local_replicas = local_topics.local_replicas
        local_replicas.on_following.append(fetchers.on_following)
        local_replicas.on_leading.append(fetchers.on_leading)
        local_replicas.on_stopped.append(lambda topic_partition, _: fetchers.remove(topic_partition))
        local_topics.on_metadata.append(self._on_metadata)
        self.control_links = ControlLinks(
            ports.links,
            broker_id=self._broker_id,
            listener_name=config.inter_broker_listener_name(),
            handle_here=local_topics.handle,
            request_timeout_ms=config.get_int("controller.socket.timeout.ms"),
            random=ports.random,
        )
        self._isr_timer = self._timers.every(_ISR_INTERVAL_MS, rooms.replicas.shrink_isrs)

    def watch_configs(self, on_broker: Callable[[StoredBrokerConfigs], None]) -> None:
        """Hear of configs that were changed at other brokers."""

        def on_topic(topic: str, configs: dict[str, str]) -> None:
            self._joined.local_topics.use_topic_config(topic, configs)
            self.controller.topic_config_changed(topic, configs)

        self._config_watch = ConfigWatch(
            self._store, self._broker_id, on_topic=on_topic, on_broker=on_broker, call_later=self._timers.call_later
        )
        self._config_watch.go_on()

    # While it is a member

    async def first_picture(self) -> None:
        """Until the controller has said what this broker leads and follows."""
        if not self._has_picture:
            await self._picture

    def _on_metadata(self) -> None:
        cache = self._joined.cache
        self._fetchers.update_brokers(cache.brokers.values())
        if cache.brokers and not self._has_picture:
            self._has_picture = True
            self._picture.give(None)

    def on_flushed(self, topic_partition: TopicPartition) -> None:
        self._fetchers.on_flushed(topic_partition)

    def on_dir_failed(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Have them led elsewhere."""
        for topic_partition in topic_partitions:
            self._fetchers.remove(topic_partition)
        self._note_failed_dir()

    def _note_failed_dir(self) -> None:
        def on_noted(result: Result) -> None:
            if not result.is_ok and not self._is_left:
                self._timers.call_later(_NOTE_AGAIN_MS, self._note_failed_dir)

        value = paths.encode_log_dir_event(self._broker_id)
        self._store.create(paths.LOG_DIR_EVENT_PREFIX, value, on_noted, sequential=True)

    # Leaving

    async def leave(self, broker_epoch: BrokerEpoch) -> None:
        """Ask the controller to have others lead what this broker leads."""
        rooms = self._joined
        ports = LeavingPorts(
            self.control_links.send_shutdown, self.controller.controlled_shutdown, self._timers.call_later
        )
        await leave(ControlledShutdown(self._broker_id, broker_epoch), self._config, rooms.cache, ports)

    def stop(self) -> None:
        """Nothing is fetched, sent or controlled any more."""
        self._is_left = True
        self._isr_timer.stop()
        self._fetchers.stop()
        self.controller.close()
        self._config_watch.stop()
        self.control_links.close()
