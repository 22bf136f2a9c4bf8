"""Requests to elect leaders: for each partition either why there is no election, or what came of it."""

from collections.abc import Callable
from typing import TypeAlias

from ottla.controller.partition_decisions import Strategy
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.state import ClusterState
from ottla.controller.topic_faults import TopicFault, not_controller, unknown_partition, unknown_topic
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition

ElectionOutcomes: TypeAlias = dict[TopicPartition, TopicFault | None]


def elect_leaders(
    state: ClusterState,
    elections: PartitionElections,
    strategy: Strategy,
    partitions: list[TopicPartition] | None,
    on_done: Callable[[ElectionOutcomes | TopicFault], None],
) -> None:
    """Calls `on_done` when the elections are over. Without names, partitions that need no election are left out."""
    named = [found for found, _ in state.partitions()] if partitions is None else partitions
    outcomes: ElectionOutcomes = {}
    for topic_partition in named:
        outcomes[topic_partition] = _reason_against(state, strategy, topic_partition)
    if partitions is None:
        outcomes = {
            found: fault
            for found, fault in outcomes.items()
            if fault is None or fault.error_code != ErrorCode.ELECTION_NOT_NEEDED
        }
    wanted = [found for found, fault in outcomes.items() if fault is None]
    elections.want(wanted, strategy)

    def on_idle() -> None:
        for topic_partition in wanted:
            fault = _reason_against(state, strategy, topic_partition)
            if fault is None:
                outcomes[topic_partition] = _not_available(state, strategy, topic_partition)
            elif fault.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                outcomes[topic_partition] = fault
        on_done(outcomes)

    elections.when_idle(on_idle, lambda: on_done(not_controller()))


def _reason_against(state: ClusterState, strategy: Strategy, topic_partition: TopicPartition) -> TopicFault | None:
    name, number = topic_partition
    image = state.find(name)
    if image is None:
        return unknown_topic(name)
    partition = image.partitions.get(number)
    if partition is None:
        return unknown_partition(name, number)
    has_leader = state.is_online(partition.leader, topic_partition)
    if strategy is Strategy.UNCLEAN:
        is_needed = not has_leader
    else:
        is_needed = not has_leader or partition.leader != partition.replicas[0]
    if is_needed:
        return None
    return TopicFault(ErrorCode.ELECTION_NOT_NEEDED, f"{topic_partition}: broker {partition.leader} leads it")


def _not_available(state: ClusterState, strategy: Strategy, topic_partition: TopicPartition) -> TopicFault:
    partition = state.topics[topic_partition.topic].partitions[topic_partition.partition]
    if strategy is Strategy.UNCLEAN:
        return TopicFault(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"{topic_partition}: no broker can take it over, its replicas are on {list(partition.replicas)}",
        )
    return TopicFault(
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        f"{topic_partition}: broker {partition.replicas[0]}, its preferred leader, can't take it over",
    )
