"""Which brokers hold which partitions: placed by the controller, or checked where a request says it. Pure functions."""

from collections import Counter
from collections.abc import Collection, Sequence

from ottla.controller.topic_faults import TopicFault
from ottla.core.cluster import NO_LEADER, PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_LEADER_EPOCH, BrokerId

Assignment = dict[int, tuple[BrokerId, ...]]

# What one request may add to a topic: its node must fit into the store.
PARTITIONS_MAX = 20_000


def place(
    brokers: Sequence[BrokerId], *, partitions: int, replication_factor: int, first_broker: int, first_shift: int
) -> Assignment:
    """Assign replicas to brokers, the leader first: round-robin from a start, followers shifted so that they spread.

    Leaders go round the brokers from `first_broker` on. The distance from a leader to its followers grows by one with
    each full round, so that the load of a dead broker is spread over all others, not over its neighbour alone.
    """
    ring = sorted(brokers)
    count = len(ring)
    assert 0 < replication_factor <= count, f"{replication_factor} replicas on {count} brokers"
    assignment: Assignment = {}
    shift = first_shift
    for partition in range(partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + first_broker) % count
        followers = ((leader + 1 + (shift + i) % (count - 1)) % count for i in range(replication_factor - 1))
        assignment[partition] = (ring[leader], *(ring[i] for i in followers))
    return assignment


def first_states(assignment: Assignment, *, led_at_once_max: int) -> dict[int, PartitionState]:
    """New partitions, all led by their first replicas, or all without a leader if they are too many."""
    if len(assignment) > led_at_once_max:
        return {
            partition: PartitionState(NO_LEADER, NO_LEADER_EPOCH, (), replicas)
            for partition, replicas in assignment.items()
        }
    return {
        partition: PartitionState(leader=replicas[0], leader_epoch=0, isr=replicas, replicas=replicas)
        for partition, replicas in assignment.items()
    }


def check_new_assignment(assignment: Assignment, live: Collection[BrokerId]) -> TopicFault | None:
    """The partitions of a new topic, sorted by number."""
    if not 0 < len(assignment) <= PARTITIONS_MAX:
        return impossible_count(len(assignment))
    if list(assignment) != list(range(len(assignment))):
        return _refused("partitions should be a consecutive 0-based integer sequence")
    return check_replicas(assignment, live) or _check_counts(assignment, len(assignment[0]))


def check_added_assignment(
    added: Assignment, live: Collection[BrokerId], *, expected_partitions: int, replication_factor: int
) -> TopicFault | None:
    """Partitions that a topic shall have in addition."""
    if len(added) != expected_partitions:
        return _refused(
            f"Attempted to add {expected_partitions} additional partition(s), but only {len(added)} assignment(s) were "
            "specified."
        )
    return check_replicas(added, live) or _check_counts(added, replication_factor)


def check_replicas(assignment: Assignment, live: Collection[BrokerId]) -> TopicFault | None:
    """Every replica on a live broker, and on each only one."""
    for replicas in assignment.values():
        if not replicas:
            return _refused("The manual partition assignment includes an empty replica list.")
        if len(set(replicas)) < len(replicas):
            repeated = Counter(replicas).most_common(1)[0][0]
            return _refused(f"The manual partition assignment includes the broker {repeated} more than once.")
        unknown = [broker for broker in replicas if broker not in live]
        if unknown:
            return _refused(
                f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
            )
    return None


def _check_counts(assignment: Assignment, replication_factor: int) -> TopicFault | None:
    for replicas in assignment.values():
        if len(replicas) != replication_factor:
            return _refused(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {replication_factor} replica(s)."
            )
    return None


def check_replication_factor(replication_factor: int, live: Sequence[BrokerId]) -> TopicFault | None:
    if 0 < replication_factor <= len(live):
        return None
    if replication_factor <= 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
    else:
        message = (
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(live)} broker(s) are registered."
        )
    return TopicFault(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def impossible_count(partitions: int) -> TopicFault:
    if partitions <= 0:
        message = "Number of partitions was set to an invalid non-positive value."
    else:
        message = f"Number of partitions was set to {partitions}, at most {PARTITIONS_MAX} are possible."
    return TopicFault(ErrorCode.INVALID_PARTITIONS, message)


def _refused(message: str) -> TopicFault:
    return TopicFault(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
