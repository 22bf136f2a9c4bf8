"""What the controller decides: events on a state, with neither store nor broker."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.added_partitions import NewPartitions
from ottla.controller.config_changes import BrokerConfigChange, TopicConfigChange
from ottla.controller.config_edits import ConfigChange, ConfigEdit, ConfigFault, ConfigOperation
from ottla.controller.deletions import DeletionFinished, TopicDeletion
from ottla.controller.deltas import (
    BrokerConfigsChanged,
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicDeletionStarted,
)
from ottla.controller.events import Decision, Inputs, NodeWanted
from ottla.controller.new_topics import NewTopic
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.controller.topic_faults import TopicFault
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Code, Create, Delete, Result, SetValue, Stat, Write, parent_of
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.errors import ErrorCode

AnyEvent = NewTopic | NewPartitions | TopicDeletion | DeletionFinished | TopicConfigChange | BrokerConfigChange
Decided = Decision | TopicFault | ConfigFault

CONFIG = BrokerConfig.parse({"log.dirs": "/data"})
NO_CONFIGS = StoredBrokerConfigs({}, {})


def topic(name: str = "orders", partitions: int = 1, **configs: str) -> TopicImage:
    states = {index: PartitionState(1, 0, (1,), (1,)) for index in range(partitions)}
    return TopicImage(name, b"\x07" * 16, {key.replace("_", "."): value for key, value in configs.items()}, states)


def state_of(*images: TopicImage, being_deleted: Sequence[str] = (), ignores_case: bool = False) -> ClusterState:
    state = ClusterState(images, NO_CONFIGS, ignores_case=ignores_case)
    for name in being_deleted:
        state.apply(TopicDeletionStarted(name, tuple(state.topics[name].partitions)))
    return state


def inputs_of(*brokers: int, seed: int = 1, **properties: str) -> Inputs:
    config = CONFIG
    if properties:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        config = BrokerConfig.parse({"log.dirs": "/data", **named})
    return Inputs(config, list(brokers or (1,)), 5, Random(seed).randbytes)


class Nodes:
    """The store's tree as a table: what the writes of a decision leave, and what they may not do."""

    def __init__(self) -> None:
        self.values = dict.fromkeys(paths.PERSISTENT_PATHS, b"")
        self.versions = dict.fromkeys(paths.PERSISTENT_PATHS, 0)

    def get(self, path: str) -> Result:
        if path not in self.values:
            return Result(Code.NO_NODE, path)
        return Result(Code.OK, path, self.values[path], Stat(self.versions[path], 0, 0, 0, 0, 0, 0))

    def write_all(self, writes: Sequence[Write]) -> None:
        """A decision's writes fit the tree that it was made on, or it was a wrong one."""
        for write in writes:
            path = write.path
            if isinstance(write, Create):
                if write.sequential:
                    path = f"{path}{len(self.values):010}"
                assert path not in self.values, path
                assert parent_of(path) in self.values or parent_of(path) == "/", path
                self.values[path], self.versions[path] = write.value, 0
            else:
                assert path in self.values, path
                assert write.version in (ANY_VERSION, self.versions[path]), path
                if isinstance(write, SetValue):
                    self.values[path] = write.value
                    self.versions[path] += 1
                elif isinstance(write, Delete):
                    assert not self.children(path), path
                    del self.values[path]

    def children(self, path: str) -> list[str]:
        return [other.rpartition("/")[2] for other in self.values if parent_of(other) == path]

    def images(self) -> dict[str, TopicImage]:
        """What the next start would read."""
        found = {}
        for name in self.children(paths.TOPICS):
            assigned = paths.decode_topic("", self.values[paths.topic_path(name)])
            configs = paths.decode_config("", self.values[paths.config_path("topics", name)])
            states = {}
            for index, replicas in assigned.partitions.items():
                node = paths.decode_partition_state("", self.values[paths.partition_state_path(name, index)])
                states[index] = PartitionState(node.leader, node.leader_epoch, node.isr, replicas)
            found[name] = TopicImage(name, assigned.topic_id, configs, states)
        return found


def decide(event: AnyEvent, state: ClusterState, nodes: Nodes | None = None, inputs: Inputs | None = None) -> Decided:
    """The decision, with the node read that it wants."""
    decided = event.decide(state, inputs or inputs_of(), None)
    if isinstance(decided, NodeWanted):
        assert nodes is not None
        decided = event.decide(state, inputs or inputs_of(), nodes.get(decided.path))
    assert not isinstance(decided, NodeWanted), "a second node"
    return decided


