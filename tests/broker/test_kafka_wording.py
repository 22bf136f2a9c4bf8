"""The messages that scripts, Terraform providers and Spring's KafkaAdmin look for are worded as Kafka's."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.rig import Rig

TOPIC = 2
BROKER = 4
SET, DELETE, APPEND = 0, 1, 2


def assigned(*brokers_of_partitions: tuple[int, list[int]]) -> list[CreatableReplicaAssignment]:
    return [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in brokers_of_partitions
    ]


def new_topic(
    name: str = "new",
    *,
    partitions: int = -1,
    replicas: int = -1,
    assignments: list[CreatableReplicaAssignment] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=assignments or [],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


@pytest.mark.parametrize(
    ("topic", "error_code", "message"),
    [
        (new_topic("orders.new"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders.new' already exists."),
        (
            new_topic("orders_new"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'orders_new' collides with existing topic: orders.new",
        ),
        (
            new_topic(""),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (new_topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '.' or '..' are not allowed"),
        (
            new_topic("a" * 250),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249",
        ),
        (
            new_topic("a b"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            new_topic(partitions=0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            new_topic(replicas=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            new_topic(replicas=3),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 1 broker(s) are registered.",
        ),
        (new_topic(no_such_key="1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such.key"),
        (
            new_topic(flush_ms="soon"),
            ErrorCode.INVALID_CONFIG,
            "Invalid value soon for configuration flush.ms: expected a whole number",
        ),
        (
            new_topic(flush_ms=None, retention_ms=None),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: flush.ms,retention.ms",
        ),
        (
            new_topic(replicas=1, assignments=assigned((0, [1]))),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            new_topic(partitions=1, assignments=assigned((0, [1]))),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            new_topic(assignments=assigned((0, [1]), (0, [1]))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            new_topic(assignments=assigned((1, [1]))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            new_topic(assignments=assigned((0, [7]))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            new_topic(assignments=assigned((0, [1, 1]))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            new_topic(assignments=assigned((0, []))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
    ],
)
def test_topic_that_can_not_be_created(rig: Rig, topic: CreatableTopic, error_code: int, message: str) -> None:
    rig.create_topic("orders.new")
    response = rig.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), CreateTopicsResponse, 5)
    assert (response.topics[0].error_code, response.topics[0].error_message) == (error_code, message)


def test_topic_that_is_named_twice(rig: Rig) -> None:
    created = rig.ask(CreateTopicsRequest(topics=[new_topic(), new_topic()]), CreateTopicsResponse, 5).topics
    assert [topic.error_message for topic in created] == ["Duplicate topic name."]
    grown = [CreatePartitionsTopic(name="new", count=2, assignments=None)] * 2
    results = rig.ask(CreatePartitionsRequest(topics=grown, timeout_ms=1000), CreatePartitionsResponse, 2).results
    assert {result.error_message for result in results} == {"Duplicate topic name."}


@pytest.mark.parametrize(
    ("name", "count", "error_code", "message"),
    [
        ("orders", 3, ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s)."),
        (
            "orders",
            2,
            ErrorCode.INVALID_PARTITIONS,
            "The topic orders currently has 3 partition(s); 2 would not be an increase.",
        ),
        ("absent", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
    ],
)
def test_topic_that_can_not_grow(rig: Rig, name: str, count: int, error_code: int, message: str) -> None:
    rig.create_topic("orders", 3)
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
    response = rig.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=1000), CreatePartitionsResponse, 2)
    assert (response.results[0].error_code, response.results[0].error_message) == (error_code, message)


def test_topic_that_can_not_be_deleted(rig: Rig) -> None:
    response = rig.ask(DeleteTopicsRequest(topic_names=["absent"], timeout_ms=1000), DeleteTopicsResponse, 5)
    assert response.responses[0].error_message == "This server does not host this topic-partition."


@pytest.mark.parametrize(
    ("resource_type", "name", "edits", "message"),
    [
        (TOPIC, "absent", [("flush.ms", SET, "1")], "The topic 'absent' does not exist."),
        (TOPIC, "orders", [("no.such.key", SET, "1")], "Unknown topic config name: no.such.key"),
        (TOPIC, "orders", [("flush.ms", SET, "1"), ("flush.ms", SET, "2")], "Error due to duplicate config keys"),
        (TOPIC, "orders", [("flush.ms", SET, None)], "Null value not supported for : flush.ms"),
        (TOPIC, "orders", [("flush.ms", APPEND, "1")], "Can't APPEND to key flush.ms because its type is not LIST."),
        (
            BROKER,
            "7",
            [("background.threads", SET, "3")],
            "Unexpected broker id, expected 1 or empty string, but received 7",
        ),
    ],
)
def test_config_that_can_not_be_changed(
    rig: Rig, resource_type: int, name: str, edits: list[tuple[str, int, str | None]], message: str
) -> None:
    rig.create_topic()
    resource = AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in edits],
    )
    response = rig.ask(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse, 1)
    assert response.responses[0].error_message == message
