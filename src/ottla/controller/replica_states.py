"""The states of a replica, as the controller sees it, with the legal previous states of each."""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from ottla.core.types import BrokerId, TopicPartition


class ReplicaPhase(IntEnum):
    """Kafka's ReplicaState."""

    NON_EXISTENT = 0
    NEW = 1  # can become a follower
    ONLINE = 2  # leader or follower
    OFFLINE = 3  # its broker or its log directory is gone
    DELETION_STARTED = 4  # its broker was sent a request to delete it
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6  # its broker is dead, or could not delete it; tried again when it comes


LEGAL_PREVIOUS: dict[ReplicaPhase, tuple[ReplicaPhase, ...]] = {
    ReplicaPhase.NON_EXISTENT: (ReplicaPhase.DELETION_SUCCESSFUL,),
    ReplicaPhase.NEW: (ReplicaPhase.NON_EXISTENT,),
    ReplicaPhase.ONLINE: (
        ReplicaPhase.NEW,
        ReplicaPhase.ONLINE,
        ReplicaPhase.OFFLINE,
        ReplicaPhase.DELETION_INELIGIBLE,
    ),
    ReplicaPhase.OFFLINE: (
        ReplicaPhase.NEW,
        ReplicaPhase.ONLINE,
        ReplicaPhase.OFFLINE,
        ReplicaPhase.DELETION_INELIGIBLE,
    ),
    ReplicaPhase.DELETION_STARTED: (ReplicaPhase.OFFLINE,),
    ReplicaPhase.DELETION_SUCCESSFUL: (ReplicaPhase.DELETION_STARTED,),
    ReplicaPhase.DELETION_INELIGIBLE: (ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED),
}


class Replica(NamedTuple):
    """One copy of a partition."""

    topic_partition: TopicPartition
    broker_id: BrokerId


class ReplicaPhases:
    """The replicas of a topic that is being deleted. A transition that the table does not have is a bug."""

    __slots__ = ("_phases",)

    def __init__(self, replicas: Iterable[Replica]) -> None:
        self._phases = dict.fromkeys(replicas, ReplicaPhase.ONLINE)

    def move(self, replica: Replica, *phases: ReplicaPhase) -> None:
        """Through all of these, in order."""
        phase = self._phases[replica]
        for following in phases:
            assert phase in LEGAL_PREVIOUS[following], f"{replica}: {phase.name} can't become {following.name}"
            phase = following
        self._phases[replica] = phase

    def phase_of(self, replica: Replica) -> ReplicaPhase:
        return self._phases.get(replica, ReplicaPhase.NON_EXISTENT)

    def in_phase(self, phase: ReplicaPhase) -> list[Replica]:
        return [replica for replica, found in self._phases.items() if found is phase]

    def are_all(self, phase: ReplicaPhase) -> bool:
        return all(found is phase for found in self._phases.values())