def change(name: str, value: str | None, operation: int = ConfigOperation.SET) -> ConfigChange:
    return ConfigChange([ConfigEdit(name, value, operation)])


NODE_GONE = Result(Code.NO_NODE, "")
HERE, GOING = state_of(topic()), state_of(topic(), being_deleted=["orders"])


@pytest.mark.parametrize(
    ("event", "state", "error_code"),
    [
        (NewTopic("orders", 1, 1), HERE, ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("orders", 1, 1), GOING, ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("a_b", 1, 1), state_of(topic("a.b")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a_b", 1, 1), state_of(topic("a.b"), being_deleted=["a.b"]), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("Orders", 1, 1), state_of(topic(), ignores_case=True), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a/b", 1, 1), HERE, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("new", 1, 2), HERE, ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewPartitions("other", 2), HERE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("orders", 2), GOING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicDeletion("other"), HERE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicDeletion("orders"), GOING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicDeletion("orders", is_noted=True), GOING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (DeletionFinished("orders"), HERE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicConfigChange("other", change("retention.ms", "5")), HERE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicConfigChange("orders", change("retention.ms", "5")), GOING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicConfigChange("a b", change("retention.ms", "5")), HERE, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_event_is_refused_on_the_state_alone(event: AnyEvent, state: ClusterState, error_code: ErrorCode) -> None:
    decided = event.decide(state, inputs_of(), None)
    assert isinstance(decided, (TopicFault, ConfigFault))
    assert decided.error_code == error_code
    assert decided.message


def test_names_that_may_collide_have_one_key_and_others_have_not() -> None:
    keys = {name: NewTopic(name).key for name in ("a.b", "a_b", "A.b", "a-b", "ab")}
    assert len({keys["a.b"], keys["a_b"], keys["A.b"]}) == 1
    assert len(set(keys.values())) == 3
    assert TopicDeletion("a.b").key == NewPartitions("a_b", 2).key == TopicConfigChange("A.B", change("x", "y")).key
    assert BrokerConfigChange(1, change("x", "y")).key not in keys.values()
    assert DeletionFinished("a.b").key not in keys.values()


def test_creation_names_every_partition_with_its_state() -> None:
    decided = decide(NewTopic("orders", 3, 2), state_of(), inputs=inputs_of(1, 2, 3))
    assert isinstance(decided, Decision)
    assert isinstance(decided.delta, TopicCreated)
    for state in decided.delta.image.partitions.values():
        assert state == PartitionState(state.replicas[0], 0, state.replicas, state.replicas)
        assert len(set(state.replicas)) == 2


def test_addition_says_nothing_of_partitions_that_are_there() -> None:
    nodes, state = Nodes(), state_of()
    take(NewTopic("orders", 2, 1), state, nodes)
    decided = decide(NewPartitions("orders", 4), state, nodes)
    assert isinstance(decided, Decision)
    assert isinstance(decided.delta, PartitionsAdded)
    assert list(decided.delta.partitions) == [2, 3]


def test_addition_to_a_node_that_is_gone_is_refused() -> None:
    decided = NewPartitions("orders", 2).decide(HERE, inputs_of(), NODE_GONE)
    assert isinstance(decided, TopicFault)
    assert decided.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deletion_names_the_partitions_that_go() -> None:
    state = state_of(topic(partitions=3))
    decided = decide(TopicDeletion("orders"), state)
    assert isinstance(decided, Decision)
    assert decided.delta == TopicDeletionStarted("orders", (0, 1, 2))
    assert [write.path for write in decided.writes] == [paths.delete_topic_path("orders")]


def test_deletion_that_is_noted_is_written_no_second_time_and_asks_for_no_leave() -> None:
    state = state_of(topic("__consumer_offsets"))
    inputs = inputs_of(delete_topic_enable="false")
    noted = decide(TopicDeletion("__consumer_offsets", is_noted=True), state, inputs=inputs)
    assert noted == Decision(TopicDeletionStarted("__consumer_offsets", (0,)))
    refused = decide(TopicDeletion("__consumer_offsets"), state, inputs=inputs)
    assert isinstance(refused, TopicFault)


def test_config_that_says_the_same_writes_nothing() -> None:
    nodes, state = Nodes(), state_of()
    take(NewTopic("orders", 1, 1, configs={"retention.ms": "5"}), state, nodes)
    decided = decide(TopicConfigChange("orders", change("retention.ms", "5")), state, nodes)
    assert decided == Decision(TopicConfigChanged("orders", {"retention.ms": "5"}))


def test_broker_config_is_decided_on_what_both_nodes_say() -> None:
    state, nodes = state_of(), Nodes()
    take(BrokerConfigChange(None, change("max.connections", "50")), state, nodes)
    decided = decide(BrokerConfigChange(1, change("max.connections", "60")), state, nodes)
    assert isinstance(decided, Decision)
    assert decided.delta == BrokerConfigsChanged({"max.connections": "60"}, {"max.connections": "50"})


def take(event: AnyEvent, state: ClusterState, nodes: Nodes, inputs: Inputs | None = None) -> Decided:
    """Decide an event, write what it says and apply it, as the queue does."""
    before = (dict(state.topics), set(state.being_deleted), state.broker_configs)
    decided = decide(event, state, nodes, inputs)
    assert (state.topics, state.being_deleted, state.broker_configs) == before, "a decision changed the state"
    if isinstance(decided, Decision):
        nodes.write_all(decided.writes)
        if decided.writes and decided.proof is not None:
            assert nodes.values.get(decided.proof.path) == decided.proof.value
        state.apply(decided.delta)
    return decided


NAMES = st.sampled_from(["a.b", "a_b", "A.b", "orders", "__consumer_offsets"])
VALUES = st.sampled_from(["1", "5000", "soon"])
CHANGES = st.builds(change, st.sampled_from(["retention.ms", "segment.ms"]), VALUES, st.sampled_from([0, 1]))
EVENTS = st.one_of(
    st.builds(NewTopic, NAMES, st.integers(0, 4), st.integers(1, 3)),
    st.builds(NewPartitions, NAMES, st.integers(0, 8)),
    st.builds(TopicDeletion, NAMES, st.booleans()),
    st.builds(DeletionFinished, NAMES),
    st.builds(TopicConfigChange, NAMES, CHANGES),
    st.builds(
        BrokerConfigChange,
        st.sampled_from([1, None]),
        st.builds(change, st.just("log.retention.ms"), VALUES, st.sampled_from([0, 1])),
    ),
)


@given(st.lists(EVENTS, max_size=30), st.booleans(), st.integers(0, 100))
def test_state_is_at_every_moment_what_the_next_start_would_read(
    events: list[AnyEvent], ignores_case: bool, seed: int
) -> None:
    nodes, state = Nodes(), state_of(ignores_case=ignores_case)
    inputs = inputs_of(1, 2, 3, seed=seed)
    for event in events:
        if isinstance(event, TopicDeletion) and event.is_noted and event.topic in state.topics:
            # What a crash leaves, or an older tool.
            nodes.values.setdefault(paths.delete_topic_path(event.topic), b"")
            nodes.versions.setdefault(paths.delete_topic_path(event.topic), 0)
        take(event, state, nodes, inputs)
        assert state.topics == nodes.images()
        assert state.being_deleted == set(nodes.children(paths.DELETE_TOPICS))
        assert state.broker_configs == StoredBrokerConfigs(
            *(
                paths.decode_config("", nodes.get(paths.config_path("brokers", name)).value)
                for name in ("1", paths.DEFAULT_ENTITY)
            )
        )


@given(st.lists(EVENTS, max_size=30), st.booleans())
def test_no_two_topics_have_names_that_collide(events: list[AnyEvent], ignores_case: bool) -> None:
    nodes, state = Nodes(), state_of(ignores_case=ignores_case)
    for event in events:
        if isinstance(event, TopicDeletion) and event.is_noted:
            continue
        take(event, state, nodes, inputs_of(1, 2, 3))
        names = [name.replace(".", "_") for name in state.topics]
        assert len(set(names)) == len(names)
        if ignores_case:
            assert len({name.lower() for name in state.topics}) == len(names)


@given(st.lists(EVENTS, max_size=20))
def test_name_is_free_when_all_of_its_topic_is_gone(events: list[AnyEvent]) -> None:
    nodes, state = Nodes(), state_of()
    for event in events:
        if not isinstance(event, BrokerConfigChange) and not (isinstance(event, TopicDeletion) and event.is_noted):
            take(event, state, nodes)
    for name in list(state.topics):
        if name != "__consumer_offsets":
            take(TopicDeletion(name), state, nodes)
            decided = take(DeletionFinished(name), state, nodes)
            assert isinstance(decided, Decision)
            assert decided.delta == TopicDeleted(name)
            assert isinstance(take(NewTopic(name, 1, 1), state, nodes), Decision)
