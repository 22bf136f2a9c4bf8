"""The composition root: starts the rooms in Kafka's order, wires them, and stops them in the reverse order.

It owns everything that has a life of its own (threads, sockets, timers, the store). A step that was started puts its
undoing on one stack: a failure on the way and a clean stop both unwind it.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from random import SystemRandom

from ottla.broker.api import Dispatcher
from ottla.broker.background import ThreadBackground
from ottla.broker.cluster_join import ClusterJoin, StoreFailed, ask
from ottla.broker.handlers.served import serve_all
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.local_topics import LocalTopics
from ottla.broker.log_settings import log_config_of, network_limits_of
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.states import BrokerState
from ottla.broker.timers import Timers
from ottla.controller.election import Election, ElectionResult
from ottla.controller.topics import Topics
from ottla.controller.tree_loader import TreeError, TreeLoader
from ottla.coordination import paths
from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import ANY_VERSION, StoreOpenError
from ottla.core.clock import wall_clock_ms
from ottla.core.cluster import BrokerEndpoint, BrokerInfo, TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.config.definition import ConfigError
from ottla.core.config.listeners import Listener
from ottla.core.errors import StorageError
from ottla.core.types import TopicPartition
from ottla.net.open_file_limit import raise_open_file_limit
from ottla.net.server import Server
from ottla.purgatory.purgatory import Purgatory
from ottla.replication.replicas import Replicas, Waiting
from ottla.storage.flush import Flusher
from ottla.storage.log import Log
from ottla.storage.log_dirs import LogDirLocked
from ottla.storage.log_manager import DuplicateLog, LogManager
from ottla.storage.logs_by_dir import topic_partition_of
from ottla.storage.meta_properties import ForeignLogDir, MetaProperties
from ottla.storage.real_disk import RealDisk

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
        self._waiting: Waiting | None = None

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
        await self._started.aclose()
        self.state = BrokerState.NOT_RUNNING
        _LOG.info("broker %d stopped", self.broker_id)

    async def _start(self) -> None:
        self.state = BrokerState.STARTING
        raise_open_file_limit()
        self._start_scheduler()
        self._open_store()
        join = ClusterJoin(self._loop, self._store, os.urandom)
        await join.make_persistent_nodes()
        self.cluster_id = await join.cluster_id()
        images = await self._load_tree()
        await self._open_logs(images)
        bound = self._bind()
        self._make_replicas(images)
        await self._make_names_durable()
        await self._become_controller(images)
        self._make_handlers()
        await self._register(join, bound)
        self._start_housekeeping()
        self._server.start_accepting()

    def _start_scheduler(self) -> None:
        self._timers = Timers(self._loop)
        self._started.callback(self._timers.close)
        self._background = ThreadBackground(self._loop, threads=self._config.get_int("background.threads"))
        self._started.callback(self._background.close)

    def _open_store(self) -> None:
        path = self._config.coordination_path
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._store = EmbeddedStore(path, post=self._post)
        self._started.callback(self._store.close)

    def _post(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(callback)

    async def _load_tree(self) -> dict[str, TopicImage]:
        images = await ask(self._loop, lambda on_loaded: TreeLoader(self._store, on_loaded).start())
        if isinstance(images, TreeError):
            raise images
        assert isinstance(images, dict)
        return images

    async def _open_logs(self, images: dict[str, TopicImage]) -> None:
        config = self._config
        self.state = BrokerState.RECOVERING
        self._disk = RealDisk()
        self._log_manager = LogManager(
            self._disk,
            config.log_dirs,
            on_dir_failed=self._on_dir_failed,
            background=self._background,
            producer_expiration_ms=config.get_int("producer.id.expiration.ms"),
            open_files_max=config.get_int("ottla.segment.open.files.max"),
        )
        self._log_manager.open(MetaProperties(self.broker_id, self.cluster_id))
        self._started.push_async_callback(self._close_logs)
        defaults = log_config_of(TopicConfig.parse({}, config))
        configs = {name: log_config_of(TopicConfig.parse(image.configs, config)) for name, image in images.items()}

        def load() -> list[str]:
            threads = config.get_int("num.recovery.threads.per.data.dir") * len(config.log_dirs)
            with ThreadPoolExecutor(threads, "ottla-recovery") as pool:
                notes = self._log_manager.load(
                    self._clock(), config_of=lambda topic: configs.get(topic, defaults), run_all=pool.map
                )
            self._flush_recovered()
            return notes

        notes = await self._loop.run_in_executor(None, load)
        for note in notes:
            _LOG.warning("%s", note)
        self._flusher = Flusher(
            self._background,
            clock=self._clock,
            call_soon=self._loop.call_soon,
            on_flushed=self._on_flushed,
            on_failed=self._log_manager.fail_log,
        )

    def _flush_recovered(self) -> None:
        """What recovery kept may have been acknowledged and read: it has to count again before anybody asks."""
        for log in self._log_manager.logs():
            if log.unflushed_messages >= log.config.flush_messages:
                try:
                    job = log.start_flush()
                    if job is not None:
                        job.run()
                        log.finish_flush(job, now_ms=self._clock())
                except StorageError as error:
                    self._log_manager.fail_log(log, error)

    async def _close_logs(self) -> None:
        """Wait for the fsyncs under way, then flush and close everything on a thread."""
        await self._loop.run_in_executor(None, self._background.close)
        await self._loop.run_in_executor(None, lambda: self._log_manager.shutdown(self._clock()))

    def _bind(self) -> tuple[Listener, ...]:
        limits = network_limits_of(self._config)
        self._dispatcher = Dispatcher(self._clock)
        self._server = Server(self._loop, self._dispatcher, limits, self._background.executor)
        self._started.push_async_callback(self._stop_server)
        bound = self._server.bind(self._config.listeners())
        self.address = f"{bound[0].host or '127.0.0.1'}:{bound[0].port}"
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
        )
        for image in images.values():
            self._topics.put_loaded(image)
        await self._finish_deletions()

    async def _finish_deletions(self) -> None:
        """Topics whose deletion a crash cut off."""
        noted = await ask(self._loop, self._store.children, paths.DELETE_TOPICS)
        for name in noted.children:
            image = self._topics.images.get(name)
            if image is not None:
                fault = await ask(self._loop, self._topics.finish_deletion, image)
                _LOG.info("topic %s: its deletion is finished%s", name, f" ({fault.message})" if fault else "")
            else:
                # A note that outlived its topic would take the next topic of that name away at the next start.
                path = paths.delete_topic_path(name)
                await ask(self._loop, self._store.delete, path, version=ANY_VERSION)

    def _make_handlers(self) -> None:
        serve_all(
            self._dispatcher,
            config=self._config,
            replicas=self._replicas,
            cache=self._cache,
            topics=self._topics,
            producer_ids=ProducerIds(self._store, self.broker_id),
            background=self._background,
            clock=self._clock,
            random=SystemRandom(),
        )

    async def _register(self, join: ClusterJoin, bound: tuple[Listener, ...]) -> None:
        endpoints = self._advertised(bound)
        for_brokers = self._config.inter_broker_listener_name()
        between = next((entry for entry in endpoints if entry.listener_name == for_brokers), endpoints[0])
        self._cache.put_brokers([BrokerInfo(self.broker_id, endpoints, self._config.get_optional_str("broker.rack"))])
        await join.register(
            self.broker_id,
            paths.BrokerRegistration(
                endpoints=tuple(f"{entry.listener_name}://{entry.host}:{entry.port}" for entry in endpoints),
                listener_security_protocol_map={listener.name: listener.security_protocol for listener in bound},
                timestamp_ms=self._clock(),
                rack=self._config.get_optional_str("broker.rack"),
                host=between.host,
                port=between.port,
            ),
        )
        is_controller = self._cache.controller_id == self.broker_id
        self.state = BrokerState.RUNNING_AS_CONTROLLER if is_controller else BrokerState.RUNNING

    def _advertised(self, bound: tuple[Listener, ...]) -> tuple[BrokerEndpoint, ...]:
        """What clients are told, with the ports that the kernel chose."""
        ports = {listener.name: listener.port for listener in bound}
        return tuple(
            BrokerEndpoint(listener.name, listener.host or socket.gethostname(), listener.port or ports[listener.name])
            for listener in self._config.advertised_listeners()
        )

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
        if not self._log_manager.online_directories:
            _LOG.critical("no log directory is left; the broker stops")
            self.failed.set()
