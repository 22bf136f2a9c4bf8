"""What the rooms have counted, copied at one moment into plain values that any thread may read.

Taken on the event loop in small pieces, so that a scrape of many partitions delays no request by more than one piece.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import NamedTuple, Protocol, TypeAlias

from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.metrics.group_figures import CoordinatorFigures
from ottla.broker.metrics.measured_ports import FlushMetrics, MeasuredFlushes, MeasuredStore
from ottla.broker.metrics.requests import MeasuredDispatcher, RequestMetrics
from ottla.broker.states import BrokerState
from ottla.coordination.store import Store
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.clock import Background, Clock
from ottla.core.metrics import Histogram, HistogramReading
from ottla.core.timing_wheel import TimingWheel
from ottla.core.types import TopicPartition
from ottla.net.server import Server
from ottla.purgatory.purgatory import Purgatory
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.log_manager import LogManager
from ottla.storage.log_results import LogFigures

_PARTITIONS_PER_TURN = 250


class BrokerFacts(Protocol):
    """What the exporter asks the broker itself; read from other threads too."""

    broker_id: int
    cluster_id: str
    state: BrokerState
    is_accepting: bool

    @property
    def fatal_reason(self) -> str | None:
        """Why it can't go on; None while it can."""
        ...


class Sources:
    """The rooms of a broker, as far as it has come in its start, and the measured versions of its parts.

    The broker core fills it where metrics are on; `Broker` adds the server.
    """

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self.flushes = FlushMetrics()
        self.loop_lag = Histogram()
        self.store: MeasuredStore | None = None
        self.server: Server | None = None
        self.logs: LogManager | None = None
        self.replicas: Replicas | None = None
        self.cache: MetadataCache | None = None
        self.wheel: TimingWheel | None = None
        self.fetch_sessions: FetchSessions | None = None
        self.groups: CoordinatorFigures | None = None
        self.purgatories: dict[str, Purgatory] = {}

    def dispatcher(self, clock: Clock) -> MeasuredDispatcher:
        return MeasuredDispatcher(clock, self.requests)

    def measured_store(self, store: Store) -> Store:
        self.store = MeasuredStore(store)
        return self.store

    def measured_flushes(self, background: Background) -> Background:
        return MeasuredFlushes(background, self.flushes)

    def show(
        self,
        *,
        logs: LogManager,
        replicas: Replicas,
        cache: MetadataCache,
        wheel: TimingWheel,
        coordinator: GroupCoordinator,
    ) -> None:
        """From here on a snapshot has these."""
        self.logs = logs
        self.replicas = replicas
        self.cache = cache
        self.wheel = wheel
        self.groups = CoordinatorFigures(coordinator)
        waiting = replicas.waiting
        self.purgatories = {
            "produce": waiting.produces,
            "fetch": waiting.fetches,
            "delete_records": waiting.deletions,
            "topic_changes": waiting.topic_changes,
        }


class ApiReading(NamedTuple):
    durations: HistogramReading
    started: int
    waiting: int
    abandoned: int
    failed: int
    errors: dict[int, int]


# Which, its high watermark, whether it is offline, its folder, its log's figures. A plain tuple: there are thousands.
PartitionReading: TypeAlias = tuple[TopicPartition, int, bool, str, LogFigures]


class NetworkReading(NamedTuple):
    bytes_in: int
    bytes_out: int
    connections: int
    accepted: int
    closed: dict[str, int]
    refused: dict[str, int]
    memory_bytes: int
    memory_limit_bytes: int
    memory_waiters: int
    retained_bytes: int
    cold_reads: int


class FetchSessionReading(NamedTuple):
    sessions: int
    partitions: int
    evictions: int


class GroupReading(NamedTuple):
    by_state: dict[str, int]
    offsets: int
    rebalances: int


class StoreReading(NamedTuple):
    durations: HistogramReading
    by_code: dict[int, int]


