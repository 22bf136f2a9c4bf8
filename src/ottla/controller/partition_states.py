"""The states of a partition, as the controller sees it, with the legal previous states of each."""

from collections.abc import Container
from enum import IntEnum

from ottla.core.cluster import NO_LEADER, PartitionState
from ottla.core.types import NO_LEADER_EPOCH, BrokerId


class PartitionPhase(IntEnum):
    """Kafka's PartitionState."""

    NON_EXISTENT = 0  # never made, or deleted
    NEW = 1  # assigned to brokers; no leader was ever elected
    ONLINE = 2  # a live broker leads it
    OFFLINE = 3  # its leader is gone, and nobody could take its place yet


LEGAL_PREVIOUS: dict[PartitionPhase, tuple[PartitionPhase, ...]] = {
    PartitionPhase.NON_EXISTENT: (PartitionPhase.OFFLINE,),
    PartitionPhase.NEW: (PartitionPhase.NON_EXISTENT,),
    PartitionPhase.ONLINE: (PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE),
    PartitionPhase.OFFLINE: (PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE),
}


def phase_of(state: PartitionState | None, live: Container[BrokerId]) -> PartitionPhase:
    """What a partition is in, by its state in the store and the brokers that live."""
    if state is None:
        return PartitionPhase.NON_EXISTENT
    if state.leader_epoch == NO_LEADER_EPOCH:
        return PartitionPhase.NEW
    if state.leader == NO_LEADER or state.leader not in live:
        return PartitionPhase.OFFLINE
    return PartitionPhase.ONLINE


def is_legal(previous: PartitionPhase, phase: PartitionPhase) -> bool:
    return previous in LEGAL_PREVIOUS[phase]
