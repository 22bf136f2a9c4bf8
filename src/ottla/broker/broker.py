"""The composition root: starts the rooms in Kafka's order, wires them, and stops them in the reverse order.

It owns everything that has a life of its own (threads, sockets, timers, the store). A step that was started puts its
undoing on one stack: a failure on the way and a clean stop both unwind it.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from random import SystemRandom
from typing import TYPE_CHECKING

from ottla.broker.advertising import advertised_endpoints, derived_configs, registration_of
from ottla.broker.api import Dispatcher
from ottla.broker.background import ThreadBackground
from ottla.broker.cluster_join import ClusterJoin, StoreFailed, ask
from ottla.broker.config_effects import ConfigEffects
from ottla.broker.handlers.served import serve_all
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.local_topics import LocalTopics
from ottla.broker.log_settings import network_limits_of
from ottla.broker.log_start import load_logs
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.states import BrokerState
from ottla.broker.stored_configs import log_unusable_topic_configs, read_broker_configs, with_stored
from ottla.broker.timers import Timers
from ottla.broker.unfinished_deletions import finish_deletions
from ottla.controller.config_nodes import ConfigNodes
from ottla.controller.configs import Configs
from ottla.controller.election import Election, ElectionResult
from ottla.controller.topics import Topics
from ottla.controller.tree_loader import TreeError, TreeLoader
from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Store, StoreOpenError
from ottla.core.clock import Background, wall_clock_ms
from ottla.core.cluster import OFFSETS_TOPIC, BrokerInfo, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.config.definition import ConfigError
from ottla.core.config.listeners import Listener
from ottla.core.types import TopicPartition
from ottla.net.limits import NO_LIMIT
from ottla.net.open_file_limit import DescriptorShares, raise_open_file_limit, share_descriptors
from ottla.net.server import Server
from ottla.purgatory.purgatory import Purgatory
from ottla.replication.replicas import Replicas, Waiting
from ottla.storage.duplicate_logs import DuplicateLog
from ottla.storage.flush import Flusher
from ottla.storage.log import Log
from ottla.storage.log_dirs import LogDirLocked
from ottla.storage.log_manager import LogManager
from ottla.storage.logs_by_dir import topic_partition_of
from ottla.storage.meta_properties import ForeignLogDir, MetaProperties
from ottla.storage.real_disk import RealDisk

if TYPE_CHECKING:
    from ottla.broker.group_coordination import GroupCoordination
    from ottla.broker.metrics.broker_metrics import BrokerMetrics

_LOG = logging.getLogger("ottla.broker")

_DRAIN_MS = 5_000

# What a person can put right; anything else that ends a start is a bug and shows its traceback.
_START_PROBLEMS = (
    OSError,
    StoreOpenError,
    StoreFailed,
    TreeError,
    MalformedNodeError,
    LogDirLocked,
    ForeignLogDir,
    DuplicateLog,
    ConfigError,
)


class StartFailed(Exception):
    """The broker could not start; the message says why and what to do."""


class Broker:
    """One broker. `start` once, `stop` once; `failed` is set when it can't go on (its last log directory is gone)."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._loop = loop
        self._clock = wall_clock_ms
        self._started = AsyncExitStack()
        self.broker_id = config.get_int("broker.id")
        self.cluster_id = ""
        self.address = ""
        self.state = BrokerState.NOT_RUNNING
        self.failed = asyncio.Event()
        self.is_accepting = False
        self._loading: asyncio.Future[list[str]] | None = None
        self._waiting: Waiting | None = None
        self._groups: GroupCoordination | None = None
        self._metrics: BrokerMetrics | None = None

    @property
    def metrics_address(self) -> str | None:
        """Where metrics and health are shown; None when they are not."""
        return None if self._metrics is None else self._metrics.address

    @property
    def fatal_reason(self) -> str | None:
        """Why the broker can't go on; None while it can."""
        return "no log directory is left" if self.failed.is_set() else None

    async def start(self) -> None:
        """Serve clients when this returns; raises StartFailed with everything stopped again."""
        try:
            await self._start()
        except _START_PROBLEMS as error:
            await self._started.aclose()
            self.state = BrokerState.NOT_RUNNING
            raise StartFailed(str(error)) from error
        except BaseException:
            await self._started.aclose()
            raise

    async def stop(self) -> None:
        """Answer what was started, make everything durable, leave the clean-shutdown marker."""
        self.state = BrokerState.SHUTTING_DOWN
        self.is_accepting = False
        await self._started.aclose()
        self.state = BrokerState.NOT_RUNNING
        _LOG.info("broker %d stopped", self.broker_id)

    async def _start(self) -> None:
        self.state = BrokerState.STARTING
        self._share_descriptors()
        self._start_metrics()
        self._start_scheduler()
        self._open_store()
        join = ClusterJoin(self._loop, self._store, os.urandom)
        await join.make_persistent_nodes()
        self.cluster_id = await join.cluster_id()
        await self._load_dynamic_config()
        images = await self._load_tree()
        await self._open_logs(images)
        bound = self._bind()
        self._make_replicas(images)
        await self._make_names_durable()
        await self._become_controller(images)
        self._maybe_start_groups()
        self._make_handlers()
        await self._register(join, bound)
        self._start_housekeeping()
        self._server.start_accepting()
        self.is_accepting = True

    def _share_descriptors(self) -> None:
        """Neither connections nor segments may take the descriptors that the other needs."""
        wanted = self._config.get_int("ottla.segment.open.files.max")
        limit = raise_open_file_limit()
        shares = share_descriptors(limit, cached_files_max=wanted) or DescriptorShares(NO_LIMIT, wanted)
        self._descriptor_shares = shares
        if shares.cached_files_max < wanted:
            _LOG.warning(
                "the limit of open files is %d: at most %d connections, and %d files of segments are kept open",
                limit,
                *shares,
            )

    def _start_metrics(self) -> None:
        listen = self._config.get_optional_str("ottla.metrics.listen")
        if listen is None:
            return
        from ottla.broker.metrics.broker_metrics import BrokerMetrics  # a broker without metrics pays nothing for them

        self._metrics = BrokerMetrics(
            self,
            self._loop,
            listen=listen,
            health_timeout_ms=self._config.get_int("ottla.health.timeout.ms"),
            with_partitions=self._config.get_bool("ottla.metrics.partitions"),
        )
        self._metrics.start()
        self._started.callback(self._metrics.stop)

    def _show_in_metrics(self) -> None:
        """From here on a scrape finds every room."""
        if self._metrics is not None:
            self._metrics.sources.show(
                server=self._server,
                logs=self._log_manager,
                replicas=self._replicas,
                cache=self._cache,
                wheel=self._timers.wheel,
                coordinator=self._start_groups().coordinator,
            )

    def _start_scheduler(self) -> None:
        self._timers = Timers(self._loop)
        self._started.callback(self._timers.close)
        self._background = ThreadBackground(self._loop, threads=self._config.get_int("background.threads"))
        self._started.callback(self._background.close)

    def _open_store(self) -> None:
        path = self._config.coordination_path
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._store: Store = EmbeddedStore(path, post=self._post)
        if self._metrics is not None:
            self._store = self._metrics.measured_store(self._store)
        self._started.callback(self._store.close)

    def _post(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(callback)

    async def _load_dynamic_config(self) -> None:
        """From here on the config has what was changed while brokers ran."""
        self._stored_configs = await read_broker_configs(self._loop, self._store, self.broker_id)
        self._config = with_stored(self._config, self._stored_configs)
        self._background.resize(self._config.get_int("background.threads"))

    async def _load_tree(self) -> dict[str, TopicImage]:
        images = await ask(self._loop, lambda on_loaded: TreeLoader(self._store, on_loaded).start())
        if isinstance(images, TreeError):
            raise images
        assert isinstance(images, dict)
        return images

    async def _open_logs(self, images: dict[str, TopicImage]) -> None:
        config = self._config
        self.state = BrokerState.RECOVERING
        self._disk = RealDisk(let_go_of_open_files=lambda: self._log_manager.let_go_of_open_files())
        self._log_manager = LogManager(
            self._disk,
            config.log_dirs,
            on_dir_failed=self._on_dir_failed,
            background=self._background,
            call_soon=self._loop.call_soon,
            producer_expiration_ms=config.get_int("producer.id.expiration.ms"),
            open_files_max=self._descriptor_shares.cached_files_max,
        )
        self._started.push_async_callback(self._close_logs)
        self._log_manager.open(MetaProperties(self.broker_id, self.cluster_id))
        log_unusable_topic_configs(images.values(), config)
        self._loading = self._loop.run_in_executor(
            None, load_logs, self._log_manager, images.values(), config, self._clock
        )
        notes = await asyncio.shield(self._loading)
        for note in notes:
            _LOG.warning("%s", note)
        background: Background = self._background
        self._flusher = Flusher(
            background if self._metrics is None else self._metrics.measured_flushes(background),
            clock=self._clock,
            call_soon=self._loop.call_soon,
            on_flushed=self._on_flushed,
            on_failed=self._log_manager.fail_log,
        )
        self._started.callback(self._flusher.stop)

    async def _close_logs(self) -> None:
        """Wait for what threads do, then flush and close everything on one."""
        if self._loading is not None:
            await asyncio.wait([self._loading])  # a start that was cut short does not end its thread
        await self._loop.run_in_executor(None, self._background.close)
        await self._loop.run_in_executor(None, lambda: self._log_manager.shutdown(self._clock()))

    def _bind(self) -> tuple[Listener, ...]:
        limits = network_limits_of(self._config)
        metrics = self._metrics
        self._dispatcher = Dispatcher(self._clock) if metrics is None else metrics.dispatcher(self._clock)
        self._server = Server(
            self._loop,
            self._dispatcher,
            limits,
            self._background.executor,
            descriptors_max=self._descriptor_shares.connections_max,
        )
        self._started.push_async_callback(self._stop_server)
        bound = self._server.bind(self._config.listeners())
        self.address = f"{bound[0].host or '127.0.0.1'}:{bound[0].port}"
        self._endpoints = advertised_endpoints(self._config, bound)
        self._config = self._config.with_derived(derived_configs(self._config, bound, self._endpoints))
        return bound

    async def _stop_server(self) -> None:
        if self._waiting is not None:  # not yet, when the start failed before there were any
            self._waiting.fetches.force_complete_all()  # a long poll would hold the stop for as long as it waits
        stopped = self._loop.create_future()
        self._server.stop(drain_ms=_DRAIN_MS, on_stopped=lambda: stopped.set_result(None))
        await stopped

    def _make_replicas(self, images: dict[str, TopicImage]) -> None:
        timers = self._timers
        wheel = timers.wheel
        self._fetches = Purgatory(wheel, on_mark=self._plan_completion)
        waiting = Waiting(
            produces=Purgatory(wheel),
            fetches=self._fetches,
            deletions=Purgatory(wheel),
            topic_changes=Purgatory(wheel),
            now_ms=timers.now_ms,
            arm=timers.arm,
        )
        self._replicas = Replicas(
            waiting,
            broker_id=self.broker_id,
            request_flush=self._flusher.request,
            report_storage_error=self._log_manager.fail_log,
        )
        self._waiting = waiting
        self._cache = MetadataCache(self.cluster_id)
        self._local_topics = LocalTopics(
            self._log_manager,
            self._replicas,
            self._cache,
            self._config,
            broker_id=self.broker_id,
            clock=self._clock,
            forget_log=self._flusher.forget,
            call_soon=self._loop.call_soon,
        )
        high_watermarks, notes = self._log_manager.read_high_watermarks()
        for note in notes:
            _LOG.warning("%s", note)
        for image in images.values():
            self._local_topics.apply_loaded(image, high_watermarks)

    async def _make_names_durable(self) -> None:
        """Folders that had to be made anew for topics of the store: nothing may be acknowledged in them before."""
        manager = self._log_manager
        await ask(self._loop, lambda on_done: manager.make_names_durable(lambda: on_done(None)))

    def _plan_completion(self) -> None:
        self._loop.call_soon(self._fetches.complete_marked)

    async def _become_controller(self, images: dict[str, TopicImage]) -> None:
        election = Election(self._store, broker_id=self.broker_id, clock=self._clock)
        result: ElectionResult = await ask(self._loop, election.run)
        if result.problem is not None:
            raise StoreFailed(result.problem)
        self._cache.controller_id = result.controller_id
        self._topics = Topics(
            self._store,
            self._config,
            self._local_topics,
            random_bytes=os.urandom,
            live_brokers=lambda: list(self._cache.brokers),
            controller_epoch=lambda: result.epoch,
            ignores_case=self._log_manager.ignores_case(),
        )
        for image in images.values():
            self._topics.put_loaded(image)
        await finish_deletions(self._loop, self._store, self._topics)
        await self._make_configs_changeable()

    async def _make_configs_changeable(self) -> None:
        effects = ConfigEffects(
            self._topics,
            self._local_topics,
            self._log_manager,
            resize_threads=self._background.resize,
            update_connection_limits=self._server.update_connection_limits,
        )
        self._current_config = CurrentConfig(self._config)
        self._current_config.add_listener(effects.apply)
        nodes = ConfigNodes(self._store, self._clock)
        await ask(self._loop, lambda on_done: nodes.load_notes(lambda: on_done(None)))
        self._configs = Configs(
            nodes,
            self._topics,
            self._current_config,
            self._local_topics,
            broker_id=self.broker_id,
            stored=self._stored_configs,
        )

    def _maybe_start_groups(self) -> None:
        """A broker that never had a group starts without; the first request of one makes up for it."""
        if OFFSETS_TOPIC in self._cache.topics:
            self._start_groups()

    def _start_groups(self) -> "GroupCoordination":
        """Loads in the background what there is; groups whose share is not loaded yet are told to come again."""
        if self._groups is not None:
            return self._groups
        from ottla.broker.group_coordination import make_group_coordination

        groups = self._groups = make_group_coordination(
            self._config,
            replicas=self._replicas,
            log_manager=self._log_manager,
            flusher=self._flusher,
            cache=self._cache,
            topics=self._topics,
            background=self._background,
            clock=self._clock,
            timers=self._timers,
            call_soon=self._loop.call_soon,
            random_bytes=os.urandom,
        )
        # Whoever waits for a group is answered before the server waits for its answers to be sent.
        self._started.callback(groups.coordinator.stop)
        self._local_topics.on_topic_deleted.append(groups.offsets_topic.on_topic_deleted)
        groups.offsets_topic.maybe_start()
        expiry_interval_ms = self._config.get_int("offsets.retention.check.interval.ms")
        self._started.callback(self._timers.every(expiry_interval_ms, groups.coordinator.expire).stop)
        return groups

    def _make_handlers(self) -> None:
        self._show_in_metrics()
        serve_all(
            self._dispatcher,
            config=self._config,
            replicas=self._replicas,
            cache=self._cache,
            topics=self._topics,
            groups=self._start_groups,
            log_manager=self._log_manager,
            producer_ids=ProducerIds(self._store, self.broker_id),
            background=self._background,
            clock=self._clock,
            random=SystemRandom(),
            metrics=None if self._metrics is None else self._metrics.sources,
            configs=self._configs,
            current=self._current_config,
        )

    async def _register(self, join: ClusterJoin, bound: tuple[Listener, ...]) -> None:
        endpoints = self._endpoints
        self._cache.put_brokers([BrokerInfo(self.broker_id, endpoints, self._config.get_optional_str("broker.rack"))])
        await join.register(self.broker_id, registration_of(self._config, bound, endpoints, self._clock()))
        is_controller = self._cache.controller_id == self.broker_id
        self.state = BrokerState.RUNNING_AS_CONTROLLER if is_controller else BrokerState.RUNNING

    def _start_housekeeping(self) -> None:
        housekeeping = Housekeeping(
            self._timers,
            self._log_manager,
            self._flusher,
            self._replicas,
            self._config,
            disk=self._disk,
            background=self._background,
            clock=self._clock,
        )
        housekeeping.start()
        self._started.callback(housekeeping.stop)

    def _on_flushed(self, log: Log) -> None:
        self._replicas.on_flushed(topic_partition_of(log))

    def _on_dir_failed(self, directory: str, partitions: list[TopicPartition], reason: str) -> None:
        _LOG.error("log directory %s is offline with %d partitions: %s", directory, len(partitions), reason)
        if self._waiting is not None:  # before there are replicas, none is served from that directory
            self._replicas.take_offline(partitions)
        if self._groups is not None:
            # Not at once: it may be one of their own appends that failed, and they are in the middle of it.
            self._loop.call_soon(self._groups.take_offline, partitions)
        if not self._log_manager.online_directories:
            _LOG.critical("no log directory is left; the broker stops")
            self.failed.set()
