"""What becomes of a request to create or delete a topic."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from ottla.controller.new_topics import NewTopic
from ottla.controller.placement import PARTITIONS_MAX
from ottla.controller.queue import EventQueue
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.coordination.node_json import encode_uuid
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.errors import ErrorCode
from tests.controller.pumped_store import NotingApplier, PumpedStore

Made = tuple[Topics, NotingApplier]


def make_topics(
    pump: PumpedStore,
    *,
    brokers: tuple[int, ...] = (1, 2, 3),
    random_bytes: Callable[[int], bytes] | None = None,
    ignores_case: bool = False,
    images: Sequence[TopicImage] = (),
    **properties: str,
) -> Made:
    config = BrokerConfig.parse(
        {"log.dirs": "/data", **{key.replace("_", "."): value for key, value in properties.items()}}
    )
    applier = NotingApplier()
    queue = EventQueue(
        pump.store,
        ClusterState(images, StoredBrokerConfigs({}, {}), ignores_case=ignores_case),
        applier,
        CurrentConfig(config),
        random_bytes=random_bytes or Random(3).randbytes,
        live_brokers=lambda: list(brokers),
        controller_epoch=lambda: 5,
    )
    return Topics(queue), applier


def created(pump: PumpedStore, topics: Topics, new: NewTopic) -> TopicImage:
    image = pump.call(topics.create, new)
    assert isinstance(image, TopicImage), image
    return image


def fault_of(pump: PumpedStore, topics: Topics, new: NewTopic) -> TopicFault:
    before = pump.tree()
    fault = pump.call(topics.create, new)
    assert isinstance(fault, TopicFault), fault
    assert fault.message
    assert pump.tree() == before, "a refused topic left nodes"
    return fault


def test_topic_by_counts_is_written_applied_and_then_told(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    image = created(
        pump, topics, NewTopic("orders", partitions=3, replication_factor=2, configs={"retention.ms": "60000"})
    )
    assert applier.applied == [image]
    assert topics.state.topics == {"orders": image}
    assert image.configs == {"retention.ms": "60000"}
    assert sorted(image.partitions) == [0, 1, 2]
    for state in image.partitions.values():
        assert state == PartitionState(state.replicas[0], 0, state.replicas, state.replicas)
        assert len(state.replicas) == 2
    node = paths.decode_topic("", pump.get(paths.topic_path("orders")).value)
    assert node.topic_id == image.topic_id
    assert node.partitions == {index: state.replicas for index, state in image.partitions.items()}
    state_node = paths.decode_partition_state("", pump.get(paths.partition_state_path("orders", 2)).value)
    assert (state_node.leader, state_node.controller_epoch) == (image.partitions[2].leader, 5)
    assert paths.decode_config("", pump.get(paths.config_path("topics", "orders")).value) == image.configs


def test_counts_left_out_come_from_the_broker_config(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump, num_partitions="4", default_replication_factor="2")
    image = created(pump, topics, NewTopic("orders"))
    assert len(image.partitions) == 4
    assert {len(state.replicas) for state in image.partitions.values()} == {2}


def test_topic_id_is_a_random_uuid_whose_text_is_no_option(pump: PumpedStore) -> None:
    drawn = iter([b"\x00\x00", b"\xfb" * 16, b"\x11" * 16])  # the text of the second begins with '-'
    topics, _ = make_topics(pump, random_bytes=lambda size: next(drawn))
    topic_id = created(pump, topics, NewTopic("orders", 1, 1)).topic_id
    assert topic_id[0] == 0x11
    assert topic_id[6] >> 4 == 4
    assert topic_id[8] >> 6 == 2
    assert not encode_uuid(topic_id).startswith("-")


def test_topic_by_assignment_is_made_as_it_says(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    image = created(pump, topics, NewTopic("orders", assignment={1: (2, 1), 0: (3, 2)}))
    assert [(index, state.replicas) for index, state in image.partitions.items()] == [(0, (3, 2)), (1, (2, 1))]


@pytest.mark.parametrize(
    ("assignment", "error_code"),
    [
        ({}, ErrorCode.INVALID_PARTITIONS),
        ({1: (1,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (1,), 2: (1,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({-1: (1,), 0: (1,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: ()}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (1, 1)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (1, 2), 1: (1,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (9,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_assignment_that_makes_no_sense_is_refused(
    pump: PumpedStore, assignment: dict[int, tuple[int, ...]], error_code: ErrorCode
) -> None:
    topics, _ = make_topics(pump)
    assert fault_of(pump, topics, NewTopic("orders", assignment=assignment)).error_code == error_code


@pytest.mark.parametrize("counts", [{"partitions": 1}, {"replication_factor": 1}])
def test_counts_and_assignment_together_are_an_invalid_request(pump: PumpedStore, counts: dict[str, int]) -> None:
    topics, _ = make_topics(pump)
    new = NewTopic("orders", assignment={0: (1,)}, **counts)  # type: ignore[arg-type]
    assert fault_of(pump, topics, new).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("partitions", [0, -2, PARTITIONS_MAX + 1])
def test_impossible_number_of_partitions_is_refused(pump: PumpedStore, partitions: int) -> None:
    topics, _ = make_topics(pump)
    assert fault_of(pump, topics, NewTopic("orders", partitions, 1)).error_code == ErrorCode.INVALID_PARTITIONS


def test_assignment_of_more_partitions_than_possible_is_refused(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    assignment = dict.fromkeys(range(PARTITIONS_MAX + 1), (1,))
    assert fault_of(pump, topics, NewTopic("orders", assignment=assignment)).error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_replication_factor_that_the_brokers_cannot_carry_is_refused(pump: PumpedStore, factor: int) -> None:
    topics, _ = make_topics(pump)
    assert fault_of(pump, topics, NewTopic("orders", 1, factor)).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    "configs", [{"retention.ms": "soon"}, {"no.such.key": "1"}, {"retention.ms": None}, {"cleanup.policy": "burn"}]
)
def test_config_that_can_not_be_is_refused_with_all_reasons(pump: PumpedStore, configs: dict[str, str | None]) -> None:
    topics, _ = make_topics(pump)
    fault = fault_of(pump, topics, NewTopic("orders", 1, 1, configs=configs))
    assert fault.error_code == ErrorCode.INVALID_CONFIG
    assert all(name in fault.message for name in configs)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "x" * 250])
def test_illegal_name_is_refused(pump: PumpedStore, name: str) -> None:
    topics, _ = make_topics(pump)
    assert fault_of(pump, topics, NewTopic(name, 1, 1)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_existing_name_is_refused(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("orders", 1, 1))
    assert fault_of(pump, topics, NewTopic("orders", 1, 1)).error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_names_that_differ_in_case_are_two_topics_unless_the_file_system_ignores_it(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("Orders", 1, 1))
    created(pump, topics, NewTopic("orders", 1, 1))


def test_name_that_would_be_the_folder_of_another_topic_is_refused_until_that_is_deleted(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump, ignores_case=True)
    created(pump, topics, NewTopic("Orders.eu", 1, 1))
    fault = fault_of(pump, topics, NewTopic("orders.EU", 1, 1))
    assert fault.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "'orders.EU' and 'Orders.eu' would be one folder" in fault.message
    created(pump, topics, NewTopic("orders_EU", 1, 1))  # another folder, and another metric
    assert pump.call(topics.delete, "Orders.eu") is None
    assert pump.call(topics.delete, "orders_EU") is None
    created(pump, topics, NewTopic("orders.EU", 1, 1))


def test_name_that_metrics_can_not_tell_apart_is_refused(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("a.b", 1, 1))
    fault = fault_of(pump, topics, NewTopic("a_b", 1, 1))
    assert fault.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b" in fault.message


def test_validation_alone_writes_nothing(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    before = pump.tree()
    image = pump.call(topics.create, NewTopic("orders", 2, 1), validate_only=True)
    assert len(image.partitions) == 2
    assert pump.tree() == before
    assert not topics.state.topics
    assert not applier.applied
    fault = pump.call(topics.create, NewTopic("..", 2, 1), validate_only=True)
    assert fault.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_of_two_concurrent_creates_of_a_name_one_wins(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    outcomes: list[TopicImage | TopicFault] = []
    topics.create(NewTopic("orders", 1, 1), outcomes.append)
    topics.create(NewTopic("orders", 3, 1), outcomes.append)
    pump.run_until(lambda: len(outcomes) == 2)
    winner, loser = outcomes
    assert isinstance(winner, TopicImage)
    assert applier.applied == [winner]
    assert topics.state.topics == {"orders": winner}
    assert isinstance(loser, TopicFault)
    assert loser.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_who_loses_a_creation_hears_of_it_when_the_topic_can_be_used(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    later: list[Callable[[], None]] = []
    applier.apply = lambda delta, on_applied: later.append(on_applied)  # type: ignore[method-assign]
    outcomes: list[TopicImage | TopicFault] = []
    for _ in range(3):
        topics.create(NewTopic("orders"), outcomes.append)
    pump.run_until(lambda: bool(later))
    topics.create(NewTopic("orders"), outcomes.append)
    assert outcomes == []
    later.pop()()
    assert [isinstance(outcome, TopicImage) for outcome in outcomes] == [True, False, False, False]
    assert fault_of(pump, topics, NewTopic("orders")).error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_of_two_concurrent_creates_of_colliding_names_one_wins(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    outcomes: list[TopicImage | TopicFault] = []
    topics.create(NewTopic("a.b", 1, 1), outcomes.append)
    topics.create(NewTopic("a_b", 1, 1), outcomes.append)
    pump.run_until(lambda: len(outcomes) == 2)
    faults = [outcome for outcome in outcomes if isinstance(outcome, TopicFault)]
    assert [fault.error_code for fault in faults] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert [image.name for image in applier.applied] == ["a.b"]


def test_store_that_fails_is_told_in_words_and_leaves_the_name_free(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    pump.store.close()
    fault = pump.call(topics.create, NewTopic("a.b", 1, 1))
    assert fault.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a.b" in fault.message
    assert "SESSION_EXPIRED" in fault.message
    assert not topics.state.topics
    assert not applier.applied
    assert pump.call(topics.create, NewTopic("a_b", 1, 1)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_deleted_topic_is_gone_from_broker_and_store(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    before = pump.tree()
    created(pump, topics, NewTopic("orders", 3, 2, configs={"retention.ms": "1000"}))
    assert pump.call(topics.delete, "orders") is None
    assert applier.removed == ["orders"]
    assert not topics.state.topics
    assert pump.tree() == before


def test_deleted_name_can_be_used_again(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    first = created(pump, topics, NewTopic("orders", 1, 1))
    pump.call(topics.delete, "orders")
    assert created(pump, topics, NewTopic("orders", 1, 1)).topic_id != first.topic_id


def test_unknown_topic_can_not_be_deleted(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    assert pump.call(topics.delete, "orders").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deletion_that_is_switched_off_is_refused(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump, delete_topic_enable="false")
    created(pump, topics, NewTopic("orders", 1, 1))
    assert pump.call(topics.delete, "orders").error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert "orders" in topics.state.topics
    assert not pump.get(paths.delete_topic_path("orders")).is_ok


def test_internal_topic_can_not_be_deleted(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("__consumer_offsets", 1, 1))
    assert pump.call(topics.delete, "__consumer_offsets").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topic_that_is_being_deleted_is_neither_deleted_twice_nor_made_again(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    created(pump, topics, NewTopic("orders", 1, 1))
    outcomes: list[TopicFault | None] = []
    topics.delete("orders", outcomes.append)
    assert pump.call(topics.delete, "orders").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert pump.call(topics.create, NewTopic("orders")).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    pump.run_until(lambda: bool(outcomes))
    assert outcomes == [None]
    assert applier.removed == ["orders"]


def test_deletion_that_a_crash_cut_off_is_finished_by_the_next_start(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    before = pump.tree()
    image = created(pump, topics, NewTopic("orders", 2, 1))
    applier.answers_at_once = False  # the crash comes while the files are removed
    topics.delete("orders", lambda _: None)
    pump.run_until(lambda: bool(applier.removed))
    assert pump.get(paths.delete_topic_path("orders")).is_ok

    after_crash, applier = make_topics(pump, images=[image])
    assert pump.call(after_crash.finish_deletion, "orders") is None
    assert applier.removed == ["orders"]
    assert not after_crash.state.topics
    assert pump.tree() == before


def test_failing_store_leaves_a_topic_that_can_be_deleted_later(pump: PumpedStore) -> None:
    topics, applier = make_topics(pump)
    created(pump, topics, NewTopic("orders", 1, 1))
    pump.store.close()
    assert pump.call(topics.delete, "orders").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not applier.removed
    # The second try is not taken for a topic that is already on its way out.
    assert pump.call(topics.delete, "orders").error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_config_of_a_topic_has_its_own_values_over_those_of_the_broker(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump, log_segment_bytes="2000000")
    config = topics.config_of(created(pump, topics, NewTopic("orders", 1, 1, configs={"retention.ms": "7"})))
    assert (config.get_int("retention.ms"), config.get_int("segment.bytes")) == (7, 2_000_000)
