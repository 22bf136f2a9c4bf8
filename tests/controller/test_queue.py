"""The controller's queue: the order of decisions, writes and answers, and what becomes of a lost answer."""

from random import Random
from typing import Any

import pytest

from ottla.controller.added_partitions import NewPartitions
from ottla.controller.deltas import TopicCreated, TopicDeletionStarted
from ottla.controller.new_topics import NewTopic
from ottla.controller.queue import EventQueue
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.controller.topic_faults import TopicFault
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.errors import ErrorCode
from tests.controller.faulty_stores import ForgetfulStore, HeldStore
from tests.controller.pumped_store import NotingApplier, PumpedStore


class Desk:
    """Topics on a queue, with everything that they can be asked, and what came of it in order."""

    def __init__(self, store: Any, state: ClusterState | None = None) -> None:
        self.applier = NotingApplier()
        self.state = state or ClusterState([], StoredBrokerConfigs({}, {}))
        queue = EventQueue(
            store,
            self.state,
            self.applier,
            CurrentConfig(BrokerConfig.parse({"log.dirs": "/data"})),
            random_bytes=Random(2).randbytes,
            live_brokers=lambda: [1],
            controller_epoch=lambda: 1,
        )
        self.topics = Topics(queue)
        self.outcomes: list[tuple[str, object]] = []

    def create(self, name: str, partitions: int = 1) -> None:
        self.topics.create(NewTopic(name, partitions, 1), lambda outcome: self.outcomes.append((name, outcome)))

    def faults(self) -> list[ErrorCode]:
        return [outcome.error_code for _, outcome in self.outcomes if isinstance(outcome, TopicFault)]


@pytest.fixture
def held(pump: PumpedStore) -> HeldStore:
    return HeldStore(pump.store)


@pytest.fixture
def desk(held: HeldStore) -> Desk:
    return Desk(held)


def test_event_on_the_same_name_is_decided_when_the_one_before_it_is_written(
    pump: PumpedStore, held: HeldStore, desk: Desk
) -> None:
    desk.create("orders")
    desk.create("orders")
    assert len(held.held) == 1
    assert not desk.outcomes
    held.let_go()
    pump.run_until(lambda: len(desk.outcomes) == 2)
    assert isinstance(desk.outcomes[0][1], TopicImage)
    assert desk.faults() == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert not held.held


def test_events_on_other_names_do_not_wait(pump: PumpedStore, held: HeldStore, desk: Desk) -> None:
    for name in ("orders", "payments", "parcels"):
        desk.create(name)
    assert len(held.held) == 3
    held.let_go(2)
    pump.run_until(lambda: bool(desk.outcomes))
    assert set(desk.state.topics) == {"parcels"}
    held.let_go()
    held.let_go()
    pump.run_until(lambda: len(desk.outcomes) == 3)
    assert set(desk.state.topics) == {"orders", "payments", "parcels"}


def test_name_that_would_collide_is_made_when_the_one_before_it_could_not_be(pump: PumpedStore) -> None:
    lost = ForgetfulStore(pump.store, is_applied=False)
    desk = Desk(lost)
    desk.create("a.b")
    desk.create("a_b")
    lost.multi = pump.store.multi  # type: ignore[method-assign]  # the connection is back
    pump.run_until(lambda: len(desk.outcomes) == 2)
    assert desk.faults() == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert set(desk.state.topics) == {"a_b"}


def test_deltas_of_a_topic_are_applied_in_the_order_of_the_requests(
    pump: PumpedStore, held: HeldStore, desk: Desk
) -> None:
    desk.create("orders", 1)
    desk.topics.add_partitions(NewPartitions("orders", 3), lambda fault: desk.outcomes.append(("grown", fault)))
    desk.topics.delete("orders", lambda fault: desk.outcomes.append(("deleted", fault)))
    while len(desk.outcomes) < 3:
        pump.run_until(lambda: bool(held.held) or len(desk.outcomes) == 3)
        if held.held:
            held.let_go()
    assert [name for name, _ in desk.outcomes] == ["orders", "grown", "deleted"]
    created, added, started, _ = desk.applier.deltas
    assert isinstance(created, TopicCreated)
    assert desk.applier.added == [[1, 2]]
    assert added is desk.applier.deltas[1]
    assert started == TopicDeletionStarted("orders", (0, 1, 2))
    assert not desk.state.topics
    assert not desk.state.being_deleted


def test_topic_whose_files_are_going_is_not_made_again_before_it_is_gone(pump: PumpedStore) -> None:
    desk = Desk(pump.store)
    desk.create("orders")
    pump.run_until(lambda: bool(desk.outcomes))
    desk.applier.answers_at_once = False
    desk.topics.delete("orders", lambda fault: desk.outcomes.append(("deleted", fault)))
    pump.run_until(lambda: bool(desk.applier.removed))
    desk.create("orders")
    assert desk.faults() == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_any_number_of_refused_events_may_wait_in_one_line(pump: PumpedStore, held: HeldStore, desk: Desk) -> None:
    for _ in range(5000):
        desk.create("orders")
    held.let_go()
    pump.run_until(lambda: len(desk.outcomes) == 5000)
    assert desk.faults() == [ErrorCode.TOPIC_ALREADY_EXISTS] * 4999


