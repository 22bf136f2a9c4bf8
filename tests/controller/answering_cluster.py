"""Controllers on one store in memory, with brokers that only answer: they note what they were sent, and fence."""

import heapq
from collections.abc import Callable, Sequence
from random import Random

from ottla.controller.controller import Controller
from ottla.controller.ports import ControllerPorts
from ottla.controller.state import StoredBrokerConfigs
from ottla.coordination import paths
from ottla.coordination.memory import MemoryStore
from ottla.coordination.memory_ensemble import MemoryEnsemble
from ottla.coordination.store import ANY_VERSION, Create, OnDone, Result, SetValue, Write
from ottla.core.cluster import BrokerInfo, PartitionState, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.control import (
    ControlAnswer,
    ControlRequest,
    LeaderAndIsr,
    StopReplicas,
    UpdateMetadata,
)
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition


class Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualLoop:
    """One loop for all: time passes only when nothing is left to do, and then jumps."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._number = 0
        self._heap: list[tuple[float, int, Timer]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        self._number += 1
        timer = Timer(callback)
        heapq.heappush(self._heap, (max(when, self.now), self._number, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self.call_at(self.now, callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self.call_at(self.now + delay_ms / 1000, callback)

    def run_for(self, seconds: float) -> None:
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            when, _, timer = heapq.heappop(self._heap)
            self.now = max(self.now, when)
            if timer.callback is not None:
                timer.callback()
        self.now = end

    def run_until(self, is_done: Callable[[], bool], *, within_s: float = 60.0) -> None:
        end = self.now + within_s
        while not is_done():
            is_in_time = bool(self._heap) and self._heap[0][0] <= end
            assert is_in_time, "it did not come about in time"
            when, _, timer = heapq.heappop(self._heap)
            self.now = max(self.now, when)
            if timer.callback is not None:
                timer.callback()


class AnsweringBroker:
    """What a broker knows of the cluster, and nothing else."""

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.epoch = -1
        self.is_alive = False
        self.controller_epoch = 0
        self.states: dict[TopicPartition, PartitionState] = {}
        self.logs: set[TopicPartition] = set()  # survive a crash
        self.new: list[TopicPartition] = []
        self.shown: dict[str, TopicImage] = {}
        self.brokers: tuple[BrokerInfo, ...] = ()
        self.offline: set[TopicPartition] = set()
        self.requests: list[ControlRequest] = []

    def take(self, request: ControlRequest) -> ControlAnswer:
        stamp = request.stamp
        if stamp.controller_epoch < self.controller_epoch:
            return ControlAnswer(ErrorCode.STALE_CONTROLLER_EPOCH)
        if stamp.broker_epoch != self.epoch:
            return ControlAnswer(ErrorCode.STALE_BROKER_EPOCH)
        self.controller_epoch = stamp.controller_epoch
        self.requests.append(request)
        if isinstance(request, LeaderAndIsr):
            return self._lead(request)
        if isinstance(request, UpdateMetadata):
            return self._show(request)
        return self._stop(request)

    def _lead(self, request: LeaderAndIsr) -> ControlAnswer:
        errors = {}
        if request.is_full:
            self.states.clear()
        for topic in request.topics:
            for partition, state, is_new in topic.partitions:
                found = TopicPartition(topic.name, partition)
                assert self.broker_id in state.replicas
                known = self.states.get(found)
                if known is not None and (known.leader_epoch, known.version) > (state.leader_epoch, state.version):
                    errors[found] = ErrorCode.STALE_CONTROLLER_EPOCH
                    continue
                self.states[found] = state
                self.logs.add(found)
                if is_new:
                    self.new.append(found)
                if found in self.offline:
                    errors[found] = ErrorCode.KAFKA_STORAGE_ERROR
        return ControlAnswer(partitions=errors)

    def _show(self, request: UpdateMetadata) -> ControlAnswer:
        self.brokers = request.brokers
        if request.is_full:
            self.shown.clear()
        for name in request.deleted:
            self.shown.pop(name, None)
        for image in request.topics:
            known = self.shown.get(image.name)
            if known is not None and known.topic_id == image.topic_id:
                image = image._replace(partitions={**known.partitions, **image.partitions})
            self.shown[image.name] = image
        return ControlAnswer()

    def _stop(self, request: StopReplicas) -> ControlAnswer:
        for found, _, deletes in request.replicas:
            self.states.pop(found, None)
            if deletes:
                self.logs.discard(found)
        return ControlAnswer()


class MeasuredStore(MemoryStore):
    """Notes how large multis become, about as ZooKeeper counts it."""

    multi_bytes_max = 0

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        size = sum(len(write.path) + len(getattr(write, "value", b"")) + 32 for write in writes)
        self.multi_bytes_max = max(self.multi_bytes_max, size)
        super().multi(writes, on_done)


class Cluster:
    """N brokers, each with a controller of its own on its own session."""

    def __init__(self, count: int = 3, properties: dict[str, str] | None = None, seed: int = 0) -> None:
        self.loop = ManualLoop()
        self.ensemble = MemoryEnsemble(self.loop, session_timeout_ms=6_000)
        self.random = Random(seed)
        self.config = BrokerConfig.parse({"log.dirs": "/data", **(properties or {})})
        self.brokers: dict[BrokerId, AnsweringBroker] = {}
        self.controllers: dict[BrokerId, Controller] = {}
        self.stores: dict[BrokerId, MeasuredStore] = {}
        self.admin = MemoryStore(self.ensemble, self.loop, name="admin")
        self.call(self.admin.multi, [Create(path, b"") for path in paths.PERSISTENT_PATHS])
        for path in (paths.OTTLA, paths.OTTLA_BROKERS):
            self.call(self.admin.create, path, b"")
        for broker_id in range(1, count + 1):
            self.add(broker_id)
            self.start(broker_id)

    def add(self, broker_id: BrokerId) -> None:
        """One that has not been started yet."""
        self.brokers[broker_id] = AnsweringBroker(broker_id)
        self.call(self.admin.create, paths.broker_epoch_path(broker_id), b"")

    # The port ControlLink

    def send(
        self, broker: BrokerInfo, request: ControlRequest, on_answer: Callable[[ControlAnswer | None], None]
    ) -> None:
        def arrive() -> None:
            target = self.brokers[broker.broker_id]
            answer = target.take(request) if target.is_alive else None
            self.loop.call_later(self.random.randrange(3), lambda: on_answer(answer))

        self.loop.call_later(self.random.randrange(3), arrive)

    def start(self, broker_id: BrokerId) -> None:
        """A process begins: it knows nothing, registers, and takes part in elections."""
        broker = self.brokers[broker_id]
        broker.is_alive = True
        broker.states.clear()
        broker.shown.clear()
        broker.controller_epoch = 0
        store = self.stores[broker_id] = MeasuredStore(self.ensemble, self.loop, name=f"broker-{broker_id}")
        controller = self.controllers[broker_id] = Controller(
            store,
            ControllerPorts(
                lambda: int(self.loop.now * 1000),
                self.loop.call_soon,
                self.loop.call_later,
                self.random.randbytes,
                self,
            ),
            CurrentConfig(self.config),
            broker_id=broker_id,
            stored_configs=lambda: StoredBrokerConfigs({}, {}),
        )

        def register() -> None:
            endpoint = f"PLAINTEXT://host-{broker_id}:9092"
            value = paths.encode_broker(paths.BrokerRegistration((endpoint,), {"PLAINTEXT": "PLAINTEXT"}, 0))
            writes: list[Write] = [
                Create(paths.broker_path(broker_id), value, ephemeral=True),
                SetValue(paths.broker_epoch_path(broker_id), b"", ANY_VERSION),
            ]
            store.multi(writes, on_registered)

        def on_registered(result: Result) -> None:
            if self.stores.get(broker_id) is not store:
                return
            if not result.is_ok:
                store.get(paths.broker_path(broker_id), on_found)
                return
            stat = result.results[1].stat
            assert stat is not None
            broker.epoch = stat.version
            controller.start()

        def on_found(result: Result) -> None:
            """Perhaps it was this session after all, and only the answer was lost."""
            if self.stores.get(broker_id) is not store:
                return
            if result.stat is not None and result.stat.ephemeral_owner == store.session_id:
                store.exists(paths.broker_epoch_path(broker_id), on_epoch)
            else:
                self.loop.call_later(500, register)

        def on_epoch(result: Result) -> None:
            if result.stat is None:
                self.loop.call_later(500, register)
            elif self.stores.get(broker_id) is store:
                broker.epoch = result.stat.version
                controller.start()

        def on_session(state: int) -> None:
            if state == 1 and was_expired:
                was_expired.clear()
                register()
            elif state == 3:
                was_expired.append(True)

        was_expired: list[bool] = []
        store.add_session_listener(on_session)
        register()

    def kill(self, broker_id: BrokerId) -> None:
        """The process is gone, and its session at once."""
        self.brokers[broker_id].is_alive = False
        self.controllers.pop(broker_id).close()
        self.stores.pop(broker_id).close()

    def bounce(self, broker_id: BrokerId) -> None:
        """Killed and started again before anybody looks."""
        self.kill(broker_id)
        self.start(broker_id)

    # For tests

    @property
    def active(self) -> list[BrokerId]:
        return [broker_id for broker_id, controller in self.controllers.items() if controller.is_active]

    @property
    def controller(self) -> Controller:
        (broker_id,) = self.active
        return self.controllers[broker_id]

    def settle(self, seconds: float = 20.0) -> None:
        self.loop.run_for(seconds)

    def call(self, operation: Callable[..., None], *arguments: object, **options: object) -> Result:
        answers: list[Result] = []
        operation(*arguments, answers.append, **options)
        self.loop.run_until(lambda: bool(answers))
        return answers[0]

    def get(self, path: str) -> Result:
        return self.call(self.admin.get, path)

    def state_of(self, topic: str, partition: int = 0) -> PartitionState:
        """As the store has it."""
        result = self.get(paths.partition_state_path(topic, partition))
        assert result.stat is not None, f"{topic}-{partition}"
        node = paths.decode_partition_state(result.path, result.value)
        assigned = paths.decode_topic("", self.get(paths.topic_path(topic)).value)
        return PartitionState(
            node.leader, node.leader_epoch, node.isr, assigned.partitions[partition], result.stat.version
        )

    def write_topic(self, name: str, assignment: dict[int, tuple[int, ...]]) -> None:
        """As another broker creates one: the topic and its config, no partitions."""
        topic_id = self.random.randbytes(16)
        writes = [
            Create(paths.config_path("topics", name), paths.encode_config({})),
            Create(paths.topic_path(name), paths.encode_topic(paths.TopicAssignment(topic_id, assignment))),
        ]
        assert self.call(self.admin.multi, writes).is_ok

    def write_isr(self, topic: str, partition: int, isr: Sequence[int]) -> None:
        """As a leader does, with its notification."""
        state = self.state_of(topic, partition)
        node = paths.PartitionState(state.leader, state.leader_epoch, tuple(isr), 1)
        path = paths.partition_state_path(topic, partition)
        assert self.call(self.admin.set, path, paths.encode_partition_state(node), version=state.version).is_ok
        note = paths.encode_partition_set([TopicPartition(topic, partition)])
        self.call(self.admin.create, paths.ISR_CHANGE_PREFIX, note, sequential=True)

    def topics(self) -> tuple[str, ...]:
        return self.call(self.admin.children, paths.TOPICS).children
