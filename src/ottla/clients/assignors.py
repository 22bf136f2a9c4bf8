"""How the leader of a group shares partitions out among its members: pure functions, as Kafka's own assignors do it.

Range: per topic, neighbouring partitions; the first members have one more when it doesn't come out even. Round-robin:
all partitions of all topics dealt out in turn. Both look at members in one order, so every leader decides the same.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.core.types import TopicPartition


class GroupMemberView(NamedTuple):
    """A member as its group's leader sees it."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None  # static members (KIP-345) keep their place in the order over restarts
    owned: tuple[TopicPartition, ...] = ()  # what it has not given up before it joined
    generation_id: int = -1  # in which it owned that
    user_data: bytes = b""

    @property
    def order(self) -> tuple[bool, str]:
        """Static members first, by their own names; then the others by what the coordinator named them."""
        return (self.instance_id is None, self.instance_id if self.instance_id is not None else self.member_id)


# Member id -> its partitions; every member has an entry.
Assignment: TypeAlias = dict[str, list[TopicPartition]]
# (members, topic -> number of partitions; topics that don't exist are not in it).
Assignor: TypeAlias = Callable[[Sequence[GroupMemberView], Mapping[str, int]], Assignment]


def assign_range(members: Sequence[GroupMemberView], partition_counts: Mapping[str, int]) -> Assignment:
    """Topic by topic: partitions in order, cut into as many ranges as there are subscribers."""
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
    """Partition by partition: the next member in the circle that wants its topic."""
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


# By the names under which members agree on one; in order of preference.
ASSIGNORS: Final[Mapping[str, Assignor]] = {"range": assign_range, "roundrobin": assign_round_robin}
