"""CreateTopics and DeleteTopics over the wire."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.broker.conftest import MakeRig
from tests.broker.rig import Rig
from tests.storage.log_making import batch


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignment: list[tuple[int, list[int]]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=at, broker_ids=on) for at, on in assignment or ()],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def create(
    rig: Rig, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return rig.ask(request, CreateTopicsResponse, version).topics


def codes(results: list[CreatableTopicResult] | list[DeletableTopicResult]) -> list[tuple[str | None, int]]:
    return [(result.name, result.error_code) for result in results]


@pytest.mark.parametrize("version", range(2, 8))
def test_topic_can_be_used_when_its_answer_is_there(rig: Rig, version: int) -> None:
    (result,) = create(rig, topic("orders", 3, retention_ms="777"), version=version)
    assert result.error_code == 0
    for index in range(3):
        assert rig.produce(batch(b"a"), index=index) == (0, 0)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        configs = {config.name: config for config in result.configs or []}
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("777", 1)
        assert configs["segment.bytes"].config_source == 5
    if version >= 7:
        assert result.topic_id == rig.cache.topics["orders"].topic_id


def test_results_come_in_the_order_of_the_request_each_with_its_own_verdict(rig: Rig) -> None:
    rig.create_topic("old")
    results = create(
        rig,
        topic("a"),
        topic("old"),
        topic("..", 1),
        topic("b", 0),
        topic("c", 1, 2),
        topic("d", retention_ms="soon"),
        topic("e", -1, -1, assignment=[(0, [9])]),
        topic("f", 1, 1, assignment=[(0, [1])]),
        topic("g", -1, -1),
    )
    assert codes(results) == [
        ("a", 0),
        ("old", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("b", ErrorCode.INVALID_PARTITIONS),
        ("c", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("d", ErrorCode.INVALID_CONFIG),
        ("e", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("f", ErrorCode.INVALID_REQUEST),
        ("g", 0),
    ]
    assert all(result.error_message for result in results if result.error_code)
    assert set(rig.cache.topics) == {"old", "a", "g"}


def test_topic_that_is_named_twice_is_refused_once(rig: Rig) -> None:
    results = create(rig, topic("a"), topic("b"), topic("a"))
    assert codes(results) == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]
    assert codes(create(rig, topic("c"), topic("c"))) == [("c", ErrorCode.INVALID_REQUEST)]


def test_partition_that_is_assigned_twice_is_refused(rig: Rig) -> None:
    (result,) = create(rig, topic("a", -1, -1, assignment=[(0, [1]), (0, [1])]))
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_request_without_topics_is_answered_without_topics(rig: Rig) -> None:
    assert create(rig) == []


def test_validation_alone_makes_nothing(rig: Rig) -> None:
    results = create(rig, topic("a", 2), topic(".."), validate_only=True)
    assert codes(results) == [("a", 0), ("..", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert rig.cache.topics == {}
    assert rig.log_manager.partitions() == []


def delete(rig: Rig, *names: str, version: int = 5) -> list[DeletableTopicResult]:
    if version >= 6:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])
    else:
        request = DeleteTopicsRequest(topic_names=list(names))
    return rig.ask(request, DeleteTopicsResponse, version).responses


@pytest.mark.parametrize("version", range(1, 7))
def test_deleted_topic_is_gone_when_its_answer_is_there(rig: Rig, version: int) -> None:
    image = rig.create_topic("orders", 2)
    rig.create_topic("payments")
    (result,) = delete(rig, "orders", version=version)
    assert (result.name, result.error_code) == ("orders", 0)
    if version >= 6:
        assert result.topic_id == image.topic_id
    assert set(rig.cache.topics) == {"payments"}
    assert [str(one) for one in rig.log_manager.partitions()] == ["payments-0"]


def test_topic_is_deleted_by_its_id(rig: Rig) -> None:
    image = rig.create_topic()
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name=None, topic_id=image.topic_id),
            DeleteTopicState(name=None, topic_id=b"\x07" * 16),
            DeleteTopicState(name="orders", topic_id=image.topic_id),
        ]
    )
    results = rig.ask(request, DeleteTopicsResponse, 6).responses
    assert codes(results) == [
        ("orders", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("orders", ErrorCode.INVALID_REQUEST),
    ]
    assert rig.cache.topics == {}


def test_only_unknown_ids_are_answered_at_once(rig: Rig) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=b"\x07" * 16)])
    assert codes(rig.ask(request, DeleteTopicsResponse, 6).responses) == [(None, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_unknown_names_are_told_beside_the_deleted(rig: Rig) -> None:
    rig.create_topic("a")
    assert codes(delete(rig, "b", "a", "a")) == [
        ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 0),
        ("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_deletion_that_is_switched_off_is_told(make_rig: MakeRig) -> None:
    rig = make_rig({"delete.topic.enable": "false"})
    rig.create_topic()
    assert codes(delete(rig, "orders")) == [("orders", ErrorCode.TOPIC_DELETION_DISABLED)]
    assert "orders" in rig.cache.topics
