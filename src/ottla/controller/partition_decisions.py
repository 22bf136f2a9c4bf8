"""What becomes of one partition as the cluster is now: Kafka's partition state machine as one pure function.

It looks at what is, not at what happened: asked twice it says the same, and asked about a partition in order it says
that nothing is to be done. So whoever suspects a change may ask.
"""

from enum import IntEnum

from ottla.controller.leader_selectors import (
    Selection,
    select_controlled_shutdown,
    select_offline,
    select_preferred,
    select_same,
)
from ottla.controller.partition_states import is_legal, phase_of
from ottla.controller.state import ClusterState
from ottla.core.cluster import NO_LEADER, PartitionState, eligible_after
from ottla.core.types import NO_LEADER_EPOCH, BrokerId, TopicPartition


class Strategy(IntEnum):
    """How the leader is chosen; a larger one includes the ones before it."""

    AUTOMATIC = 0  # whoever leads goes on, if it can
    PREFERRED = 1  # the first replica of the assignment, if it can lead
    UNCLEAN = 2  # any replica that is online, where nobody leads


def decide_partition(
    topic_partition: TopicPartition,
    state: PartitionState,
    cluster: ClusterState,
    strategy: Strategy,
    *,
    is_unclean_allowed: bool,
    min_isr: int = 1,
) -> PartitionState | None:
    """The next state, with the version that its node has now; None: it stays as it is."""
    online = [replica for replica in state.replicas if cluster.is_online(replica, topic_partition)]
    if state.leader_epoch == NO_LEADER_EPOCH:
        return PartitionState(online[0], 0, tuple(online), state.replicas) if online else None
    leader = state.leader
    if leader in online:
        decided = _go_on(state, online, strategy, min_isr)
    elif leader in cluster.brokers and leader in cluster.shutting_down:
        selection = select_controlled_shutdown(
            state.replicas, state.isr, online=online, shutting_down=cluster.shutting_down
        )
        decided = None if selection is None else _elected(state, selection, min_isr)
    else:
        allows_unclean = is_unclean_allowed or strategy is Strategy.UNCLEAN
        selection = select_offline(
            state.replicas,
            state.isr,
            online=online,
            is_unclean_allowed=allows_unclean,
            eligible=state.eligible or (),
            lossy=state.lossy,
        )
        if selection is not None:
            decided = _elected(state, selection, min_isr)
        elif leader != NO_LEADER:
            # All in-sync replicas stay: each of them has what was acknowledged, so any of them may lead again.
            decided = state._replace(leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)
        else:
            decided = None
    if decided is not None:
        before, after = phase_of(state, cluster.brokers), phase_of(decided, cluster.brokers)
        assert is_legal(before, after), f"{topic_partition}: {before.name} can't become {after.name}"
    return decided


def _go_on(state: PartitionState, online: list[BrokerId], strategy: Strategy, min_isr: int) -> PartitionState | None:
    if strategy is Strategy.PREFERRED and state.leader != state.replicas[0]:
        selection = select_preferred(state.replicas, state.isr, online=online)
        if selection is not None:
            return _elected(state, selection, min_isr)
    # Who left the cluster leaves the in-sync replicas, or writes would wait for it. The leader's epoch stays: clients
    # need no other leader, and nothing that waits there is lost.
    selection = select_same(state.leader, [replica for replica in state.isr if replica in online])
    if selection is None or selection.isr == state.isr:
        return None
    return state._replace(isr=selection.isr, eligible=eligible_after(state, selection.isr, min_isr=min_isr))


def _elected(state: PartitionState, selection: Selection, min_isr: int) -> PartitionState:
    if selection.leader in (*state.isr, *(state.eligible or ())):
        eligible = eligible_after(state, selection.isr, min_isr=min_isr)
    else:  # with a loss: what is committed is what the leader has, and nobody else can be said to have that
        eligible = None if state.eligible is None else ()
    return state._replace(
        leader=selection.leader,
        leader_epoch=state.leader_epoch + 1,
        isr=selection.isr,
        eligible=eligible,
        lossy=(),
    )
