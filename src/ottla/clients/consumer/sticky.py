"""The sticky assignors: as even as possible, with as few moved partitions as that needs.

Both use one algorithm. The eager one gets earlier owners from its members' user data, in Kafka's format; the
cooperative one (KIP-429) gets them from the partitions that members keep while they join, and gives a moved partition
to its next owner only after the old one revoked it: in the next rebalance.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from ottla.clients.assignors import Assignment, GroupMemberView
from ottla.clients.consumer_protocol import numbers_by_topic
from ottla.core.types import TopicPartition

NO_GENERATION: Final = -1
_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")


class Previous(NamedTuple):
    """The partitions that a member had, and in which generation."""

    topic_partitions: tuple[TopicPartition, ...]
    generation_id: int


def encode_sticky_data(topic_partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    """The eager assignor's user data: topics with their partitions, then the generation."""
    topics = numbers_by_topic(topic_partitions)
    out = bytearray(_INT32.pack(len(topics)))
    for topic, numbers in topics.items():
        name = topic.encode()
        out += _INT16.pack(len(name)) + name + _INT32.pack(len(numbers))
        for number in numbers:
            out += _INT32.pack(number)
    return bytes(out + _INT32.pack(generation_id))


def decode_sticky_data(data: bytes) -> Previous:
    """Old members send no generation; invalid data counts as no partitions, as in Kafka."""
    try:
        (topic_count,) = _INT32.unpack_from(data)
        position = 4
        topic_partitions: list[TopicPartition] = []
        for _ in range(topic_count):
            (length,) = _INT16.unpack_from(data, position)
            position += 2
            name = data[position : position + length]
            position += length
            (count,) = _INT32.unpack_from(data, position)
            position += 4
            numbers = Struct(f">{count}i").unpack_from(data, position) if 0 < count <= len(data) // 4 else ()
            if count != len(numbers) or length < 0:
                return Previous((), NO_GENERATION)
            position += 4 * count
            topic = name.decode()
            topic_partitions += [TopicPartition(topic, number) for number in numbers]
        generation_id = _INT32.unpack_from(data, position)[0] if position < len(data) else NO_GENERATION
    except (struct_error, UnicodeDecodeError):
        return Previous((), NO_GENERATION)
    return Previous(tuple(topic_partitions), generation_id)


def encode_cooperative_data(generation_id: int) -> bytes:
    """The cooperative assignor's user data is the generation, for leaders that don't read it from the subscription."""
    return _INT32.pack(generation_id)


def assign_sticky(members: Sequence[GroupMemberView], partition_counts: Mapping[str, int]) -> Assignment:
    previous = {
        member.member_id: decode_sticky_data(member.user_data)
        if member.user_data
        else Previous(member.owned, member.generation_id)
        for member in members
    }
    return _balance(members, partition_counts, previous)


def assign_cooperative_sticky(members: Sequence[GroupMemberView], partition_counts: Mapping[str, int]) -> Assignment:
    previous = {member.member_id: Previous(member.owned, _cooperative_generation(member)) for member in members}
    assignment = _balance(members, partition_counts, previous)
    owners = {topic_partition: member.member_id for member in members for topic_partition in member.owned}
    for member_id, topic_partitions in assignment.items():
        topic_partitions[:] = [
            topic_partition
            for topic_partition in topic_partitions
            if owners.get(topic_partition, member_id) == member_id
        ]
    return assignment


def _cooperative_generation(member: GroupMemberView) -> int:
    if member.generation_id == NO_GENERATION and len(member.user_data) >= _INT32.size:
        generation_id: int = _INT32.unpack_from(member.user_data)[0]
        return generation_id
    return member.generation_id


def _balance(
    members: Sequence[GroupMemberView], partition_counts: Mapping[str, int], previous: Mapping[str, Previous]
) -> Assignment:
    ordered = sorted(members, key=lambda member: member.order)
    subscribers: dict[str, list[str]] = {topic: [] for topic in sorted(partition_counts)}
    for member in ordered:
        for topic in member.topics & partition_counts.keys():
            subscribers[topic].append(member.member_id)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    kept = _still_owned(ordered, partition_counts, previous)
    for topic_partition, member_id in kept.items():
        assignment[member_id].append(topic_partition)
    _deal_out(assignment, subscribers, partition_counts, kept)
    _even_out(assignment, subscribers)
    return assignment


def _still_owned(
    members: Sequence[GroupMemberView], partition_counts: Mapping[str, int], previous: Mapping[str, Previous]
) -> dict[TopicPartition, str]:
    """Who keeps what. If two claim a partition, the later generation wins; within one generation neither does."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        topic_partitions, generation_id = previous[member.member_id]
        for topic_partition in topic_partitions:
            if topic_partition.topic not in member.topics or not 0 <= topic_partition.partition < partition_counts.get(
                topic_partition.topic, 0
            ):
                continue
            claimed = claims.get(topic_partition)
            if claimed is None or generation_id > claimed[0]:
                claims[topic_partition] = (generation_id, member.member_id)
            elif generation_id == claimed[0] and claimed[1] != member.member_id:
                claims[topic_partition] = (generation_id, None)
    return {topic_partition: owner for topic_partition, (_, owner) in claims.items() if owner is not None}


def _deal_out(
    assignment: Assignment,
    subscribers: Mapping[str, list[str]],
    partition_counts: Mapping[str, int],
    kept: Mapping[TopicPartition, str],
) -> None:
    """Assign free partitions to the members that have least, first those of topics with few subscribers."""
    rank = {member_id: index for index, member_id in enumerate(assignment)}
    for topic in sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic)):
        free = [
            topic_partition
            for topic_partition in _places(topic, partition_counts[topic])
            if topic_partition not in kept
        ]
        if not free or not subscribers[topic]:
            continue
        waiting = [(len(assignment[member_id]), rank[member_id], member_id) for member_id in subscribers[topic]]
        heapify(waiting)
        for topic_partition in free:
            count, turn, member_id = waiting[0]
            assignment[member_id].append(topic_partition)
            heapreplace(waiting, (count + 1, turn, member_id))


def _even_out(assignment: Assignment, subscribers: Mapping[str, list[str]]) -> None:
    """Move partitions away from the members that have most, while a move makes two members more equal.

    Each move lowers the sum of the squares of the counts, so this ends.
    """
    moved = True
    while moved:
        moved = False
        for member_id in sorted(assignment, key=lambda each: -len(assignment[each])):
            topic_partitions = assignment[member_id]
            for topic_partition in reversed(topic_partitions.copy()):
                least = min(subscribers[topic_partition.topic], key=lambda each: len(assignment[each]))
                if len(assignment[least]) + 1 < len(topic_partitions):
                    topic_partitions.remove(topic_partition)
                    assignment[least].append(topic_partition)
                    moved = True


def _places(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]