class Snapshot:
    """One moment of a broker. What a broker does not have yet, in its start, is None or empty."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiReading] = {}
        self.bytes_out_by_topic: dict[str, int] = {}
        self.flush_durations = HistogramReading((), (), 0)
        self.flush_failures = 0
        self.loop_lag = HistogramReading((), (), 0)
        self.store: dict[str, StoreReading] = {}
        self.network: NetworkReading | None = None
        self.purgatories: dict[str, int] = {}
        self.timers: int | None = None
        self.fetch_sessions: FetchSessionReading | None = None
        self.topics: int | None = None
        self.groups: GroupReading | None = None
        self.controller_id: int | None = None
        self.online_directories: list[str] = []
        self.offline_directories: list[str] = []
        self.partitions: list[PartitionReading] = []
        self.has_partitions = False
        self.unavailable_partitions = 0  # their logs could not even be loaded
        self.leader_partitions = 0
        self.under_replicated = 0
        self.under_min_isr = 0
        self.loop_wait_ns = 0  # from the question to the first piece
        self.loop_time_ns = 0  # in all pieces


class SnapshotTaker:
    """Takes one snapshot; `start` on the event loop, `on_done` is called there on the turn of the last piece."""

    def __init__(
        self,
        sources: Sources,
        on_done: Callable[[Snapshot], None],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._sources = sources
        self._on_done = on_done
        self._call_soon = call_soon
        self._snapshot = Snapshot()
        self._left: list[Partition] = []
        self._asked_ns = perf_counter_ns()

    def start(self) -> None:
        started_ns = perf_counter_ns()
        snapshot = self._snapshot
        snapshot.loop_wait_ns = started_ns - self._asked_ns
        sources = self._sources
        _read_requests(sources, snapshot)
        _read_rooms(sources, snapshot)
        replicas = sources.replicas
        if replicas is not None:
            snapshot.has_partitions = True
            snapshot.unavailable_partitions = replicas.unavailable_count
            self._left = list(replicas.partitions.values())
        snapshot.loop_time_ns += perf_counter_ns() - started_ns
        self._plan()

    def _plan(self) -> None:
        if self._left:
            self._call_soon(self._read_some_partitions)
        else:
            self._on_done(self._snapshot)

    def _read_some_partitions(self) -> None:
        started_ns = perf_counter_ns()
        snapshot = self._snapshot
        readings = snapshot.partitions
        some = self._left[-_PARTITIONS_PER_TURN:]
        del self._left[-_PARTITIONS_PER_TURN:]
        assert self._sources.replicas is not None
        broker_id = self._sources.replicas.broker_id
        for partition in some:
            log = partition.log
            state = partition.state
            if state.leader == broker_id:
                snapshot.leader_partitions += 1
                in_sync = len(state.isr)
                snapshot.under_replicated += in_sync < len(state.replicas)
                snapshot.under_min_isr += in_sync < log.config.min_insync_replicas
            readings.append(
                (
                    partition.topic_partition,
                    partition.high_watermark,
                    partition.is_offline,
                    log.directory,
                    log.figures(),
                )
            )
        snapshot.loop_time_ns += perf_counter_ns() - started_ns
        self._plan()


def _read_requests(sources: Sources, snapshot: Snapshot) -> None:
    for key, api in sources.requests.by_api.items():
        snapshot.apis[key] = ApiReading(
            api.durations.read(), api.started, api.waiting, api.abandoned, api.failed, dict(api.errors.by_code)
        )
    cache = sources.cache
    if cache is not None:
        by_topic = sources.requests.bytes_out_by_topic
        for topic, count in list(by_topic.items()):
            name = topic if isinstance(topic, str) else cache.name_of(topic)
            if name is None or name not in cache.topics:
                del by_topic[topic]  # deleted: its counter ends with it
            else:
                snapshot.bytes_out_by_topic[name] = snapshot.bytes_out_by_topic.get(name, 0) + count


def _read_rooms(sources: Sources, snapshot: Snapshot) -> None:
    snapshot.flush_durations = sources.flushes.durations.read()
    snapshot.flush_failures = sources.flushes.failed
    snapshot.loop_lag = sources.loop_lag.read()
    snapshot.purgatories = {name: purgatory.delayed for name, purgatory in sources.purgatories.items()}
    if sources.store is not None:
        for name, operation in sources.store.operations.items():
            snapshot.store[name] = StoreReading(operation.durations.read(), dict(operation.by_code))
    if sources.server is not None:
        snapshot.network = _read_network(sources.server)
    if sources.wheel is not None:
        snapshot.timers = len(sources.wheel)
    if sources.fetch_sessions is not None:
        sessions = sources.fetch_sessions
        snapshot.fetch_sessions = FetchSessionReading(len(sessions), sessions.cached_partitions, sessions.evictions)
    if sources.cache is not None:
        snapshot.topics = len(sources.cache.topics)
        snapshot.controller_id = sources.cache.controller_id
    if sources.logs is not None:
        snapshot.online_directories = sources.logs.online_directories
        snapshot.offline_directories = list(sources.logs.offline_directories)
    groups = sources.groups
    if groups is not None:
        snapshot.groups = GroupReading(groups.groups_by_state(), groups.offset_count, groups.rebalance_count)


def _read_network(server: Server) -> NetworkReading:
    metrics = server.metrics
    return NetworkReading(
        metrics.bytes_in,
        metrics.bytes_out,
        metrics.connections,
        metrics.accepted,
        dict(metrics.closed),
        dict(metrics.refused),
        server.in_flight_bytes,
        server.in_flight_max_bytes,
        server.waiting_for_memory,
        server.retained_bytes,
        metrics.cold_reads,
    )
