"""The range and round-robin assignors: pure functions with the results of Kafka's own assignors.

Range: per topic, each member gets adjacent partitions; if the numbers are uneven, the first members get one more.
Round-robin: the members get all partitions of all topics in turn. Both sort the members, so every leader decides the
same.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.core.types import TopicPartition


class GroupMemberView(NamedTuple):
    """A member, for its group's leader."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None  # static members (KIP-345) keep their order over restarts
    owned: tuple[TopicPartition, ...] = ()  # the partitions that it kept when it joined
    generation_id: int = -1  # the generation in which it owned them
    user_data: bytes = b""

    @property
    def order(self) -> tuple[bool, str]:
        """Static members first, by instance id; then the others by member id."""
        return (self.instance_id is None, self.instance_id if self.instance_id is not None else self.member_id)


# Member id -> its partitions; every member has an entry.
Assignment: TypeAlias = dict[str, list[TopicPartition]]
# (members, topic -> number of partitions, without topics that don't exist).
Assignor: TypeAlias = Callable[[Sequence[GroupMemberView], Mapping[str, int]], Assignment]


def assign_range(members: Sequence[GroupMemberView], partition_counts: Mapping[str, int]) -> Assignment:
    """For each topic: partitions in order, one range for each subscriber."""
    ordered = sorted(members, key=lambda member: member.order)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    for topic in sorted(partition_counts):
        subscribers = [member.member_id for member in ordered if topic in member.topics]
        if not subscribers:
            continue
        each, left_over = divmod(partition_counts[topic], len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            end = start + each + (index < left_over)
            assignment[member_id] += [TopicPartition(topic, partition) for partition in range(start, end)]
            start = end
    return assignment


def assign_round_robin(members: Sequence[GroupMemberView], partition_counts: Mapping[str, int]) -> Assignment:
    """For each partition: the next member in the circle that subscribes to its topic."""
    ordered = sorted(members, key=lambda member: member.order)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    wanted = frozenset[str]().union(*(member.topics for member in ordered))
    turn = 0
    for topic in sorted(wanted & partition_counts.keys()):
        for partition in range(partition_counts[topic]):
            while topic not in ordered[turn].topics:
                turn = (turn + 1) % len(ordered)
            assignment[ordered[turn].member_id].append(TopicPartition(topic, partition))
            turn = (turn + 1) % len(ordered)
    return assignment


# By the names with which members agree on one; in order of preference.
ASSIGNORS: Final[Mapping[str, Assignor]] = {"range": assign_range, "roundrobin": assign_round_robin}
