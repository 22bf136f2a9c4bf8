"""A whole broker core on simulated ports: disk, threads, clock and loop are the test's; sockets are left out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from ottla.broker.api import Dispatcher
from ottla.broker.config_effects import ConfigEffects
from ottla.broker.group_coordination import make_group_coordination
from ottla.broker.handlers.served import serve_all
from ottla.broker.local_topics import LocalTopics
from ottla.broker.log_settings import network_limits_of
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.metrics.requests import MeasuredDispatcher
from ottla.broker.metrics.snapshot import Sources
from ottla.broker.producer_ids import ProducerIds
from ottla.controller.config_nodes import ConfigNodes
from ottla.controller.configs import Configs, StoredBrokerConfigs
from ottla.controller.topics import NewTopic, Topics
from ottla.core.cluster import BrokerEndpoint, BrokerInfo, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.disk import FileSlice
from ottla.core.exchange import Answer, Deferred
from ottla.core.timing_wheel import TimerTask, TimingWheel
from ottla.core.types import Buffer, TopicPartition
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.fetch_client_codec import FetchAnswer, decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchPartition, TopicKey
from ottla.protocol.message import ApiMessage
from ottla.protocol.produce_client_codec import ProduceAnswer, decode_produce_response, encode_produce_request
from ottla.purgatory.purgatory import Purgatory
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas, Waiting
from ottla.storage.flush import Flusher
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager
from ottla.storage.logs_by_dir import topic_partition_of
from ottla.storage.meta_properties import MetaProperties
from ottla.testing.simulated_disk import SimulatedDisk
from tests.controller.pumped_store import PumpedStore
from tests.storage.hand_driven import HandBackground, HandLoop
from tests.storage.log_making import NOW_MS

BROKER_ID = 1
LISTENER = "PLAINTEXT"
ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class FakePeer:
    """What a handler knows of a connection."""

    def __init__(self, listener_name: str = LISTENER) -> None:
        self.address = "192.0.2.7"
        self.listener_name = listener_name
        self.client_software = ""
        self.produce_head_end = 0
        self.is_patient = False


class RigTimers:
    """The rig's wheel as the broker's timers."""

    def __init__(self, rig: "Rig") -> None:
        self._rig = rig

    def add(self, task: TimerTask, *, delay_ms: int) -> None:
        self._rig.wheel.add(task, delay_ms=delay_ms, now_ms=self._rig.wheel_ms)

    def now_ms(self) -> int:
        return self._rig.wheel_ms


class Rig:
    """One broker: what the composition root wires, without threads and sockets."""

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        disk: SimulatedDisk | None = None,
        directories: Sequence[str] = ("/data",),
        metrics: Sources | None = None,
    ) -> None:
        self.now_ms = NOW_MS  # the wall clock; the wheel has its own, which starts at 0
        self.wheel_ms = 0
        self.config = BrokerConfig.parse({"log.dirs": "/data", **(properties or {})})
        self.disk = disk or SimulatedDisk()
        self.loop = HandLoop()
        self.background = HandBackground()
        self.pump = PumpedStore(directory)
        self.peer = FakePeer()
        self.wheel = TimingWheel()
        self.fetches = Purgatory(self.wheel, on_mark=lambda: self.loop.call_soon(self._complete_fetches))
        waiting = Waiting(
            produces=Purgatory(self.wheel),
            fetches=self.fetches,
            deletions=Purgatory(self.wheel),
            topic_changes=Purgatory(self.wheel),
            now_ms=lambda: self.wheel_ms,
            arm=lambda: None,
        )
        self.replicas = Replicas(
            waiting,
            broker_id=BROKER_ID,
            request_flush=lambda log: self.flusher.request(log),
            report_storage_error=lambda log, error: self.log_manager.fail_log(log, error),
        )
        self.log_manager = LogManager(
            self.disk, directories, on_dir_failed=lambda _, partitions, __: self.replicas.take_offline(partitions)
        )
        self.log_manager.open(MetaProperties(BROKER_ID, "cluster-a"), with_locks=False)
        self.log_manager.load(self.now_ms, config_of=lambda _: LogConfig())
        self.flusher = Flusher(
            self.background,
            clock=self.clock,
            call_soon=self.loop.call_soon,
            on_flushed=lambda log: self.replicas.on_flushed(topic_partition_of(log)),
            on_failed=self.log_manager.fail_log,
        )
        self.cache = MetadataCache("cluster-a")
        self.cache.controller_id = BROKER_ID
        self.cache.put_brokers([BrokerInfo(BROKER_ID, (BrokerEndpoint(LISTENER, "broker.test", 9092),), "rack-a")])
        self.local_topics = LocalTopics(
            self.log_manager,
            self.replicas,
            self.cache,
            self.config,
            broker_id=BROKER_ID,
            clock=self.clock,
            forget_log=self.flusher.forget,
            call_soon=lambda callback: callback(),
        )
        self.random = Random(1)
        self.topics = Topics(
            self.pump.store,
            self.config,
            self.local_topics,
            random_bytes=self.random.randbytes,
            live_brokers=lambda: list(self.cache.brokers),
            controller_epoch=lambda: 1,
        )
        self.network_limits = network_limits_of(self.config)
        self.threads = self.config.get_int("background.threads")
        effects = ConfigEffects(
            self.topics,
            self.local_topics,
            self.log_manager,
            resize_threads=lambda threads: setattr(self, "threads", threads),
            update_connection_limits=lambda limits: setattr(self, "network_limits", limits),
        )
        self.current = CurrentConfig(self.config)
        self.current.add_listener(effects.apply)
        self.configs = Configs(
            ConfigNodes(self.pump.store, self.clock),
            self.topics,
            self.current,
            self.local_topics,
            broker_id=BROKER_ID,
            stored=StoredBrokerConfigs(per_broker={}, cluster_wide={}),
        )
        self.groups = make_group_coordination(
            self.config,
            replicas=self.replicas,
            log_manager=self.log_manager,
            flusher=self.flusher,
            cache=self.cache,
            topics=self.topics,
            background=self.background,
            clock=self.clock,
            timers=RigTimers(self),
            call_soon=self.loop.call_soon,
            random_bytes=self.random.randbytes,
        )
        self.coordinator = self.groups.coordinator
        self.local_topics.on_topic_deleted.append(self.groups.offsets_topic.on_topic_deleted)
        self.dispatcher = (
            Dispatcher(self.clock) if metrics is None else MeasuredDispatcher(self.clock, metrics.requests)
        )
        serve_all(
            self.dispatcher,
            config=self.config,
            replicas=self.replicas,
            cache=self.cache,
            topics=self.topics,
            groups=lambda: self.groups,
            log_manager=self.log_manager,
            producer_ids=ProducerIds(self.pump.store, BROKER_ID),
            background=self.background,
            clock=self.clock,
            random=self.random,
            metrics=metrics,
            configs=self.configs,
            current=self.current,
        )

    def clock(self) -> int:
        return self.now_ms

    def _complete_fetches(self) -> None:
        self.fetches.complete_marked()

    def close(self) -> None:
        self.pump.close()

    # Time and threads

    def advance(self, delay_ms: int) -> None:
        """Let time pass on both clocks; what is due on the wheel runs."""
        self.now_ms += delay_ms
        self.wheel_ms += delay_ms
        self.wheel.advance(self.wheel_ms)

    def turn(self) -> None:
        """One turn of the loop."""
        self.loop.turn()

    def flush(self) -> None:
        """Let the fsyncs that were asked for happen, and the loop hear of it."""
        self.loop.turn()
        self.background.run_all()
        self.loop.turn()

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
