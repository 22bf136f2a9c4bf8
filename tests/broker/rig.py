"""A whole broker core on simulated ports: disk, threads, clock and loop are the test's; sockets are left out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from ottla.broker.api import Dispatcher
from ottla.broker.core import BrokerCore
from ottla.broker.group_coordination import GroupCoordination
from ottla.broker.local_topics import LocalTopics
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.metrics.snapshot import Sources
from ottla.broker.ports import BrokerPorts
from ottla.broker.steps import Running, Steps
from ottla.controller.configs import Configs
from ottla.controller.new_topics import NewTopic
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.config.listeners import Listener
from ottla.core.disk import FileSlice
from ottla.core.exchange import Answer, Deferred, FrameHandler
from ottla.core.timing_wheel import TimingWheel
from ottla.core.types import Buffer, TopicPartition
from ottla.links.addresses import Address
from ottla.links.wire import Wire
from ottla.net.limits import NetworkLimits
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.fetch_client_codec import FetchAnswer, decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchPartition, TopicKey
from ottla.protocol.message import ApiMessage
from ottla.protocol.produce_client_codec import ProduceAnswer, decode_produce_response, encode_produce_request
from ottla.purgatory.purgatory import Purgatory
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.flush import Flusher
from ottla.storage.log_manager import LogManager
from ottla.testing.simulated_disk import SimulatedDisk
from tests.controller.pumped_store import PumpedStore
from tests.storage.hand_driven import HandBackground, HandLoop, HandTimer
from tests.storage.log_making import NOW_MS

BROKER_ID = 1
LISTENER = "PLAINTEXT"
ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class FakePeer:
    """What a handler knows of a connection."""

    def __init__(self, listener_name: str = LISTENER) -> None:
        self.address = "192.0.2.7"
        self.listener_name = listener_name
        self.handler_notes: Any = None
        self.is_deferrable = False


class FakeNetwork:
    """A network without sockets: whoever sends a frame hands it to the core's dispatcher."""

    def __init__(self, loop: HandLoop, limits: NetworkLimits) -> None:
        self._loop = loop
        self.limits = limits
        self.is_accepting = False

    def bind(self, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
        return tuple(listener._replace(port=listener.port or 9092) for listener in listeners)

    def start_accepting(self) -> None:
        self.is_accepting = True

    def update_connection_limits(self, limits: NetworkLimits) -> None:
        self.limits = limits

    def stop(self, *, drain_ms: int, on_stopped: Callable[[], None]) -> None:
        self.is_accepting = False
        self._loop.call_soon(on_stopped)


class FakeChannel:
    """A connection out, as a test sees it: what was sent over it, and the wire that answers are given to."""

    def __init__(self, address: Address, wire: Wire) -> None:
        self.address = address
        self.wire = wire
        self.sent: list[bytes] = []
        self.is_closed = False

    def send(self, parts: Sequence[Buffer]) -> None:
        self.sent.append(b"".join(parts))

    def close(self) -> None:
        self.is_closed = True


class FakeLinks:
    """Connections out without sockets: they are kept for the test, which connects, answers or loses them."""

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.channels: list[FakeChannel] = []

    def now_ms(self) -> int:
        return round(self._loop.now * 1000)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> HandTimer:
        return self._loop.call_at(self._loop.now + delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def open(self, address: Address, wire: Wire) -> FakeChannel:
        self.channels.append(FakeChannel(address, wire))
        return self.channels[-1]


class Rig:
    """A core that is started as `Broker` starts one, and what drives its ports. Each needs a folder for its store."""

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        disk: SimulatedDisk | None = None,
        directories: Sequence[str] = ("/data",),
        metrics: Sources | None = None,
    ) -> None:
        config = {
            "broker.id": str(BROKER_ID),
            "broker.rack": "rack-a",
            "log.dirs": ",".join(directories),
            "advertised.listeners": f"{LISTENER}://broker.test:9092",
            **(properties or {}),
        }
        self.disk = disk or SimulatedDisk()
        self.loop = HandLoop()
        self._wall_clock_starts_at_ms = NOW_MS - round(self.loop.now * 1000)
        self.background = HandBackground()
        self.links = FakeLinks(self.loop)
        self.pump = PumpedStore(directory, self.settle)
        self.pump.put(paths.CLUSTER_ID, paths.encode_cluster_id("cluster-a"))
        self.peer = FakePeer()
        self.has_failed = False
        self.core = BrokerCore(BrokerConfig.parse(config), self._ports(), metrics)
        try:
            self.run(self.core.start())
        except BaseException:
            self.run(self.core.stop())
            raise
        self.idle_timers = len(self.wheel)  # those of housekeeping

    def _ports(self) -> BrokerPorts:
        return BrokerPorts(
            loop=self.loop,
            clock=self.clock,
            background=self.background,
            disk=self.disk,
            random=Random(1),
            open_store=lambda: self.pump.store,
            open_network=self._open_network,
            on_failed=self._on_failed,
            host_name="broker.test",
            open_files_max=2000,
            locks_log_dirs=False,
            boot_id="boot-1",
            links=self.links,
        )

    def _on_failed(self) -> None:
        self.has_failed = True

    def _open_network(self, _: FrameHandler, limits: NetworkLimits) -> FakeNetwork:
        self.network = FakeNetwork(self.loop, limits)
        return self.network

    def run(self, steps: Steps[None]) -> None:
        """A start or a stop, to its end."""
        ends: list[Exception | None] = []
        Running(steps, lambda _, error: ends.append(error))
        self.pump.run_until(lambda: bool(ends))
        if ends[0] is not None:
            raise ends[0]

    def close(self) -> None:
        """As a process that is killed: what is on its disk stays as it is."""
        self.pump.close()

    # The rooms of the core

    @property
    def config(self) -> BrokerConfig:
        return self.core.config

    @property
    def log_manager(self) -> LogManager:
        return self.core.log_manager

    @property
    def flusher(self) -> Flusher:
        return self.core.flusher

    @property
    def replicas(self) -> Replicas:
        return self.core.replicas

    @property
    def fetches(self) -> Purgatory:
        return self.core.replicas.waiting.fetches

    @property
    def cache(self) -> MetadataCache:
        return self.core.cache

    @property
    def local_topics(self) -> LocalTopics:
        return self.core.local_topics

    @property
    def topics(self) -> Topics:
        return self.core.topics

    @property
    def configs(self) -> Configs:
        return self.core.configs

    @property
    def current(self) -> CurrentConfig:
        return self.core.current_config

    @property
    def groups(self) -> GroupCoordination:
        return self.core.start_groups()

    @property
    def coordinator(self) -> GroupCoordinator:
        return self.groups.coordinator

    @property
    def dispatcher(self) -> Dispatcher:
        return self.core.dispatcher

    @property
    def wheel(self) -> TimingWheel:
        return self.core.timers.wheel

    # Time and threads

    def clock(self) -> int:
        return self.now_ms

    @property
    def now_ms(self) -> int:
        """The wall clock; it goes with the loop's, unless a test sets it."""
        return self._wall_clock_starts_at_ms + round(self.loop.now * 1000)

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self._wall_clock_starts_at_ms += now_ms - self.now_ms

    def advance(self, delay_ms: int) -> None:
        """Let time pass on both clocks; what is due runs, a tick late as on every loop."""
        self.loop.run_for(delay_ms + 1)

    def turn(self) -> None:
        """One turn of the loop."""
        self.loop.turn()

    def flush(self) -> None:
        """Let the fsyncs that were asked for happen, and the loop hear of it."""
        self.loop.turn()
        self.background.run_all()
        self.loop.turn()

    def settle(self) -> None:
        """Turns of the loop and work in the background until nothing is left of either."""
        while self.loop.soon or self.background.waiting:
            self.loop.turn()
            self.background.run_all()

    # Topics

    def create_topic(self, name: str = "orders", partitions: int = 1, **configs: str) -> TopicImage:
        """`flush_messages="1"` stands for the key flush.messages."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        image = self.pump.call(self.topics.create, NewTopic(name, partitions=partitions, configs=named))
        assert isinstance(image, TopicImage), image
        return image

    def partition(self, topic: str = "orders", index: int = 0) -> Partition:
        return self.replicas.partitions[TopicPartition(topic, index)]

    # Requests

    def send(self, frame: Buffer, peer: FakePeer | None = None) -> Answer | Deferred | None:
        """Hand a frame, given with its size, to the dispatcher as the network does: writable, without its size."""
        return self.dispatcher(memoryview(bytearray(frame))[4:], peer or self.peer)

    def ask(self, request: ApiMessage, response_class: type[ResponseT], version: int) -> ResponseT:
        """Send a request; the store's loop runs until it is answered."""
        answer = self.send(encode_request(request, version, 77, "test"))
        if isinstance(answer, Deferred):
            deferred = answer
            self.loop.turn()
            self.pump.run_until(lambda: deferred.is_complete)
        correlation_id, response = decode_response(response_class, version, bytes_of(answer)[4:])
        assert correlation_id == 77
        return response

    def send_produce(
        self,
        *batches: tuple[str, int, Buffer | None],
        acks: int = -1,
        version: int = 9,
        correlation_id: int = 77,
        timeout_ms: int = 1000,
        peer: FakePeer | None = None,
    ) -> Answer | Deferred | None:
        """(topic, partition, records) in one request."""
        topics: dict[TopicKey, list[tuple[int, Buffer | None]]] = {}
        for topic, index, records in batches:
            topics.setdefault(topic, []).append((index, records))
        frame = encode_produce_request(
            version,
            correlation_id,
            "producer",
            transactional_id=None,
            acks=acks,
            timeout_ms=timeout_ms,
            topics=list(topics.items()),
        )
        return self.send(b"".join(frame), peer)

    def produce(self, records: Buffer, topic: str = "orders", index: int = 0, **options: Any) -> tuple[int, int]:
        """(error code, base offset) of one batch that is answered at once."""
        answer = self.send_produce((topic, index, records), **options)
        produced = decode_produced(answer, options.get("version", 9)).topics[0][1][0]
        return produced.error_code, produced.base_offset

    def send_fetch(
        self, *wanted: tuple[TopicKey, FetchPartition], version: int = 12, **settings: Any
    ) -> Answer | Deferred | None:
        return self.send(encode_fetch_request(version, 77, "consumer", fetch_arguments(*wanted, **settings)))

    def fetch(self, *wanted: tuple[TopicKey, FetchPartition], version: int = 12, **settings: Any) -> FetchAnswer:
        return decode_fetched(self.send_fetch(*wanted, version=version, **settings), version)


def at(
    offset: int, topic: TopicKey = "orders", index: int = 0, *, max_bytes: int = 1 << 20, leader_epoch: int = -1
) -> tuple[TopicKey, FetchPartition]:
    """A partition in a fetch request."""
    return topic, FetchPartition(index, leader_epoch, offset, -1, -1, max_bytes)


def fetch_arguments(
    *wanted: tuple[TopicKey, FetchPartition],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    replica_id: int = -1,
    forgotten: Sequence[tuple[TopicKey, list[int]]] = (),
) -> FetchArguments:
    topics: dict[TopicKey, list[FetchPartition]] = {}
    for topic, partition in wanted:
        topics.setdefault(topic, []).append(partition)
    return FetchArguments(
        replica_id,
        -1,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        list(topics.items()),
        list(forgotten),
        "",
    )


def bytes_of(answer: Answer | Deferred | None) -> bytes:
    """What would go over the wire."""
    if isinstance(answer, Deferred):
        assert answer.is_complete, "the request still waits"
        answer = answer.answer
    assert answer is not None, "nothing is sent"
    if not isinstance(answer, list):
        return bytes(answer)
    return b"".join(
        part.file.pread(part.length, part.position) if isinstance(part, FileSlice) else bytes(part) for part in answer
    )


def decode_produced(answer: Answer | Deferred | None, version: int = 9) -> ProduceAnswer:
    return decode_produce_response(version, bytes_of(answer)[4:])


def decode_fetched(answer: Answer | Deferred | None, version: int = 12) -> FetchAnswer:
    return decode_fetch_response(version, bytes_of(answer)[4:])
