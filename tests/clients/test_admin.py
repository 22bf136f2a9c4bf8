"""Administration by the client: outcomes of each key, the cluster, its log directories and offsets."""

import pytest

from ottla.clients.admin_cluster import describe_cluster, describe_log_dirs
from ottla.clients.admin_offsets import list_each_offset
from ottla.clients.admin_retry import ask_each, only
from ottla.clients.admin_topics import TopicDescription, create_each, delete_each, describe_topics
from ottla.clients.cluster import Cluster
from ottla.clients.errors import BrokerError
from ottla.clients.topics import LATEST, NewTopic
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from tests.processes import BrokerProcess

NOWHERE = "127.0.0.1:1"


def test_only_what_failed_for_the_moment_is_asked_for_again() -> None:
    asked: list[list[str]] = []

    def attempt(left: list[str]) -> dict[str, int | BrokerError]:
        asked.append(left)
        is_first = len(asked) == 1
        refused = BrokerError(ErrorCode.INVALID_CONFIG, "b")
        later = BrokerError(ErrorCode.NOT_CONTROLLER, "c")
        answers: dict[str, int | BrokerError] = {"a": 1, "b": refused, "c": later if is_first else 3}
        return {key: answers[key] for key in left}

    outcomes = ask_each(Cluster(NOWHERE), ["a", "b", "c", "a"], attempt)
    assert asked == [["a", "b", "c"], ["c"]]
    assert (outcomes["a"], outcomes["c"]) == (1, 3)
    assert isinstance(outcomes["b"], BrokerError)


def test_what_does_not_pass_in_time_is_the_outcome() -> None:
    def attempt(left: list[str]) -> dict[str, int | BrokerError]:
        return {key: BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, key) for key in left}

    outcomes = ask_each(Cluster(NOWHERE, retry_timeout_ms=0), ["a", "b"], attempt)
    assert {type(outcome) for outcome in outcomes.values()} == {BrokerError}
    with pytest.raises(BrokerError, match="a: COORDINATOR_NOT_AVAILABLE"):
        only({"a": outcomes["a"]})


@pytest.mark.process
def test_the_cluster_and_its_directories_are_described(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.address) as cluster:
        created = create_each(cluster, [NewTopic("kept", 2, 1)])["kept"]
        assert not isinstance(created, BrokerError)
        described = describe_cluster(cluster)
        (broker,) = described.brokers
        assert f"{broker.host}:{broker.port}" == shared_broker.address
        assert described.controller_id == broker.broker_id
        topic_partitions = [TopicPartition("kept", 0), TopicPartition("kept", 1)]
        (directory,) = describe_log_dirs(cluster, topic_partitions)
        assert directory.path == str(shared_broker.data_dir)
        assert sorted(replica.topic_partition for replica in directory.replicas) == topic_partitions
        (everything,) = describe_log_dirs(cluster)
        assert {replica.topic_partition for replica in everything.replicas} >= set(topic_partitions)


@pytest.mark.process
def test_topics_are_described_in_pages_as_in_the_metadata(shared_broker: BrokerProcess) -> None:
    names = [f"paged-{number}" for number in range(5)]
    with Cluster(shared_broker.address) as cluster:
        create_each(cluster, [NewTopic(name, 500, 1) for name in names])
        paged = describe_topics(cluster, [*names, "not-there"])
        listed = describe_topics(cluster)
        for name in names:
            described, from_metadata = paged[name], listed[name]
            assert isinstance(described, TopicDescription)
            assert isinstance(from_metadata, TopicDescription)
            assert [part.partition for part in described.partitions] == list(range(500))
            assert [part[:6] for part in described.partitions] == [part[:6] for part in from_metadata.partitions]
            assert described.topic_id == from_metadata.topic_id
        missing = paged["not-there"]
        assert isinstance(missing, BrokerError)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert set(delete_each(cluster, names).values()) == {None}


@pytest.mark.process
def test_each_partition_has_its_own_outcome(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.address) as cluster:
        create_each(cluster, [NewTopic("outcomes", 1, 1)])
        good, bad = TopicPartition("outcomes", 0), TopicPartition("outcomes", 9)
        outcomes = list_each_offset(cluster, [good, bad], LATEST)
        assert getattr(outcomes[good], "offset", None) == 0
        assert "the topic has 1 partitions" in str(outcomes[bad])
