"""Checks of what a request says about replicas: how many partitions, on which brokers. Pure functions."""

from collections.abc import Collection, Sequence

from ottla.controller.placement import Assignment
from ottla.controller.topic_faults import TopicFault
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

# A change is one transaction of the store, so this bounds what one request may add to a topic.
PARTITIONS_MAX = 20_000


def check_new_assignment(assignment: Assignment, live: Collection[BrokerId]) -> TopicFault | None:
    """The partitions of a new topic, sorted by number."""
    if not 0 < len(assignment) <= PARTITIONS_MAX:
        return impossible_count(len(assignment))
    if list(assignment) != list(range(len(assignment))):
        return _refused("partitions must be numbered from 0 without gaps")
    if len({len(replicas) for replicas in assignment.values()}) > 1:
        return _refused("every partition must have the same number of replicas")
    return check_replicas(assignment, live)


def check_added_assignment(
    added: Assignment, live: Collection[BrokerId], *, expected_partitions: int, replication_factor: int
) -> TopicFault | None:
    """Partitions that a topic shall have in addition."""
    if len(added) != expected_partitions:
        return _refused(f"{expected_partitions} partitions to be added, {len(added)} assignments given")
    for index, replicas in added.items():
        if len(replicas) != replication_factor:
            return _refused(
                f"partition {index}: {len(replicas)} replicas, those of the topic have {replication_factor}"
            )
    return check_replicas(added, live)


def check_replicas(assignment: Assignment, live: Collection[BrokerId]) -> TopicFault | None:
    """Every replica on a live broker, and on each only one."""
    for index, replicas in assignment.items():
        if not replicas or len(set(replicas)) != len(replicas):
            return _refused(f"partition {index}: replicas {list(replicas)} repeat or are none")
        unknown = [broker for broker in replicas if broker not in live]
        if unknown:
            return _refused(f"partition {index}: no live broker {unknown[0]}")
    return None


def check_replication_factor(replication_factor: int, live: Sequence[BrokerId]) -> TopicFault | None:
    if 0 < replication_factor <= len(live):
        return None
    return TopicFault(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"replication factor {replication_factor} asked for, {len(live)} brokers are alive",
    )


def impossible_count(partitions: int) -> TopicFault:
    return TopicFault(
        ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions asked for, 1 to {PARTITIONS_MAX} are possible"
    )


def _refused(message: str) -> TopicFault:
    return TopicFault(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
