"""Where the replicas of a new topic go: round-robin from a start, followers shifted so that they spread."""

from collections.abc import Sequence

from ottla.core.types import BrokerId

Assignment = dict[int, tuple[BrokerId, ...]]


def place(
    brokers: Sequence[BrokerId], *, partitions: int, replication_factor: int, first_broker: int, first_shift: int
) -> Assignment:
    """Assign replicas to brokers, the leader first.

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
