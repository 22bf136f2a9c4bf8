"""One broker as a part of a process: a core with sockets, threads and the machine's own files behind its ports."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from random import SystemRandom
from typing import TYPE_CHECKING

from ottla.broker.background import ThreadBackground
from ottla.broker.cluster_join import StoreFailed
from ottla.broker.core import BrokerCore
from ottla.broker.ports import BrokerPorts
from ottla.broker.steps import Running, Steps
from ottla.controller.tree_loader import TreeError
from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Store, StoreOpenError
from ottla.core.clock import wall_clock_ms
from ottla.core.config.config import BrokerConfig
from ottla.core.config.definition import ConfigError
from ottla.core.exchange import FrameHandler
from ottla.core.operating_system import read_boot_id
from ottla.net.limits import NO_LIMIT, NetworkLimits
from ottla.net.open_file_limit import DescriptorShares, raise_open_file_limit, share_descriptors
from ottla.net.outgoing import OutgoingSockets
from ottla.net.server import Server
from ottla.storage.duplicate_logs import DuplicateLog
from ottla.storage.log_dirs import LogDirLocked
from ottla.storage.meta_properties import ForeignLogDir
from ottla.storage.real_disk import RealDisk

if TYPE_CHECKING:
    from ottla.broker.metrics.broker_metrics import BrokerMetrics
    from ottla.broker.metrics.snapshot import Sources

_LOG = logging.getLogger("ottla.broker")

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
    """`start` once, `stop` once; `failed` is set when it can't go on (its last log directory is gone)."""

    core: BrokerCore  # from the start on

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._loop = loop
        self._started = AsyncExitStack()
        self.failed = asyncio.Event()
        self._sources: Sources | None = None
        self._metrics: BrokerMetrics | None = None

    @property
    def metrics_address(self) -> str | None:
        """Where metrics and health are shown; None when they are not."""
        return None if self._metrics is None else self._metrics.address

    async def start(self) -> None:
        """Serve clients when this returns; raises StartFailed with everything stopped again."""
        try:
            await self._start()
        except BaseException as error:
            await self._started.aclose()
            if isinstance(error, _START_PROBLEMS):
                raise StartFailed(str(error)) from error
            raise

    async def stop(self) -> None:
        """Answer what was started, make everything durable, leave the clean-shutdown marker."""
        await self._started.aclose()
        _LOG.info("broker %d stopped", self.core.broker_id)

    async def _start(self) -> None:
        self._make_core()
        self._start_metrics()
        self._started.callback(self._background.close)
        self._started.push_async_callback(self._stop_core)
        ended = asyncio.Future[None](loop=self._loop)
        running = self._run(self.core.start(), ended)
        try:
            await ended
        finally:
            running.cancel()  # where this task was cancelled: the stop must not find a start that still goes on

    async def _stop_core(self) -> None:
        ended = asyncio.Future[None](loop=self._loop)
        self._run(self.core.stop(), ended)
        await ended

    def _run(self, steps: Steps[None], ended: "asyncio.Future[None]") -> "Running[None]":
        def on_done(_: None, error: Exception | None) -> None:
            if ended.done():
                return  # cancelled
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        return Running(steps, on_done)

    def _make_core(self) -> None:
        self._descriptor_shares = shares = self._share_descriptors()
        self._background = ThreadBackground(self._loop, threads=self._config.get_int("background.threads"))
        if self._config.get_optional_str("ottla.metrics.listen") is not None:
            from ottla.broker.metrics.snapshot import Sources  # a broker without metrics pays nothing for them

            self._sources = Sources()
        ports = BrokerPorts(
            loop=self._loop,
            clock=wall_clock_ms,
            background=self._background,
            disk=RealDisk(on_out_of_descriptors=lambda: self.core.log_manager.evict_open_files()),
            random=SystemRandom(),
            open_store=self._open_store,
            open_network=self._open_network,
            on_failed=self.failed.set,
            host_name=socket.gethostname(),
            open_files_max=shares.cached_files_max,
            locks_log_dirs=True,
            boot_id=read_boot_id(),
            links=OutgoingSockets(self._loop, self._background.executor),
        )
        self.core = BrokerCore(self._config, ports, self._sources)

    def _share_descriptors(self) -> DescriptorShares:
        """Neither connections nor segments may take the descriptors that the other needs."""
        wanted = self._config.get_int("ottla.segment.open.files.max")
        limit = raise_open_file_limit()
        shares = share_descriptors(limit, cached_files_max=wanted) or DescriptorShares(NO_LIMIT, wanted)
        if shares.cached_files_max < wanted:
            _LOG.warning(
                "the limit of open files is %d: at most %d connections, and %d files of segments are kept open",
                limit,
                *shares,
            )
        return shares

    def _start_metrics(self) -> None:
        listen = self._config.get_optional_str("ottla.metrics.listen")
        if listen is None or self._sources is None:
            return
        from ottla.broker.metrics.broker_metrics import BrokerMetrics

        self._metrics = BrokerMetrics(
            self.core,
            self._sources,
            self._loop,
            listen=listen,
            health_timeout_ms=self._config.get_int("ottla.health.timeout.ms"),
            with_partitions=self._config.get_bool("ottla.metrics.partitions"),
        )
        self._metrics.start()
        self._started.callback(self._metrics.stop)

    def _open_store(self) -> Store:
        path = self._config.coordination_path
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return EmbeddedStore(path, post=self._post)

    def _post(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def _open_network(self, handler: FrameHandler, limits: NetworkLimits) -> Server:
        server = Server(
            self._loop,
            handler,
            limits,
            self._background.executor,
            descriptors_max=self._descriptor_shares.connections_max,
        )
        if self._sources is not None:
            self._sources.server = server
        return server
