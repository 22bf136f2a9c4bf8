"""What becomes of a request for more partitions."""

import pytest

from ottla.controller.added_partitions import NewPartitions
from ottla.controller.new_topics import NewTopic
from ottla.controller.placement import PARTITIONS_MAX
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.errors import ErrorCode
from tests.controller.pumped_store import NotingApplier, PumpedStore
from tests.controller.test_topics import created, make_topics


def add(pump: PumpedStore, topics: Topics, wanted: NewPartitions, *, validate_only: bool = False) -> TopicImage:
    fault = pump.call(topics.add_partitions, wanted, validate_only=validate_only)
    assert fault is None, fault
    return topics.state.topics[wanted.topic]


def fault_of(pump: PumpedStore, topics: Topics, wanted: NewPartitions) -> TopicFault:
    before = pump.tree()
    fault = pump.call(topics.add_partitions, wanted)
    assert isinstance(fault, TopicFault), fault
    assert fault.message
    assert pump.tree() == before, "a refused addition changed nodes"
    return fault


@pytest.fixture
def made(pump: PumpedStore) -> tuple[Topics, NotingApplier, TopicImage]:
    topics, applier = make_topics(pump)
    return topics, applier, created(pump, topics, NewTopic("orders", 2, 2))


Made = tuple[Topics, NotingApplier, TopicImage]


def test_added_partitions_are_written_applied_and_then_told(pump: PumpedStore, made: Made) -> None:
    topics, applier, before = made
    image = add(pump, topics, NewPartitions("orders", 5))
    assert applier.added == [[2, 3, 4]]
    assert topics.state.topics["orders"] == image
    assert image.topic_id == before.topic_id
    assert {index: image.partitions[index] for index in (0, 1)} == before.partitions
    for index in (2, 3, 4):
        state = image.partitions[index]
        assert state == PartitionState(state.replicas[0], 0, state.replicas, state.replicas)
        assert len(set(state.replicas)) == 2
        node = paths.decode_partition_state("", pump.get(paths.partition_state_path("orders", index)).value)
        assert (node.leader, node.controller_epoch) == (state.leader, 5)
    assigned = paths.decode_topic("", pump.get(paths.topic_path("orders")).value)
    assert assigned.topic_id == image.topic_id
    assert assigned.partitions == {index: state.replicas for index, state in image.partitions.items()}


def test_leaders_of_added_partitions_go_on_round_the_brokers(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("orders", assignment={0: (2,)}))
    image = add(pump, topics, NewPartitions("orders", 6))
    assert [state.leader for state in image.partitions.values()] == [2, 3, 1, 2, 3, 1]


def test_added_partitions_go_where_the_request_says(pump: PumpedStore, made: Made) -> None:
    topics, _, _ = made
    image = add(pump, topics, NewPartitions("orders", 4, [(3, 1), (2, 3)]))
    assert [image.partitions[index].replicas for index in (2, 3)] == [(3, 1), (2, 3)]


@pytest.mark.parametrize("total", [2, 1, 0, -1])
def test_count_that_is_no_increase_is_refused(pump: PumpedStore, made: Made, total: int) -> None:
    fault = fault_of(pump, made[0], NewPartitions("orders", total))
    assert fault.error_code == ErrorCode.INVALID_PARTITIONS
    assert "has 2 partition(s)" in fault.message


