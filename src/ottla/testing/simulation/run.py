"""One whole run of a simulated cluster: load and faults for a while, then time to heal, then the rules.

A run that breaks a rule raises `BrokenRule`; any other exception is a bug that the faults brought to light.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.broker.steps import Running
from ottla.coordination import paths
from ottla.coordination.store import WatchEvent, WatchKind
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, LeaderEpoch, TopicPartition
from ottla.replication.partition import Partition
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.changed_partitions import ChangedPartitions
from ottla.testing.simulation.cluster import SESSION_TIMEOUT_MS, SimulatedCluster
from ottla.testing.simulation.committed import CommittedRecords
from ottla.testing.simulation.fault_plan import FaultPlan, FaultSettings
from ottla.testing.simulation.history import History
from ottla.testing.simulation.load_client_producer import LoadClientProducer
from ottla.testing.simulation.load_isr_down import REPLICATION_FACTOR as UNCLEAN_REPLICATION_FACTOR
from ottla.testing.simulation.load_isr_down import UNCLEAN_CONFIGS, IsrTakenDown
from ottla.testing.simulation.load_log_start import LoadLogStart
from ottla.testing.simulation.load_member import LoadMember
from ottla.testing.simulation.load_producer import LoadProducer
from ottla.testing.simulation.load_reader import LoadReader
from ottla.testing.simulation.load_remade_topic import RemadeTopic
from ottla.testing.simulation.process import ProcessState
from ottla.testing.simulation.rare_collections import rare_collections
from ottla.testing.simulation.replica_logs import PartitionAtEnd, read_replica
from ottla.testing.simulation.requests import create_topic
from ottla.testing.simulation.rules import check_run
from ottla.testing.simulation.scheduler import ProcessLoop, StillRunning
from ottla.testing.simulation.sightings import Sightings, partition_of_state_path
from ottla.testing.simulation.step_rules import StepRules
from ottla.testing.simulation.stored_topics import stored_state, stored_topic_id

TOPIC: Final = "orders"
REMADE_TOPIC: Final = "carts"
UNCLEAN_TOPIC: Final = "clicks"
GROUP: Final = "billing"
_CREATE_WITHIN_S: Final = 60.0
_RUNNING: Final = ProcessState.RUNNING
_SERVING: Final = (ProcessState.RUNNING, ProcessState.STOPPING)  # one that stops acknowledges until it leads nothing
_TOPIC_PATH_SLASHES: Final = 3
_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


class RunSettings(NamedTuple):
    """What is run; with the seed it says all of what happens."""

    brokers: int = 3
    duration_s: float = 60.0  # with faults
    settle_s: float = 120.0  # at most, without
    partitions: int = 3
    replication_factor: int = 3  # or as many as there are brokers
    min_insync_replicas: int = 2
    flush_messages: int = 1  # 0: the system writes back when it likes, and a loss of power may cost what was acked
    producers: int = 2
    client_producers: int = 0  # more of them: our own client
    members: int = 2  # of a consumer group
    member_lives_s: float = 15.0  # on average, before it leaves and comes back
    pause_s: float = 0.2  # between two batches of a producer in a partition
    deletes_records: bool = False
    remakes_topic: bool = False  # another one, again and again
    takes_isr_down: bool = False  # of one more topic, that allows unclean elections
    session_timeout_ms: int = SESSION_TIMEOUT_MS  # of brokers at the store
    faults: FaultSettings = FaultSettings()
    properties: tuple[tuple[str, str], ...] = ()  # of every broker


class _Topic(NamedTuple):
    """A topic of the run that is there from its start to its end, or at its end."""

    name: str
    partitions: int
    replication_factor: int
    reader: LoadReader
    configs: Mapping[str, str] = _NO_CONFIGS


class RunResult(NamedTuple):
    digest: str
    simulated_s: float
    steps: int
    acked: int
    read: int
    commits: int
    rebalances: int
    faults: dict[str, int]
    sightings: dict[str, int]


class SimulatedRun:
    """One run of one seed. Its parts are public for who looks at a run that failed."""

    # One run has one of each kind at most; those that its settings don't name are None.
    log_starts: LoadLogStart | None = None
    remade: RemadeTopic | None = None
    isr_down: IsrTakenDown | None = None

    def __init__(self, seed: int, settings: RunSettings | None = None) -> None:
        self.settings = settings = settings or RunSettings()
        self.cluster = SimulatedCluster(
            seed,
            brokers=settings.brokers,
            properties=_properties(settings),
            session_timeout_ms=settings.session_timeout_ms,
        )
        self.history = History()
        self.step_rules = StepRules()
        self.committed = CommittedRecords(self.cluster.brokers)
        self.history.on_acked.append(self.committed.on_acked)
        self.sightings = Sightings(self.cluster.brokers, self._is_rebalancing)
        self._looks: dict[int, ChangedPartitions] = {}  # by life of a broker
        self.sightings.on_loss = self._on_loss
        self._brokers_by_loop_name = {broker.name: broker for broker in self.cluster.brokers.values()}
        broker_ids = list(self.cluster.brokers)
        self.producers: list[LoadProducer | LoadClientProducer] = [
            LoadProducer(
                self.cluster.client(f"producer-{number}"),
                self.history,
                TOPIC,
                partitions=settings.partitions,
                brokers=broker_ids,
                pause_s=settings.pause_s,
                is_leading=self._is_leading,
            )
            for number in range(1, settings.producers + 1)
        ]
        clients = [self.cluster.client(f"reader-{partition}") for partition in range(settings.partitions)]
        self.reader = LoadReader(clients, self.history, TOPIC, brokers=broker_ids, known_leader=self._known_leader)
        self.members = [
            LoadMember(
                self.cluster.client(f"member-{number}"),
                self.history,
                TOPIC,
                group=GROUP,
                lives_s=settings.member_lives_s,
            )
            for number in range(1, settings.members + 1)
        ]
        self._topics = [
            _Topic(TOPIC, settings.partitions, min(settings.replication_factor, settings.brokers), self.reader)
        ]
        self._add_loads(broker_ids)
        self.plan = FaultPlan(self.cluster, settings.faults)
        self.sightings.on_unclean_election = self._on_unclean_election
        self.cluster.scheduler.after_step = self._after_step
        self.cluster.ensemble.on_change = self._on_stored

    def run(self) -> RunResult:
        with rare_collections():
            return self._run()

    def _run(self) -> RunResult:
        cluster = self.cluster
        cluster.start()
        for topic in self._topics:
            self._create_topic(topic)
        for producer in self.producers:
            producer.start()
        for topic in self._topics:
            topic.reader.start()
        for load in (self.log_starts, self.remade, self.isr_down):
            if load is not None:
                load.start()
        for member in self.members:
            member.start()
        self.plan.start()
        cluster.run_for(self.settings.duration_s)
        for load in (self.log_starts, self.remade, self.isr_down):
            if load is not None:
                load.stop()
        self.plan.end()
        for producer in self.producers:
            producer.stop()
        for member in self.members:
            member.stop()
        self._settle()
        self._read_committed()
        check_run(self.history, list(self._partitions_at_end()))
        cluster.stop()
        return RunResult(
            cluster.digest,
            cluster.now,
            cluster.scheduler.steps,
            sum(producer.acked for producer in self.producers),
            sum(self.reader.next_offsets),
            sum(member.committed for member in self.members),
            sum(member.rebalances for member in self.members),
            self.plan.counts,
            self.sightings.counts,
        )

    def _add_loads(self, broker_ids: list[int]) -> None:
        settings, cluster, history = self.settings, self.cluster, self.history
        for number in range(1, settings.client_producers + 1):
            client = cluster.client(f"client-producer-{number}")
            self.producers.append(
                LoadClientProducer(client, history, TOPIC, partitions=settings.partitions, pause_s=settings.pause_s)
            )
        if settings.deletes_records:
            self.log_starts = LoadLogStart(
                cluster.client("record-deleter"), history, TOPIC, self.reader, brokers=broker_ids, pause_s=1.0
            )
        if settings.remakes_topic:
            self.remade = RemadeTopic(
                cluster,
                history,
                REMADE_TOPIC,
                brokers=broker_ids,
                replication_factor=min(settings.replication_factor, settings.brokers),
                pause_s=settings.pause_s,
            )
        if settings.takes_isr_down:
            self.isr_down = IsrTakenDown(cluster, TopicPartition(UNCLEAN_TOPIC, 0))
            reader = LoadReader([cluster.client(f"{UNCLEAN_TOPIC}-reader")], history, UNCLEAN_TOPIC, brokers=broker_ids)
            self._topics.append(_Topic(UNCLEAN_TOPIC, 1, UNCLEAN_REPLICATION_FACTOR, reader, UNCLEAN_CONFIGS))
            self.producers.append(
                LoadProducer(
                    cluster.client(f"{UNCLEAN_TOPIC}-producer"),
                    history,
                    UNCLEAN_TOPIC,
                    partitions=1,
                    brokers=broker_ids,
                    pause_s=settings.pause_s,
                    is_leading=self._is_leading,
                )
            )

    def _create_topic(self, topic: "_Topic") -> None:
        """Each broker is asked in turn, until one is the controller and can."""
        client = self.cluster.client("admin")
        deadline = self.cluster.now + _CREATE_WITHIN_S
        while self.cluster.now < deadline:
            for broker_id in self.cluster.brokers:
                outcome = create_topic(
                    client,
                    broker_id,
                    topic.name,
                    partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    configs=topic.configs,
                )
                self.cluster.run_until(lambda outcome=outcome: outcome.is_there, within_s=_CREATE_WITHIN_S)  # type: ignore[misc]
                if outcome.response is not None:
                    error_code = outcome.response.topics[0].error_code
                    if error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                        return
            self.cluster.run_for(0.5)
        raise BrokenRule("a topic can be created", f"not within {_CREATE_WITHIN_S} s, without any fault")

    # The end of a run

    def _settle(self) -> None:
        try:
            self.cluster.run_until(_Polled(self), within_s=self.settings.settle_s)
        except StillRunning:
            raise BrokenRule(
                "a cluster without faults heals by itself",
                f"not within {self.settings.settle_s} s: {'; '.join(self.unsettled()) or 'it has just now'}",
            ) from None

    def _read_committed(self) -> None:
        if not self.members:
            return
        ends: list[Exception | None] = []
        partitions = [TopicPartition(TOPIC, number) for number in range(self.settings.partitions)]
        Running(self.members[0].read_committed(partitions), lambda _, error: ends.append(error))
        self.cluster.run_until(lambda: bool(ends), within_s=self.settings.settle_s)
        if ends[0] is not None:
            raise ends[0]

    def unsettled(self) -> Iterator[str]:
        """What is still to come before the rules can judge, for people."""
        for broker in self.cluster.brokers.values():
            if broker.state is not ProcessState.RUNNING:
                yield f"{broker.name} is {broker.state.value} {broker.exit_reason}"
        for producer in self.producers:
            if not producer.is_idle:
                yield "a producer has batches that are not acknowledged"
        for member in self.members:
            if not member.is_done:
                yield "a member of the group has not ended"
        if self.log_starts is not None and not self.log_starts.is_idle:
            yield "a deletion of records is not answered"
        if self.remade is not None and not self.remade.is_idle:
            yield f"{REMADE_TOPIC} is not made anew, or has batches that are not acknowledged"
            return
        for topic in self._topics_at_end():
            for number in range(topic.partitions):
                yield from self._unsettled_of(topic, TopicPartition(topic.name, number))

    def _topics_at_end(self) -> "list[_Topic]":
        if self.remade is None:
            return self._topics
        assert self.remade.reader is not None
        replication_factor = self._topics[0].replication_factor
        return [*self._topics, _Topic(REMADE_TOPIC, 1, replication_factor, self.remade.reader)]

    def _unsettled_of(self, topic: "_Topic", topic_partition: TopicPartition) -> Iterator[str]:
        state = stored_state(self.cluster, topic_partition)
        topic_id = stored_topic_id(self.cluster, topic_partition.topic)
        replicas = self._replicas(topic_partition)
        wanted = topic.replication_factor
        if state is None:
            yield f"{topic_partition} is not in the store"
        elif state.leader not in replicas:
            yield f"{topic_partition} has no leader"
        elif len(state.isr) < wanted:
            yield f"{topic_partition} has the in-sync replicas {list(state.isr)}"
        else:
            for broker_id, replica in replicas.items():
                if replica.topic_id != topic_id:
                    yield f"{topic_partition} of broker {broker_id} belongs to a topic that is deleted"
            leader = replicas[state.leader]
            if leader.state.leader_epoch != state.leader_epoch:
                yield f"{topic_partition}: leader {state.leader} does not know that it leads"
            ends = {broker_id: replica.log.log_end_offset for broker_id, replica in replicas.items()}
            marks = {broker_id: replica.high_watermark for broker_id, replica in replicas.items()}
            if len({*ends.values(), *marks.values()}) > 1:
                yield f"{topic_partition}: log end offsets {ends}, high watermarks {marks}"
            if topic.reader.next_offsets[topic_partition.partition] < leader.high_watermark:
                yield f"{topic_partition} is not read up to {leader.high_watermark}"

    def _partitions_at_end(self) -> Iterator[PartitionAtEnd]:
        for topic_partition in [
            TopicPartition(topic.name, number) for topic in self._topics_at_end() for number in range(topic.partitions)
        ]:
            state = stored_state(self.cluster, topic_partition)
            assert state is not None, "settled"
            replicas = self._replicas(topic_partition)
            yield PartitionAtEnd(
                topic_partition,
                state.leader,
                tuple(state.isr),
                tuple(read_replica(replica, broker_id) for broker_id, replica in replicas.items()),
            )

    def _replicas(self, topic_partition: TopicPartition) -> dict[int, Partition]:
        """On the brokers that serve, by their ids."""
        return {
            broker.broker_id: broker.core.replicas.partitions[topic_partition]
            for broker in self.cluster.brokers.values()
            if broker.state is ProcessState.RUNNING
            and broker.core is not None
            and topic_partition in broker.core.replicas.partitions
        }

    # While it runs

    def _after_step(self, loop: ProcessLoop) -> None:
        broker = self._brokers_by_loop_name.get(loop.name)
        if broker is None or broker.state not in _SERVING:
            return
        core = broker.core
        if not hasattr(core, "replicas"):  # its start has failed before that
            return
        assert core is not None
        looks = self._looks.get(loop.number)
        if looks is None:
            looks = self._looks[loop.number] = ChangedPartitions()
        changed = looks.look(core.replicas.partitions)
        if broker.state is _RUNNING:
            controller_epoch = core.local_topics.fence.controller_epoch
            self.step_rules.controllers_heard.note(broker.broker_id, loop.number, controller_epoch)
            if changed:
                self.step_rules.look(broker.broker_id, changed)
                self.sightings.look(broker, changed)
        if changed:
            self.committed.look(broker.broker_id, changed)

    def _on_stored(self, change: WatchEvent, value: bytes) -> None:
        self.sightings.on_stored(change, value)
        if change.kind not in (WatchKind.CREATED, WatchKind.CHANGED):
            return
        topic_partition = partition_of_state_path(change.path)
        if change.path.startswith(f"{paths.TOPICS}/") and change.path.count("/") == _TOPIC_PATH_SLASHES:
            topic = paths.decode_topic(change.path, value)
            name = change.path.rpartition("/")[2]
            if self.step_rules.on_topic(name, topic.topic_id):
                self.committed.forget(name)
        elif topic_partition is not None:
            state = paths.decode_partition_state(change.path, value)
            self.step_rules.leaders.note(topic_partition, state.leader_epoch, state.leader, source="the store")
            self.committed.on_stored(topic_partition, state)

    def _known_leader(
        self, broker_id: BrokerId, topic_partition: TopicPartition
    ) -> tuple[BrokerId, LeaderEpoch] | None:
        """As this broker itself knows it now; None if it does not serve."""
        broker = self.cluster.brokers[broker_id]
        if not broker.is_serving or broker.core is None:
            return None
        partition = broker.core.replicas.partitions.get(topic_partition)
        return None if partition is None else (partition.state.leader, partition.state.leader_epoch)

    def _on_unclean_election(self, topic_partition: TopicPartition) -> None:
        if topic_partition.topic == UNCLEAN_TOPIC:
            self.history.may_lose(topic_partition, "an unclean election")

    def _on_loss(self, topic_partition: TopicPartition) -> None:
        """All copies are lossy. What was fsynced before it was acknowledged must be there all the same."""
        if not self.settings.flush_messages:
            self.history.may_lose(topic_partition, "all replicas that had everything lost power")

    def _is_leading(self, broker_id: BrokerId, topic_partition: TopicPartition) -> bool:
        """Whether the broker leads in the epoch that the store has, and knows it."""
        state = stored_state(self.cluster, topic_partition)
        return state is not None and self._known_leader(broker_id, topic_partition) == (broker_id, state.leader_epoch)

    def _is_rebalancing(self) -> bool:
        return any(member.is_rebalancing for member in self.members)


def first_failure(seeds: Iterable[int], settings: RunSettings | None = None) -> tuple[int, Exception] | None:
    """The first of these seeds whose run breaks a rule or fails in another way, with the reason; None if none does."""
    for seed in seeds:
        try:
            SimulatedRun(seed, settings).run()
        except Exception as error:  # noqa: BLE001 - the caller judges it
            return seed, error
    return None


def _properties(settings: RunSettings) -> dict[str, str]:
    """As for the topic of the run, so for that of the groups."""
    properties = {
        "min.insync.replicas": str(min(settings.min_insync_replicas, settings.brokers)),
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": str(min(settings.replication_factor, settings.brokers)),
        "group.initial.rebalance.delay.ms": "200",
    }
    if settings.flush_messages:
        properties["log.flush.interval.messages"] = str(settings.flush_messages)
    return {**properties, **dict(settings.properties)}


class _Polled:
    """Whether a run has settled, looked at only now and then: to look costs more than a step."""

    __slots__ = ("_next_at", "_run")

    def __init__(self, run: SimulatedRun) -> None:
        self._run = run
        self._next_at = 0.0

    def __call__(self) -> bool:
        now = self._run.cluster.now
        if now < self._next_at:
            return False
        self._next_at = now + 0.1
        return next(self._run.unsettled(), None) is None