def test_addition_that_somebody_else_overtook_is_decided_on_what_they_left(
    pump: PumpedStore, held: HeldStore, desk: Desk
) -> None:
    desk.create("orders", 1)
    held.let_go()
    pump.run_until(lambda: bool(desk.outcomes))
    done: list[TopicFault | None] = []
    desk.topics.add_partitions(NewPartitions("orders", 3), done.append)
    pump.run_until(lambda: bool(held.held))
    path = paths.topic_path("orders")
    assigned = paths.decode_topic(path, pump.get(path).value)
    pump.put(path, paths.encode_topic(assigned._replace(partitions={0: (1,), 1: (1,)})))
    held.let_go()
    pump.run_until(lambda: bool(held.held))
    held.let_go()
    pump.run_until(lambda: bool(done))
    assert done == [None]
    assert desk.applier.added == [[2]]


def test_bug_in_whoever_waits_for_an_event_does_not_stop_the_events_behind_it(pump: PumpedStore) -> None:
    desk = Desk(pump.store)

    def fail(outcome: object) -> None:
        raise RuntimeError("a bug")

    desk.topics.create(NewTopic("orders", 1, 1), fail)
    desk.create("orders")
    with pytest.raises(RuntimeError, match="a bug"):
        pump.run_until(lambda: False)
    assert desk.faults() == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_bug_in_the_answer_to_a_refused_event_does_not_stop_later_ones_of_its_name(pump: PumpedStore) -> None:
    desk = Desk(pump.store)

    def fail(outcome: object) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        desk.topics.create(NewTopic("orders", 0, 1), fail)
    desk.create("orders")
    pump.run_until(lambda: bool(desk.outcomes))
    assert not desk.faults()


def test_bug_in_the_answer_to_an_event_that_read_its_node_does_not_stop_those_behind_it(pump: PumpedStore) -> None:
    desk = Desk(pump.store)
    desk.create("orders", 2)
    pump.run_until(lambda: bool(desk.outcomes))

    def fail(outcome: object) -> None:
        raise RuntimeError("a bug")

    desk.topics.add_partitions(NewPartitions("orders", 1), fail)
    desk.create("orders")
    with pytest.raises(RuntimeError, match="a bug"):
        pump.run_until(lambda: False)
    assert desk.faults() == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_bug_in_the_answers_of_a_line_does_not_stop_the_line(pump: PumpedStore, held: HeldStore, desk: Desk) -> None:
    def fail(outcome: object) -> None:
        raise RuntimeError("a bug")

    desk.create("orders")
    for _ in range(3):
        desk.topics.create(NewTopic("orders", 1, 1), fail)
    desk.create("orders")
    held.let_go()
    with pytest.raises(RuntimeError, match="a bug"):
        pump.run_until(lambda: False)
    assert desk.faults() == [ErrorCode.TOPIC_ALREADY_EXISTS]


# Answers that are lost: CONNECTION_LOST means perhaps applied


def test_topic_whose_creation_was_written_is_there_though_the_answer_was_lost(pump: PumpedStore) -> None:
    desk = Desk(ForgetfulStore(pump.store, is_applied=True))
    desk.create("orders", 2)
    pump.run_until(lambda: bool(desk.outcomes))
    ((_, image),) = desk.outcomes
    assert desk.applier.applied == [image]
    assert desk.state.topics == {"orders": image}


def test_topic_whose_creation_was_not_written_is_refused_and_can_be_made_later(pump: PumpedStore) -> None:
    desk = Desk(ForgetfulStore(pump.store, is_applied=False))
    desk.create("orders")
    pump.run_until(lambda: bool(desk.outcomes))
    assert desk.faults() == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert not desk.state.topics
    again = Desk(pump.store, desk.state)
    again.create("orders")
    pump.run_until(lambda: bool(again.outcomes))
    assert not again.faults()


def test_topic_that_somebody_else_made_is_not_taken_for_ones_own(pump: PumpedStore) -> None:
    theirs = Desk(pump.store)
    theirs.create("orders")
    pump.run_until(lambda: bool(theirs.outcomes))
    ours = Desk(pump.store)
    ours.topics.create(NewTopic("orders", 3, 1), lambda outcome: ours.outcomes.append(("orders", outcome)))
    pump.run_until(lambda: bool(ours.outcomes))
    assert ours.faults() == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert not ours.applier.applied


@pytest.mark.parametrize("is_applied", [True, False])
def test_growth_and_deletion_end_as_the_store_says_when_the_answer_is_lost(pump: PumpedStore, is_applied: bool) -> None:
    before = pump.tree()
    made = Desk(pump.store)
    made.create("orders", 1)
    pump.run_until(lambda: bool(made.outcomes))
    desk = Desk(ForgetfulStore(pump.store, is_applied=is_applied), made.state)
    done: list[TopicFault | None] = []
    desk.topics.add_partitions(NewPartitions("orders", 3), done.append)
    desk.topics.delete("orders", done.append)
    pump.run_until(lambda: len(done) == 2)
    if is_applied:
        assert done == [None, None]
        assert desk.applier.added == [[1, 2]]
        assert not desk.state.topics
        assert pump.tree() == before
    else:
        assert all(fault is not None and "CONNECTION_LOST" in fault.message for fault in done)
        assert desk.state.find("orders") == made.outcomes[0][1]
        assert not desk.applier.deltas
