"""What is read out of the store at the start."""

import pytest

from ottla.controller.new_topics import NewTopic
from ottla.controller.tree_loader import TreeError, TreeLoader
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION
from ottla.core.cluster import PartitionState, TopicImage
from tests.controller.pumped_store import PumpedStore
from tests.controller.test_topics import created, make_topics


def load(pump: PumpedStore) -> dict[str, TopicImage] | TreeError:
    loaded: dict[str, TopicImage] | TreeError = pump.call(lambda on_loaded: TreeLoader(pump.store, on_loaded).start())
    return loaded


def test_store_without_topics_is_an_empty_cluster(pump: PumpedStore) -> None:
    assert load(pump) == {}


def test_what_was_written_is_read_back(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    for new in (
        NewTopic("orders", 12, 3, configs={"retention.ms": "60000", "cleanup.policy": "compact"}),
        NewTopic("payments", 1, 1),
    ):
        created(pump, topics, new)
    loaded = load(pump)
    assert loaded == topics.state.topics
    assert isinstance(loaded, dict)
    assert list(loaded["orders"].partitions) == list(range(12))


@pytest.mark.parametrize(
    "path",
    [
        paths.topic_path("orders"),
        paths.config_path("topics", "orders"),
        paths.partition_state_path("orders", 1),
    ],
)
@pytest.mark.parametrize("value", [b"{", b"[]", b'{"config":7}', b"\xff"])
def test_malformed_node_is_an_error_with_its_path(pump: PumpedStore, path: str, value: bytes) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("orders", 2, 1))
    pump.put(path, value)
    error = load(pump)
    assert isinstance(error, TreeError)
    assert path in str(error)


def test_partition_without_a_state_has_no_leader(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    image = created(pump, topics, NewTopic("orders", 2, 1))
    pump.call(pump.store.delete, paths.partition_state_path("orders", 1), version=ANY_VERSION)
    loaded = load(pump)
    assert isinstance(loaded, dict)
    assert loaded["orders"].partitions[1] == PartitionState(-1, -1, (), image.partitions[1].replicas)
    assert loaded["orders"].partitions[0] == image.partitions[0]


def test_topic_without_a_config_node_has_no_settings_of_its_own(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("orders", 1, 1, configs={"retention.ms": "7"}))
    pump.call(pump.store.delete, paths.config_path("topics", "orders"), version=ANY_VERSION)
    loaded = load(pump)
    assert isinstance(loaded, dict)
    assert loaded["orders"].configs == {}


def test_error_is_told_once(pump: PumpedStore) -> None:
    topics, _ = make_topics(pump)
    created(pump, topics, NewTopic("orders", 5, 1))
    for index in range(5):
        pump.put(paths.partition_state_path("orders", index), b"{")
    told: list[object] = []
    TreeLoader(pump.store, told.append).start()
    pump.run_until(lambda: bool(told))
    pump.get(paths.TOPICS)  # everything that was asked before is answered by now
    assert len(told) == 1


def test_store_that_fails_is_an_error_with_the_path(pump: PumpedStore) -> None:
    pump.store.close()
    error = load(pump)
    assert isinstance(error, TreeError)
    assert paths.TOPICS in str(error)
