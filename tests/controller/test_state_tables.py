"""Partitions and replicas go from state to state only as the tables say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller import partition_states, replica_states
from ottla.controller.partition_states import PartitionPhase, is_legal, phase_of
from ottla.controller.replica_states import Replica, ReplicaPhase, ReplicaPhases
from ottla.core.cluster import NO_LEADER, PartitionState
from ottla.core.types import NO_LEADER_EPOCH, TopicPartition

REPLICA = Replica(TopicPartition("orders", 0), 1)


def test_every_state_has_a_row() -> None:
    assert set(partition_states.LEGAL_PREVIOUS) == set(PartitionPhase)
    assert set(replica_states.LEGAL_PREVIOUS) == set(ReplicaPhase)


def test_partition_is_new_until_it_was_ever_led() -> None:
    assert phase_of(None, {1}) is PartitionPhase.NON_EXISTENT
    assert phase_of(PartitionState(NO_LEADER, NO_LEADER_EPOCH, (), (1,)), {1}) is PartitionPhase.NEW
    assert phase_of(PartitionState(1, 0, (1,), (1,)), {1}) is PartitionPhase.ONLINE
    assert phase_of(PartitionState(1, 0, (1,), (1,)), {2}) is PartitionPhase.OFFLINE
    assert phase_of(PartitionState(NO_LEADER, 3, (1,), (1,)), {1}) is PartitionPhase.OFFLINE


def test_partition_that_was_led_is_never_new_again() -> None:
    for phase in (PartitionPhase.ONLINE, PartitionPhase.OFFLINE, PartitionPhase.NEW):
        assert not is_legal(phase, PartitionPhase.NEW)


@given(st.lists(st.sampled_from(ReplicaPhase), max_size=8))
def test_replica_moves_only_along_the_table(phases: list[ReplicaPhase]) -> None:
    replicas = ReplicaPhases([REPLICA])
    for phase in phases:
        before = replicas.phase_of(REPLICA)
        if before in replica_states.LEGAL_PREVIOUS[phase]:
            replicas.move(REPLICA, phase)
            assert replicas.in_phase(phase) == [REPLICA]
            assert replicas.are_all(phase)
        else:
            with pytest.raises(AssertionError, match="can't become"):
                replicas.move(REPLICA, phase)
            assert replicas.phase_of(REPLICA) is before


def test_replica_of_a_dead_broker_is_deleted_when_it_comes_back() -> None:
    replicas = ReplicaPhases([REPLICA])
    replicas.move(REPLICA, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE)
    replicas.move(REPLICA, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED)
    replicas.move(REPLICA, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT)
