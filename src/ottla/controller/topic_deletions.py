"""The replicas of topics that are being deleted: each broker is asked to delete its own, dead ones when they come back.

A topic's deletion is over when no broker has a replica of it any more (Kafka's TopicDeletionManager). Until then its
nodes stay, so that the next controller goes on with it.
"""

from collections.abc import Callable, Iterable

from ottla.controller.broadcast import Broadcast
from ottla.controller.replica_states import Replica, ReplicaPhase, ReplicaPhases
from ottla.controller.state import ClusterState
from ottla.core.cluster import TopicImage
from ottla.core.control import ControlAnswer, StoppedReplica, StopReplicas
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition

_GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class _Deletion:
    __slots__ = ("image", "on_done", "phases")

    def __init__(self, image: TopicImage, on_done: Callable[[], None]) -> None:
        self.image = image
        self.on_done = on_done
        self.phases = ReplicaPhases(
            Replica(TopicPartition(image.name, partition), broker_id)
            for partition, state in image.partitions.items()
            for broker_id in state.replicas
        )


class TopicDeletions:
    """Owned by one term of the controller. `on_waiting` gets a topic that waits for nothing but dead brokers."""

    def __init__(self, state: ClusterState, broadcast: Broadcast, on_waiting: Callable[[str], None]) -> None:
        self._state = state
        self._broadcast = broadcast
        self._on_waiting = on_waiting
        self._deletions: dict[str, _Deletion] = {}

    def start(self, image: TopicImage, on_done: Callable[[], None]) -> None:
        """Calls `on_done` when no broker has anything of the topic any more."""
        deletion = self._deletions[image.name] = _Deletion(image, on_done)
        for replica in deletion.phases.in_phase(ReplicaPhase.ONLINE):
            deletion.phases.move(replica, ReplicaPhase.OFFLINE)
            if replica.broker_id in self._state.brokers:
                self._stop(deletion, replica)
            else:
                deletion.phases.move(replica, ReplicaPhase.DELETION_INELIGIBLE)
        self._look_at(deletion)

    def is_waiting(self, topic: str) -> bool:
        """Whether a deletion can't go on before a dead broker comes back."""
        deletion = self._deletions.get(topic)
        return deletion is not None and not deletion.phases.in_phase(ReplicaPhase.DELETION_STARTED)

    def on_answer(self, broker_id: BrokerId, request: StopReplicas, answer: ControlAnswer) -> None:
        touched: dict[str, None] = {}
        for topic_partition, _, deletes in request.replicas:
            deletion = self._deletions.get(topic_partition.topic)
            replica = Replica(topic_partition, broker_id)
            if not deletes or deletion is None:
                continue
            if deletion.phases.phase_of(replica) is not ReplicaPhase.DELETION_STARTED:
                continue
            error = answer.error_code or answer.partitions.get(topic_partition, ErrorCode.NONE)
            is_gone = error in _GONE
            following = ReplicaPhase.DELETION_SUCCESSFUL if is_gone else ReplicaPhase.DELETION_INELIGIBLE
            deletion.phases.move(replica, following)
            touched[topic_partition.topic] = None
        self._look_at_all(touched)

    def on_broker_went(self, broker_id: BrokerId) -> None:
        for deletion in self._deletions.values():
            for replica in deletion.phases.in_phase(ReplicaPhase.DELETION_STARTED):
                if replica.broker_id == broker_id:
                    deletion.phases.move(replica, ReplicaPhase.DELETION_INELIGIBLE)
        self._look_at_all(list(self._deletions))

    def on_broker_came(self, broker_id: BrokerId) -> None:
        """It is asked before it hears of anything else, so that its old logs are deleted and not kept as stray ones."""
        for deletion in self._deletions.values():
            for replica in deletion.phases.in_phase(ReplicaPhase.DELETION_INELIGIBLE):
                if replica.broker_id == broker_id:
                    deletion.phases.move(replica, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE)
                    self._stop(deletion, replica)

    def close(self) -> None:
        """This broker does not control any more; who waits hears so."""
        deletions, self._deletions = self._deletions, {}
        for deletion in deletions.values():
            deletion.on_done()

    def _stop(self, deletion: _Deletion, replica: Replica) -> None:
        deletion.phases.move(replica, ReplicaPhase.DELETION_STARTED)
        leader_epoch = deletion.image.partitions[replica.topic_partition.partition].leader_epoch
        self._broadcast.stop(replica.broker_id, StoppedReplica(replica.topic_partition, leader_epoch, deletes=True))

    def _look_at_all(self, topics: Iterable[str]) -> None:
        for topic in topics:
            deletion = self._deletions.get(topic)
            if deletion is not None:
                self._look_at(deletion)

    def _look_at(self, deletion: _Deletion) -> None:
        name = deletion.image.name
        if deletion.phases.are_all(ReplicaPhase.DELETION_SUCCESSFUL):
            del self._deletions[name]
            deletion.on_done()
        elif self.is_waiting(name):
            self._on_waiting(name)