def test_more_partitions_than_one_transaction_takes_are_refused(pump: PumpedStore, made: Made) -> None:
    fault = fault_of(pump, made[0], NewPartitions("orders", 3 + PARTITIONS_MAX))
    assert fault.error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize(
    "assignments",
    [
        [],
        [(1, 2)],
        [(1, 2), (2, 3), (3, 1)],
        [(1, 2), (1,)],
        [(1, 2), (1, 2, 3)],
        [(1, 2), ()],
        [(1, 2), (3, 3)],
        [(1, 2), (3, 9)],
    ],
)
def test_assignment_that_makes_no_sense_is_refused(
    pump: PumpedStore, made: Made, assignments: list[tuple[int, ...]]
) -> None:
    fault = fault_of(pump, made[0], NewPartitions("orders", 4, assignments))
    assert fault.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_unknown_topic_is_refused(pump: PumpedStore, made: Made) -> None:
    assert fault_of(pump, made[0], NewPartitions("other", 4)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topic_of_the_broker_itself_is_refused(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("__consumer_offsets", 1, 1))
    fault = fault_of(pump, topics, NewPartitions("__consumer_offsets", 4))
    assert fault.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_validation_alone_changes_nothing(pump: PumpedStore, made: Made) -> None:
    topics, applier, before = made
    tree = pump.tree()
    assert add(pump, topics, NewPartitions("orders", 4), validate_only=True) == before
    assert pump.tree() == tree
    assert not applier.added
    fault = pump.call(topics.add_partitions, NewPartitions("orders", 1), validate_only=True)
    assert fault.error_code == ErrorCode.INVALID_PARTITIONS


def test_of_two_concurrent_additions_to_the_same_count_one_wins(pump: PumpedStore, made: Made) -> None:
    topics, applier, _ = made
    outcomes: list[TopicFault | None] = []
    topics.add_partitions(NewPartitions("orders", 4), outcomes.append)
    topics.add_partitions(NewPartitions("orders", 4), outcomes.append)
    pump.run_until(lambda: len(outcomes) == 2)
    assert outcomes.count(None) == 1
    (fault,) = [outcome for outcome in outcomes if isinstance(outcome, TopicFault)]
    assert fault.error_code == ErrorCode.INVALID_PARTITIONS
    assert applier.added == [[2, 3]]
    assert sorted(topics.state.topics["orders"].partitions) == [0, 1, 2, 3]


def test_concurrent_addition_that_wants_more_is_decided_anew(pump: PumpedStore, made: Made) -> None:
    topics, applier, _ = made
    outcomes: list[TopicFault | None] = []
    topics.add_partitions(NewPartitions("orders", 4), outcomes.append)
    topics.add_partitions(NewPartitions("orders", 6), outcomes.append)
    pump.run_until(lambda: len(outcomes) == 2)
    assert applier.added == [[2, 3], [4, 5]]
    assert sorted(topics.state.topics["orders"].partitions) == list(range(6))
    assigned = paths.decode_topic("", pump.get(paths.topic_path("orders")).value)
    assert sorted(assigned.partitions) == list(range(6))


def test_topic_that_is_deleted_meanwhile_takes_its_new_partitions_with_it(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    before = pump.tree()
    created(pump, topics, NewTopic("orders", 2, 1))
    added: list[TopicFault | None] = []
    deleted: list[TopicFault | None] = []
    # Found by the addition when it reads, deleted when it has written.
    topics.add_partitions(NewPartitions("orders", 4), added.append)
    pump.run_until(lambda: True)
    pump.call(pump.store.get, paths.TOPICS)
    topics.delete("orders", deleted.append)
    pump.run_until(lambda: bool(added and deleted))
    assert deleted == [None]
    assert applier.removed == ["orders"]
    assert pump.tree() == before


def test_topic_that_is_being_deleted_does_not_grow(pump: PumpedStore, made: Made) -> None:
    topics, applier, _ = made
    outcomes: list[TopicFault | None] = []
    topics.delete("orders", lambda _: None)
    topics.add_partitions(NewPartitions("orders", 4), outcomes.append)
    pump.run_until(lambda: bool(outcomes))
    (fault,) = outcomes
    assert isinstance(fault, TopicFault)
    assert fault.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not applier.added


def test_store_that_fails_is_told_in_words(pump: PumpedStore, made: Made) -> None:
    topics, applier, _ = made
    pump.store.close()
    fault = pump.call(topics.add_partitions, NewPartitions("orders", 4))
    assert fault.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "SESSION_EXPIRED" in fault.message
    assert not applier.added
