"""Where the replicas of a new topic go."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.placement import Assignment, place

brokers_and_factor = st.lists(st.integers(0, 1000), min_size=1, max_size=8, unique=True).flatmap(
    lambda brokers: st.tuples(st.just(brokers), st.integers(1, len(brokers)))
)


def placed(brokers: list[int], factor: int, partitions: int, first: int, shift: int) -> Assignment:
    return place(brokers, partitions=partitions, replication_factor=factor, first_broker=first, first_shift=shift)


@given(brokers_and_factor, st.integers(1, 40), st.integers(0, 300), st.integers(0, 300))
@settings(max_examples=200, deadline=None)
def test_every_partition_has_its_replicas_on_brokers_of_their_own(
    brokers_and_factor: tuple[list[int], int], partitions: int, first: int, shift: int
) -> None:
    brokers, factor = brokers_and_factor
    assignment = placed(brokers, factor, partitions, first, shift)
    assert list(assignment) == list(range(partitions))
    for replicas in assignment.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(brokers)


@given(brokers_and_factor, st.integers(1, 6), st.integers(0, 300), st.integers(0, 300))
@settings(max_examples=200, deadline=None)
def test_after_whole_rounds_every_broker_has_the_same_load(
    brokers_and_factor: tuple[list[int], int], rounds: int, first: int, shift: int
) -> None:
    brokers, factor = brokers_and_factor
    assignment = placed(brokers, factor, rounds * len(brokers), first, shift)
    leaders = Counter(replicas[0] for replicas in assignment.values())
    replicas_held = Counter(broker for replicas in assignment.values() for broker in replicas)
    assert set(leaders.values()) == {rounds}
    assert set(replicas_held.values()) == {rounds * factor}


@given(brokers_and_factor, st.integers(1, 40), st.integers(0, 300))
@settings(max_examples=100, deadline=None)
def test_no_broker_leads_more_than_one_partition_above_another(
    brokers_and_factor: tuple[list[int], int], partitions: int, first: int
) -> None:
    brokers, factor = brokers_and_factor
    assignment = placed(brokers, factor, partitions, first, 0)
    leaders = Counter(dict.fromkeys(brokers, 0))
    leaders.update(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_followers_of_one_leader_are_spread_over_all_others() -> None:
    assignment = placed([1, 2, 3, 4], 2, 12, 0, 0)
    assert {replicas[1] for replicas in assignment.values() if replicas[0] == 1} == {2, 3, 4}


def test_placement_is_the_one_that_kafka_documents() -> None:
    # The worked example in Kafka's AdminUtils: five brokers, ten partitions, three replicas, no shift.
    assignment = placed([0, 1, 2, 3, 4], 3, 10, 0, 0)
    assert list(assignment.values()) == [
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    ]  # fmt: skip
