"""The admin clients of confluent-kafka and kafka-python as judges of topics, the cluster and the log directories."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.admin import NewPartitions as PythonNewPartitions
from kafka.admin import NewTopic as PythonNewTopic
from kafka.errors import InvalidReplicationAssignmentError, NoReassignmentInProgressError, UnknownTopicOrPartitionError

from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

WAIT_S = 20.0


@pytest.fixture
def name() -> str:
    return f"admin-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def admin(shared_broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": shared_broker.address})


@contextmanager
def python_admin(broker: BrokerProcess) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        yield client
    finally:
        client.close()


def done(futures: dict[Any, Any]) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(WAIT_S)


def code_of(futures: dict[Any, Any]) -> str:
    """The name of the error that the only future fails with."""
    with pytest.raises(KafkaException) as raised:
        done(futures)
    text: str = raised.value.args[0].name()
    return text


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen"


def test_confluent_creates_by_assignment_with_configs(admin: AdminClient, name: str) -> None:
    topic = NewTopic(name, 3, replica_assignment=[[1], [1], [1]], config={"retention.ms": "1000"})
    done(admin.create_topics([topic]))
    described = done(admin.describe_topics(TopicCollection([name]), include_authorized_operations=True))
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert [[node.id for node in partition.replicas] for partition in described.partitions] == [[1]] * 3
    assert not described.is_internal
    assert described.authorized_operations


def test_confluent_hears_why_a_topic_is_refused(admin: AdminClient, name: str) -> None:
    assert code_of(admin.create_topics([NewTopic(name, 1, 3)])) == "INVALID_REPLICATION_FACTOR"
    assert code_of(admin.create_topics([NewTopic(name, 1, replica_assignment=[[9]])])) == "INVALID_REPLICA_ASSIGNMENT"
    assert code_of(admin.create_topics([NewTopic(name, 1, 1, config={"x": "y"})])) == "INVALID_CONFIG"
    assert code_of(admin.create_topics([NewTopic("a/b", 1, 1)])) == "TOPIC_EXCEPTION"
    assert name not in admin.list_topics(timeout=WAIT_S).topics


def test_confluent_validates_only(admin: AdminClient, name: str) -> None:
    done(admin.create_topics([NewTopic(name, 2, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=WAIT_S).topics
    done(admin.create_topics([NewTopic(name, 2, 1)]))
    done(admin.create_partitions([NewPartitions(name, 4)], validate_only=True))
    assert len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 2
    assert code_of(admin.create_topics([NewTopic(name, 2, 1)], validate_only=True)) == "TOPIC_ALREADY_EXISTS"


def test_confluent_adds_partitions_and_deletes(admin: AdminClient, name: str) -> None:
    done(admin.create_topics([NewTopic(name, 1, 1)]))
    done(admin.create_partitions([NewPartitions(name, 3)]))
    assert len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 3
    done(admin.create_partitions([NewPartitions(name, 4, replica_assignment=[[1]])]))
    assert len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 4
    assert code_of(admin.create_partitions([NewPartitions(name, 4)])) == "INVALID_PARTITIONS"
    assert code_of(admin.create_partitions([NewPartitions("none", 4)])) == "UNKNOWN_TOPIC_OR_PART"
    done(admin.delete_topics([name]))
    assert name not in admin.list_topics(timeout=WAIT_S).topics
    assert code_of(admin.delete_topics([name])) == "UNKNOWN_TOPIC_OR_PART"


def test_confluent_describes_the_cluster(shared_broker: BrokerProcess, admin: AdminClient) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(WAIT_S)
    assert cluster.cluster_id
    assert [(node.id, node.port) for node in cluster.nodes] == [(1, shared_broker.port)]
    assert cluster.controller.id == 1
    assert cluster.authorized_operations


def test_running_clients_of_others_find_the_new_partitions(
    shared_broker: BrokerProcess, admin: AdminClient, name: str
) -> None:
    done(admin.create_topics([NewTopic(name, 1, 1)]))
    servers = {"bootstrap.servers": shared_broker.address, "topic.metadata.refresh.interval.ms": 100}
    producer = Producer(servers)
    producer.produce(name, b"before", partition=0)
    assert producer.flush(WAIT_S) == 0
    done(admin.create_partitions([NewPartitions(name, 3)]))
    wait_for(lambda: len(producer.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 3)
    for index in range(3):
        producer.produce(name, b"after-%d" % index, partition=index)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**servers, "group.id": name, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(name, index, 0) for index in range(3)])
        messages = consumer.consume(4, timeout=WAIT_S)
        assert {message.value() for message in messages} == {b"before", b"after-0", b"after-1", b"after-2"}
    finally:
        consumer.close()


def test_kafka_python_makes_grows_describes_and_deletes(shared_broker: BrokerProcess, name: str) -> None:
    with python_admin(shared_broker) as admin:
        by_assignment = PythonNewTopic(name, -1, -1, replica_assignments={0: [1], 1: [1]})
        admin.create_topics([by_assignment], validate_only=True)
        assert name not in admin.list_topics()
        admin.create_topics([by_assignment])
        assert name in admin.list_topics()
        admin.create_partitions({name: PythonNewPartitions(3)})
        (described,) = admin.describe_topics([name])
        assert len(described["partitions"]) == 3
        admin.delete_topics([name])
        assert name not in admin.list_topics()


def test_kafka_python_describes_cluster_and_log_dirs(shared_broker: BrokerProcess, name: str) -> None:
    producer = Producer({"bootstrap.servers": shared_broker.address})
    producer.produce(name, b"x" * 1000)
    assert producer.flush(WAIT_S) == 0
    with python_admin(shared_broker) as admin:
        cluster = admin.describe_cluster()
        assert [broker["port"] for broker in cluster["brokers"]] == [shared_broker.port]
        told = str(admin.describe_log_dirs())
        assert name in told
        assert str(shared_broker.data_dir) in told


@pytest.mark.parametrize("election_type", [ElectionType.PREFERRED, ElectionType.UNCLEAN])
def test_confluent_hears_that_no_election_is_needed(admin: AdminClient, name: str, election_type: ElectionType) -> None:
    done(admin.create_topics([NewTopic(name, 2, 1)]))
    named = [TopicPartition(name, 0), TopicPartition(name, 1), TopicPartition(name, 9)]
    elected = admin.elect_leaders(election_type, named).result(WAIT_S)
    assert {partition.partition: error.name() for partition, error in elected.items()} == {
        0: "ELECTION_NOT_NEEDED",
        1: "ELECTION_NOT_NEEDED",
        9: "UNKNOWN_TOPIC_OR_PART",
    }
    assert admin.elect_leaders(election_type).result(WAIT_S) == {}


def test_kafka_python_reassigns_partitions_and_lists_resources(shared_broker: BrokerProcess, name: str) -> None:
    with python_admin(shared_broker) as admin:
        admin.create_topics([PythonNewTopic(name, 2, 1)])
        here, moved, absent = (PythonPartition(name, index) for index in (0, 1, 2))
        assert admin.alter_partition_reassignments({here: [1], moved: [1, 9], absent: None}) == {
            here: None,
            moved: InvalidReplicationAssignmentError,
            absent: UnknownTopicOrPartitionError,
        }
        assert admin.alter_partition_reassignments({here: None}) == {here: NoReassignmentInProgressError}
        assert admin.list_partition_reassignments() == {}
        assert admin.list_partition_reassignments([here, absent]) == {}
        listed = admin.list_config_resources()
        assert "1" in listed["broker"]
        assert name in listed["topic"]
