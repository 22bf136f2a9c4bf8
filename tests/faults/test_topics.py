"""A topic that can't be created as requested is refused with a code and a reason, and leaves nothing behind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.processes import BrokerProcess
from tests.raw_wire import RawClient, batch_of

pytestmark = pytest.mark.process

LAST_VERSION = 7


def by_counts(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=entries)


def by_assignment(name: str, *replicas: list[int], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in enumerate(replicas)
    ]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, assignments=assignments)


def create(
    client: RawClient, *topics: CreatableTopic, version: int = LAST_VERSION, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)
    return client.ask(request, version, CreateTopicsResponse).topics


def files_of(broker: BrokerProcess) -> set[Path]:
    return set(broker.data_dir.rglob("*"))


def exists(client: RawClient, name: str) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return client.ask(request, 9, MetadataResponse).topics[0].error_code == 0


REFUSED = [
    (by_counts("refused", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, "2"),
    (by_counts("refused", 1, 32767), ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker(s)"),
    (by_counts("refused", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
    (by_counts("refused", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
    (by_assignment("refused", [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9"),
    (by_assignment("refused", [1], [-1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker -1"),
    (by_assignment("refused", [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
    (by_assignment("refused", [1], []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
    (by_assignment("refused", []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
    (by_assignment("refused", [1], partitions=1), ErrorCode.INVALID_REQUEST, "numPartitions"),
    (by_assignment("refused", [1], factor=1), ErrorCode.INVALID_REQUEST, "replication factor"),
    (by_counts("refused", 0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
    (by_counts("refused", -2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
    (by_counts("refused", 2**31 - 1), ErrorCode.INVALID_PARTITIONS, "2147483647"),
    (by_counts("refused", retention_ms="soon"), ErrorCode.INVALID_CONFIG, "retention.ms"),
    (by_counts("refused", retention_ms=None), ErrorCode.INVALID_CONFIG, "retention.ms"),
    (by_counts("refused", no_such_key="1"), ErrorCode.INVALID_CONFIG, "no.such.key"),
    (by_counts("re/fused"), ErrorCode.INVALID_TOPIC_EXCEPTION, "re/fused"),
]


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(("topic", "error_code", "word"), REFUSED)
def test_topic_that_can_not_be_is_refused_with_a_reason(
    shared_broker: BrokerProcess,
    client: RawClient,
    topic: CreatableTopic,
    error_code: ErrorCode,
    word: str,
    validate_only: bool,
) -> None:
    before = files_of(shared_broker)
    for version in (2, 4, LAST_VERSION):
        (result,) = create(client, topic, version=version, validate_only=validate_only)
        assert (result.name, result.error_code) == (topic.name, error_code)
        assert word in (result.error_message or "")
    assert files_of(shared_broker) == before
    assert topic.name == "re/fused" or not exists(client, topic.name)


def test_good_topics_of_a_request_are_made_beside_all_kinds_of_bad_ones(client: RawClient) -> None:
    bad = [topic for topic, _, _ in REFUSED]
    for number, topic in enumerate(bad[:-1]):
        topic.name = f"mixed-bad-{number}"
    good = [by_counts(f"mixed-good-{number}") for number in range(20)]
    results = create(client, *bad, *good)
    assert [result.error_code for result in results] == [code for _, code, _ in REFUSED] + [0] * 20
    assert all(exists(client, topic.name) for topic in good)
    assert not any(exists(client, topic.name) for topic in bad[:-1])


def test_hundred_times_the_same_topic_is_one_refusal(client: RawClient) -> None:
    results = create(client, *[by_counts("hundredfold")] * 100, by_counts("single"))
    assert [(result.name, result.error_code) for result in results] == [
        ("hundredfold", ErrorCode.INVALID_REQUEST),
        ("single", 0),
    ]
    assert not exists(client, "hundredfold")


def test_empty_requests_are_answered(client: RawClient) -> None:
    assert create(client) == []
    assert client.ask(CreatePartitionsRequest(), 3, CreatePartitionsResponse).results == []
    assert client.ask(DeleteTopicsRequest(), 6, DeleteTopicsResponse).responses == []


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31), 1, 2**31 - 1])
def test_any_timeout_is_answered_and_the_topic_is_made(client: RawClient, timeout_ms: int) -> None:
    name = f"timeout{timeout_ms}"
    request = CreateTopicsRequest(topics=[by_counts(name)], timeout_ms=timeout_ms)
    (result,) = client.ask(request, LAST_VERSION, CreateTopicsResponse).topics
    assert result.error_code in (0, ErrorCode.REQUEST_TIMED_OUT)
    while not exists(client, name):
        pass  # each question is one turn of the broker
    deletion = client.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=timeout_ms), 5, DeleteTopicsResponse)
    assert deletion.responses[0].error_code in (0, ErrorCode.REQUEST_TIMED_OUT)
    while exists(client, name):
        pass


def grow(client: RawClient, name: str, count: int, *replicas: list[int]) -> tuple[int, str | None]:
    assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in replicas] or None
    topic = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)
    (result,) = client.ask(request, 3, CreatePartitionsResponse).results
    return result.error_code, result.error_message


@pytest.mark.parametrize(
    ("count", "replicas", "error_code"),
    [
        (1, [], ErrorCode.INVALID_PARTITIONS),
        (0, [], ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, [], ErrorCode.INVALID_PARTITIONS),
        (2, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[1], [1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_addition_that_can_not_be_is_refused_with_a_reason(
    shared_broker: BrokerProcess,
    client: RawClient,
    topic: str,
    count: int,
    replicas: list[list[int]],
    error_code: ErrorCode,
) -> None:
    before = files_of(shared_broker)
    found, message = grow(client, topic, count, *replicas)
    assert found == error_code
    assert message
    assert files_of(shared_broker) == before


def test_addition_survives_a_crash_right_after_its_answer(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        assert client.create_topic("orders", partitions=2) == 0
        assert client.produce("orders", batch_of(b"old"), partition=1).error_code == 0
        assert grow(client, "orders", 5) == (0, None)
        assert client.produce("orders", batch_of(b"new"), partition=4).error_code == 0
    broker.kill()
    broker.start()
    with RawClient(broker.port) as client:
        assert [record.value for record in client.read_all("orders", partition=1)] == [b"old"]
        assert [record.value for record in client.read_all("orders", partition=4)] == [b"new"]
        assert client.produce("orders", batch_of(b"more"), partition=3).error_code == 0
        assert grow(client, "orders", 5)[0] == ErrorCode.INVALID_PARTITIONS


def test_addition_of_which_only_the_store_knows_is_finished_by_the_next_start(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        assert client.create_topic("orders", partitions=1) == 0
        assert client.produce("orders", batch_of(b"old")).error_code == 0
        assert grow(client, "orders", 3) == (0, None)
    broker.kill()
    # As if the crash had come after the commit of the store and before the first folder.
    for index in (1, 2):
        folder = broker.partition_dir("orders", index)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    broker.start()
    with RawClient(broker.port) as client:
        assert [record.value for record in client.read_all("orders")] == [b"old"]
        for index in (1, 2):
            assert client.produce("orders", batch_of(b"new"), partition=index).error_code == 0
            assert broker.partition_dir("orders", index).is_dir()
