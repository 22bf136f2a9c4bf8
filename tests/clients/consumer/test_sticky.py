"""The sticky assignors: even, faithful, and readable for the members of other clients."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.assignors import Assignment, GroupMemberView
from ottla.clients.consumer.sticky import (
    Previous,
    assign_cooperative_sticky,
    assign_sticky,
    decode_sticky_data,
    encode_cooperative_data,
    encode_sticky_data,
)
from ottla.clients.consumer.strategies import Strategies, parse_strategies, user_data_of
from ottla.core.types import TopicPartition

TOPICS = ("t", "u", "v")


def member(
    member_id: str, *topics: str, owned: Sequence[TopicPartition] = (), generation_id: int = 1
) -> GroupMemberView:
    return GroupMemberView(
        member_id, frozenset(topics), None, tuple(owned), generation_id, encode_sticky_data(owned, generation_id)
    )


def is_balanced(members: Sequence[GroupMemberView], assignment: Assignment) -> bool:
    """Nobody could be given a partition of somebody who has two more."""
    wants = {member.member_id: member.topics for member in members}
    return not any(
        len(assignment[rich]) >= len(assignment[poor]) + 2 and topic_partition.topic in wants[poor]
        for rich in assignment
        for topic_partition in assignment[rich]
        for poor in assignment
    )


def check(members: Sequence[GroupMemberView], counts: dict[str, int], assignment: Assignment) -> None:
    wanted = {topic for member in members for topic in member.topics}
    topic_partitions = [
        TopicPartition(topic, number) for topic in counts if topic in wanted for number in range(counts[topic])
    ]
    assert Counter(topic_partition for each in assignment.values() for topic_partition in each) == Counter(
        topic_partitions
    )
    for view in members:
        assert {topic_partition.topic for topic_partition in assignment[view.member_id]} <= view.topics
    assert is_balanced(members, assignment)


COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1)
SUBSCRIPTIONS = st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=5)


@settings(deadline=None, max_examples=80)
@given(COUNTS, SUBSCRIPTIONS, SUBSCRIPTIONS)
def test_every_partition_has_one_reader_and_nobody_could_be_served_better(
    counts: dict[str, int], before: list[set[str]], after: list[set[str]]
) -> None:
    members = [member(f"m{index}", *topics) for index, topics in enumerate(before)]
    assignment = assign_sticky(members, counts)
    check(members, counts, assignment)
    members = [
        member(f"m{index}", *topics, owned=assignment.get(f"m{index}", [])) for index, topics in enumerate(after)
    ]
    check(members, counts, assign_sticky(members, counts))


@settings(deadline=None, max_examples=60)
@given(COUNTS, SUBSCRIPTIONS)
def test_an_even_assignment_stays_as_it_is(counts: dict[str, int], subscriptions: list[set[str]]) -> None:
    members = [member(f"m{index}", *topics) for index, topics in enumerate(subscriptions)]
    first = assign_sticky(members, counts)
    again = [member(view.member_id, *view.topics, owned=first[view.member_id], generation_id=2) for view in members]
    second = assign_sticky(again, counts)
    assert {name: set(topic_partitions) for name, topic_partitions in second.items()} == {
        name: set(each) for name, each in first.items()
    }
    third = assign_cooperative_sticky(again, counts)
    assert {name: set(topic_partitions) for name, topic_partitions in third.items()} == {
        name: set(each) for name, each in first.items()
    }


def test_who_leaves_gives_away_and_nobody_else_does() -> None:
    counts = {"t": 6}
    first = assign_sticky([member(name, "t") for name in "abc"], counts)
    second = assign_sticky([member(name, "t", owned=first[name]) for name in "ab"], counts)
    assert set(first["a"]) < set(second["a"])
    assert set(first["b"]) < set(second["b"])
    assert len(second["a"]) == len(second["b"]) == 3


def test_a_newcomer_takes_no_more_than_its_share() -> None:
    counts = {"t": 4}
    first = assign_sticky([member(name, "t") for name in "ab"], counts)
    members = [member("a", "t", owned=first["a"]), member("b", "t", owned=first["b"]), member("c", "t")]
    second = assign_sticky(members, counts)
    moved = set(second["c"])
    assert len(moved) == 1
    assert set(second["a"]) | set(second["b"]) | moved == set(first["a"]) | set(first["b"])
    assert set(second["a"]) <= set(first["a"])
    assert set(second["b"]) <= set(first["b"])


def test_cooperatively_a_partition_that_moves_waits_for_the_next_rebalance() -> None:
    counts = {"t": 4}
    owned = [TopicPartition("t", number) for number in range(4)]
    first = assign_cooperative_sticky([member("a", "t", owned=owned), member("b", "t")], counts)
    assert len(first["a"]) == 2
    assert first["b"] == []
    second = assign_cooperative_sticky([member("a", "t", owned=first["a"], generation_id=2), member("b", "t")], counts)
    assert second["a"] == first["a"]
    assert set(second["b"]) == set(owned) - set(first["a"])


def test_of_two_that_claim_a_partition_the_later_generation_is_right() -> None:
    topic_partition = TopicPartition("t", 0)
    members = [
        member("a", "t", owned=[topic_partition], generation_id=1),
        member("b", "t", owned=[topic_partition], generation_id=2),
    ]
    assert assign_sticky(members, {"t": 1}) == {"a": [], "b": [topic_partition]}


def test_user_data_is_coded_as_kafka_has_it() -> None:
    topic_partitions = [TopicPartition("ab", 0), TopicPartition("ab", 2), TopicPartition("c", 1)]
    data = encode_sticky_data(topic_partitions, 5)
    assert data == bytes.fromhex("00000002 0002 6162 00000002 00000000 00000002 0001 63 00000001 00000001 00000005")
    assert decode_sticky_data(data) == Previous(tuple(topic_partitions), 5)
    assert decode_sticky_data(data[:-4]) == Previous(
        tuple(topic_partitions), -1
    )  # of members before the generation was there
    assert encode_cooperative_data(7) == b"\0\0\0\7"


def test_user_data_is_read_by_aiokafka() -> None:
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1

    read = StickyAssignorUserDataV1.decode(encode_sticky_data([TopicPartition("ab", 3)], 9))
    assert read.previous_assignment == [("ab", [3])]
    assert read.generation == 9


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60))
def test_user_data_that_cannot_be_read_counts_as_none(data: bytes) -> None:
    previous = decode_sticky_data(data)
    assert isinstance(previous, Previous)


def test_strategies_by_name_and_by_java_class() -> None:
    java = ["org.apache.kafka.clients.consumer.RoundRobinAssignor", "sticky", "range"]
    assert parse_strategies(java).names == ("roundrobin", "sticky", "range")
    assert not parse_strategies(["range", "cooperative-sticky"]).is_cooperative
    assert Strategies(("cooperative-sticky",)).is_cooperative
    for bad in (["rang"], [], ["range", "range"]):
        with pytest.raises(ValueError, match="assignor"):
            parse_strategies(bad)
    assert user_data_of("range", topic_partitions=[], generation_id=3) is None
    assert user_data_of("sticky", topic_partitions=[], generation_id=-1) is None
