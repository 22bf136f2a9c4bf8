"""The admin clients of confluent-kafka and kafka-python list, describe, move and delete groups."""

import uuid
from contextlib import closing

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import GroupSubscribedToTopicError, NoError
from kafka.structs import OffsetAndMetadata

from tests.processes import BrokerProcess
from tests.scenarios.clients_confluent import CONFLUENT
from tests.scenarios.clients_kafka_python import KAFKA_PYTHON
from tests.scenarios.port import Client
from tests.scenarios.reading import fill, group_of

pytestmark = pytest.mark.process

PARTITIONS = 4


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def filled_topic(client: Client, broker: BrokerProcess) -> str:
    name = f"groups-{uuid.uuid4().hex[:8]}"
    with closing(client.administrator(broker.address)) as administrator:
        administrator.create(name, PARTITIONS, {})
    fill(client, broker.address, name, PARTITIONS)
    return name


def test_confluent_lists_describes_and_deletes_groups(group_broker: BrokerProcess, group: str) -> None:
    topic = filled_topic(CONFLUENT, group_broker)
    admin = AdminClient({"bootstrap.servers": group_broker.address})
    with group_of(group_broker.address, topic, group) as members:
        members.join(CONFLUENT)
        members.share(PARTITIONS)
        listed = {each.group_id: each.state for each in admin.list_consumer_groups().result(60).valid}
        assert listed[group] is ConsumerGroupState.STABLE
        described = admin.describe_consumer_groups([group])[group].result(60)
        assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
        (seen,) = described.members
        assert (seen.client_id, seen.host) == ("rdkafka", "/127.0.0.1")
        assert {partition.partition for partition in seen.assignment.topic_partitions} == set(range(PARTITIONS))
        with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result(60)
    admin.delete_consumer_groups([group])[group].result(60)
    assert group not in {each.group_id for each in admin.list_consumer_groups().result(60).valid}


def test_confluent_sets_the_offsets_of_a_group_from_outside(group_broker: BrokerProcess, group: str) -> None:
    topic = filled_topic(CONFLUENT, group_broker)
    admin = AdminClient({"bootstrap.servers": group_broker.address})
    wanted = [ConfluentPartition(topic, partition, 7 + partition) for partition in range(PARTITIONS)]
    (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
    future.result(60)
    with group_of(group_broker.address, topic, group) as members:
        members.join(CONFLUENT)
        members.poll_until(lambda: len(members.records) == 3 + 2 + 1 + 0)


def test_kafka_python_sees_changes_and_deletes_groups(group_broker: BrokerProcess, group: str) -> None:
    topic = filled_topic(KAFKA_PYTHON, group_broker)
    partition = TopicPartition(topic, 0)
    with closing(KafkaAdminClient(bootstrap_servers=group_broker.address)) as admin:

        def committed() -> list[int]:
            found = admin.list_group_offsets(group)[group]
            return [found[TopicPartition(topic, partition)].offset for partition in range(PARTITIONS)]

        with group_of(group_broker.address, topic, group) as members:
            member = members.join(KAFKA_PYTHON)
            members.poll_until(lambda: len(members.records) == 40)
            member.commit()
            described = admin.describe_groups([group])[group]
            assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
            assert [entry["client_id"].startswith("kafka-python") for entry in described["members"]] == [True]
            assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
            assert admin.delete_group_offsets(group, [partition]) == {partition: GroupSubscribedToTopicError}
        listed = {entry["group_id"]: entry for entry in admin.list_groups()}
        assert listed[group]["group_state"] == "Empty"
        assert group not in {entry["group_id"] for entry in admin.list_groups(states_filter=["Stable"])}
        admin.alter_group_offsets(group, {partition: OffsetAndMetadata(4, "", -1)})
        assert committed() == [4, 10, 10, 10]
        assert admin.delete_group_offsets(group, [partition]) == {partition: NoError}
        assert partition not in admin.list_group_offsets(group)[group]
        assert admin.delete_groups([group]) == {group: "OK"}
        assert group not in {entry["group_id"] for entry in admin.list_groups()}


def test_no_bug_was_met(group_broker: BrokerProcess) -> None:
    assert "Traceback" not in group_broker.log
