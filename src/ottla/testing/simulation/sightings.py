"""What a run has shown of what a cluster can do, counted: a run that shows nothing proves nothing."""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.coordination import paths
from ottla.coordination.store import WatchEvent, WatchKind
from ottla.core.cluster import NO_LEADER, OFFSETS_TOPIC
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.replication.partition import Partition
from ottla.testing.simulation.process import SimulatedBroker

LEADER_CHANGED: Final = "leader changed"
LEADER_LOST: Final = "no leader left"
UNCLEAN_ELECTION: Final = "unclean election"
ELIGIBLE_ELECTION: Final = "eligible replica elected"
LOSSY_ELECTION: Final = "least lossy replica elected"
LOSSY_START: Final = "lossy start"
ISR_SHRUNK: Final = "in-sync replicas shrunk"
ISR_GROWN: Final = "in-sync replicas grown"
CONTROLLER_CHANGED: Final = "controller changed"
REGISTRATION_LOST: Final = "registration of a live broker lost"
TRUNCATION: Final = "truncation"
LOG_START_MOVED: Final = "log start moved"
LOSSY_CRASH: Final = "lossy crash"
TOPIC_DELETED_WITH_DEAD_REPLICA: Final = "topic deleted with a dead replica"
COORDINATOR_MOVED: Final = "coordinator moved"
COORDINATOR_MOVED_IN_REBALANCE: Final = "coordinator moved in a rebalance"

_STATE_PATH_PARTS: Final = 7  # "", brokers, topics, T, partitions, N, state


def partition_of_state_path(path: str) -> TopicPartition | None:
    """None for the path of any other node."""
    parts = path.split("/")
    if len(parts) != _STATE_PATH_PARTS or parts[-1] != "state" or parts[2] != "topics":
        return None
    return TopicPartition(parts[3], int(parts[5]))


class Sightings:
    """Made by a run, which shows it every change of the store, and every broker after each of its steps."""

    def __init__(self, brokers: dict[BrokerId, SimulatedBroker], is_rebalancing: Callable[[], bool]) -> None:
        self.counts: dict[str, int] = {}
        self._brokers = brokers
        self._is_rebalancing = is_rebalancing
        self._states: dict[TopicPartition, paths.PartitionState] = {}
        self._eligible: dict[TopicPartition, paths.EligibleReplicas] = {}
        self._leaders: dict[TopicPartition, BrokerId] = {}  # the last one that there was
        self.on_loss: Callable[[TopicPartition], None] = lambda _: None  # one that lost something leads
        self._controller: BrokerId | None = None
        # By life of a process and partition: (log start, log end, topic id).
        self._logs: dict[tuple[int, tuple[str, int]], tuple[Offset, Offset, bytes]] = {}
        # By broker and partition, for the lives to come: (boots, log end, topic id).
        self._last_ends: dict[tuple[BrokerId, tuple[str, int]], tuple[int, Offset, bytes]] = {}
        self.on_unclean_election: Callable[[TopicPartition], None] | None = None

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def on_stored(self, change: WatchEvent, value: bytes) -> None:
        if change.kind == WatchKind.CHILDREN_CHANGED:
            return
        path = change.path
        topic_partition = partition_of_state_path(path)
        if topic_partition is not None:
            if change.kind == WatchKind.DELETED:
                self._states.pop(topic_partition, None)
                self._leaders.pop(topic_partition, None)
            else:
                self._on_state(topic_partition, paths.decode_partition_state(path, value))
        elif path.startswith(f"{paths.ELIGIBLE}/"):
            self._on_eligible(change, value)
        elif path == paths.CONTROLLER and change.kind != WatchKind.DELETED:
            controller = paths.decode_controller(path, value).broker_id
            if self._controller not in (None, controller):
                self.count(CONTROLLER_CHANGED)
            self._controller = controller
        elif path.startswith(f"{paths.DELETE_TOPICS}/") and change.kind == WatchKind.CREATED:
            if not all(broker.is_up for broker in self._brokers.values()):
                self.count(TOPIC_DELETED_WITH_DEAD_REPLICA)
        elif (
            path.startswith(f"{paths.BROKER_IDS}/")
            and change.kind == WatchKind.DELETED
            and self._brokers[int(path.rpartition("/")[2])].is_serving
        ):
            self.count(REGISTRATION_LOST)

    def _on_eligible(self, change: WatchEvent, value: bytes) -> None:
        topic_partition = paths.partition_of_eligible(change.path.rpartition("/")[2])
        before = self._eligible.pop(topic_partition, paths.EligibleReplicas(()))
        if change.kind == WatchKind.DELETED:
            return
        node = self._eligible[topic_partition] = paths.decode_eligible(change.path, value)
        if node.lossy != before.lossy and node.lossy:
            self.count(LOSSY_START)

    def _on_state(self, topic_partition: TopicPartition, state: paths.PartitionState) -> None:
        before = self._states.get(topic_partition)
        self._states[topic_partition] = state
        if before is None:
            self._leaders[topic_partition] = state.leader
            return
        if len(state.isr) > len(before.isr):
            self.count(ISR_GROWN)
        if len(state.isr) < len(before.isr):
            self.count(ISR_SHRUNK)
        if state.leader == NO_LEADER:
            self.count(LEADER_LOST)
            return
        if state.leader not in before.isr and state.leader != before.leader:
            # The state comes before the eligible replicas that were written with it: these are the ones before.
            node = self._eligible.get(topic_partition, paths.EligibleReplicas(()))
            if state.leader in node.eligible:
                self.count(ELIGIBLE_ELECTION)
            elif not before.isr and not node.eligible and state.leader in [one.broker_id for one in node.lossy]:
                self.count(LOSSY_ELECTION)
                self.on_loss(topic_partition)
            else:
                self.count(UNCLEAN_ELECTION)
                if self.on_unclean_election is not None:
                    self.on_unclean_election(topic_partition)
        if state.leader != self._leaders.get(topic_partition, state.leader):
            self.count(LEADER_CHANGED)
            if topic_partition.topic == OFFSETS_TOPIC:
                self.count(COORDINATOR_MOVED)
                if self._is_rebalancing():
                    self.count(COORDINATOR_MOVED_IN_REBALANCE)
        self._leaders[topic_partition] = state.leader

    def look(self, broker: SimulatedBroker, changed: Iterable[Partition]) -> None:
        """At what has changed of a broker that serves, after a step of it."""
        life, logs = broker.loop.number, self._logs
        for partition in changed:
            topic_partition, log = partition.topic_partition, partition.log
            bounds = (log.log_start_offset, log.log_end_offset, partition.topic_id)
            before = logs.get((life, topic_partition))
            if before == bounds:
                continue
            logs[life, topic_partition] = bounds
            if before is None:
                self._look_for_a_loss(broker, topic_partition, bounds[1], partition.topic_id)
            elif before[2] == partition.topic_id:
                if bounds[1] < before[1]:
                    self.count(TRUNCATION)
                if bounds[0] > before[0]:
                    self.count(LOG_START_MOVED)
            self._last_ends[broker.broker_id, topic_partition] = (broker.boots, bounds[1], partition.topic_id)

    def _look_for_a_loss(
        self, broker: SimulatedBroker, topic_partition: tuple[str, int], log_end_offset: Offset, topic_id: bytes
    ) -> None:
        """At a log of a new life: whether it ends before it did when the machine lost its power."""
        boots, last_end, last_id = self._last_ends.get((broker.broker_id, topic_partition), (0, 0, topic_id))
        if boots not in (0, broker.boots) and last_id == topic_id and log_end_offset < last_end:
            self.count(LOSSY_CRASH)
