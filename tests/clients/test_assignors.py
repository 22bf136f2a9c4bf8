"""Sharing partitions out: the two eager assignors, against what Kafka's own give."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.assignors import ASSIGNORS, GroupMemberView, assign_range, assign_round_robin
from ottla.core.types import TopicPartition


def member(member_id: str, *topics: str, instance_id: str | None = None) -> GroupMemberView:
    return GroupMemberView(member_id, frozenset(topics), instance_id)


def numbers(topic_partitions: list[TopicPartition]) -> list[str]:
    return [f"{topic_partition.topic}{topic_partition.partition}" for topic_partition in topic_partitions]


def test_range_gives_the_first_members_one_more_of_each_topic() -> None:
    assigned = assign_range([member("b", "t", "u"), member("a", "t", "u")], {"t": 3, "u": 3})
    assert numbers(assigned["a"]) == ["t0", "t1", "u0", "u1"]
    assert numbers(assigned["b"]) == ["t2", "u2"]


def test_range_leaves_members_without_partitions_when_there_are_too_few() -> None:
    assigned = assign_range([member("a", "t"), member("b", "t"), member("c", "t")], {"t": 2})
    assert [len(assigned[name]) for name in "abc"] == [1, 1, 0]


def test_range_looks_at_subscribers_of_each_topic_only() -> None:
    assigned = assign_range([member("a", "t"), member("b", "t", "u"), member("c", "u")], {"t": 2, "u": 2})
    assert numbers(assigned["a"]) == ["t0"]
    assert numbers(assigned["b"]) == ["t1", "u0"]
    assert numbers(assigned["c"]) == ["u1"]


def test_round_robin_deals_partitions_of_all_topics_in_turn() -> None:
    assigned = assign_round_robin([member("a", "t", "u"), member("b", "t", "u")], {"t": 3, "u": 3})
    assert numbers(assigned["a"]) == ["t0", "t2", "u1"]
    assert numbers(assigned["b"]) == ["t1", "u0", "u2"]


def test_round_robin_passes_over_members_that_do_not_want_a_topic() -> None:
    # The example of Kafka's documentation.
    members = [member("c0", "t0"), member("c1", "t0", "t1"), member("c2", "t0", "t1", "t2")]
    assigned = assign_round_robin(members, {"t0": 1, "t1": 2, "t2": 3})
    assert numbers(assigned["c0"]) == ["t00"]
    assert numbers(assigned["c1"]) == ["t10"]
    assert numbers(assigned["c2"]) == ["t11", "t20", "t21", "t22"]


@pytest.mark.parametrize("assignor", list(ASSIGNORS.values()))
def test_static_members_come_first_and_by_their_own_names(assignor: object) -> None:
    assert callable(assignor)
    members = [member("a", "t"), member("z", "t", instance_id="2"), member("y", "t", instance_id="3")]
    assigned = assignor(members, {"t": 3})
    assert [numbers(assigned[name]) for name in "zya"] == [["t0"], ["t1"], ["t2"]]


@settings(deadline=None, max_examples=100)
@given(
    subscriptions=st.lists(st.frozensets(st.sampled_from("tuvw"), min_size=1), min_size=1, max_size=8),
    counts=st.dictionaries(st.sampled_from("tuvwx"), st.integers(1, 9)),
    name=st.sampled_from(sorted(ASSIGNORS)),
)
def test_every_wanted_partition_has_exactly_one_owner_that_wants_it(
    subscriptions: list[frozenset[str]], counts: dict[str, int], name: str
) -> None:
    members = [GroupMemberView(f"m{index}", topics) for index, topics in enumerate(subscriptions)]
    assigned = ASSIGNORS[name](members, counts)
    wanted = frozenset[str]().union(*subscriptions)
    owners = Counter(topic_partition for topic_partitions in assigned.values() for topic_partition in topic_partitions)
    assert set(assigned) == {each.member_id for each in members}
    assert owners == {TopicPartition(t, p): 1 for t in wanted & counts.keys() for p in range(counts[t])}
    for each in members:
        assert {topic_partition.topic for topic_partition in assigned[each.member_id]} <= each.topics
