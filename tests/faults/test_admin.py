"""What an administrator can ask wrongly of groups and configs, on the wire: each has its code, and nothing changes."""

from collections.abc import Iterator
from itertools import count

import pytest

from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tests.group_wire import RawMember, commit, committed, find_coordinator, rebalance
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import RawClient, batch_of

pytestmark = pytest.mark.process

STATIC_BROKER_CONFIG = 4
UNKNOWN_TOPIC = 3
INVALID_TOPIC = 17
INVALID_GROUP_ID = 24
INVALID_CONFIG = 40
INVALID_REQUEST = 42
NON_EMPTY_GROUP = 68
GROUP_NOT_FOUND = 69
SUBSCRIBED = 86

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
_NUMBERS = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(
        tmp_path_factory.mktemp("broker") / "data",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.num.partitions=5",
    ).start()
    with RawClient(broker.port) as client:
        assert client.create_topic("orders", partitions=3) == 0
        assert client.create_topic("payments") == 0
    yield broker
    assert "Traceback" not in broker.log
    broker.close()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


@pytest.fixture
def group_id(client: RawClient) -> str:
    """A group with a commit for `orders` and one for `payments`, and without members."""
    group_id = f"group-{next(_NUMBERS)}"
    find_coordinator(client, group_id)
    assert commit(client, group_id, "orders", 7) == commit(client, group_id, "payments", 8) == 0
    return group_id


@pytest.fixture
def member(broker: BrokerProcess, group_id: str) -> Iterator[RawMember]:
    """The only member of that group; it reads `orders`."""
    with RawMember(broker.port, group_id, topics=["orders"]) as member:
        rebalance(member)
        yield member


ALL = {("orders", 0): 7, ("payments", 0): 8}


def delete_groups(client: RawClient, *group_ids: str, version: int = 2) -> list[int]:
    response = client.ask(DeleteGroupsRequest(groups_names=list(group_ids)), version, DeleteGroupsResponse)
    return [result.error_code for result in response.results]


def delete_offsets(client: RawClient, group_id: str, *partitions: tuple[str, int]) -> int | list[int]:
    """The error of all, or one error each."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
            for topic, index in partitions
        ],
    )
    response = client.ask(request, 0, OffsetDeleteResponse)
    if response.error_code:
        assert response.topics == []
        return response.error_code
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def listed(client: RawClient) -> dict[str, str]:
    return {
        group.group_id: group.group_state for group in client.ask(ListGroupsRequest(), 5, ListGroupsResponse).groups
    }


@pytest.mark.parametrize("version", range(7))
def test_description_of_a_group_that_is_not_there(client: RawClient, group_id: str, version: int) -> None:
    request = DescribeGroupsRequest(groups=["no-such-group", group_id, ""])
    absent, present, unnamed = client.ask(request, version, DescribeGroupsResponse).groups
    assert (present.error_code, present.group_state) == (0, "Empty")
    for group in (absent, unnamed):
        assert group.group_state == "Dead"
        assert group.error_code == (GROUP_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", range(3))
def test_group_with_members_is_not_deleted(client: RawClient, member: RawMember, version: int) -> None:
    group_id = member.group_id
    codes = delete_groups(client, "no-such-group", group_id, version=version)
    assert codes == [GROUP_NOT_FOUND, NON_EMPTY_GROUP]
    assert member.heartbeat() == 0
    assert committed(client, group_id) == ALL
    assert member.leave() == 0
    assert delete_groups(client, group_id, group_id, version=version) == [0]  # named twice, deleted once
    assert delete_groups(client, group_id, version=version) == [GROUP_NOT_FOUND]
    assert committed(client, group_id) == {}
    assert group_id not in listed(client)


def test_offsets_of_a_topic_that_is_read_are_not_deleted(client: RawClient, member: RawMember) -> None:
    wanted = [("orders", 0), ("payments", 0), ("orders", 9), ("no-such-topic", 0)]
    assert delete_offsets(client, member.group_id, *wanted) == [SUBSCRIBED, 0, UNKNOWN_TOPIC, UNKNOWN_TOPIC]
    assert committed(client, member.group_id) == {("orders", 0): 7}
    assert member.leave() == 0
    assert delete_offsets(client, member.group_id, ("orders", 0), ("orders", 1)) == [0, 0]
    assert committed(client, member.group_id) == {}


def test_offsets_of_no_group_or_of_one_that_is_none_of_consumers_are_not_deleted(
    client: RawClient, broker: BrokerProcess, group_id: str
) -> None:
    assert delete_offsets(client, "no-such-group", ("orders", 0)) == GROUP_NOT_FOUND
    assert delete_offsets(client, "", ("orders", 0)) == INVALID_GROUP_ID
    with RawMember(broker.port, group_id, protocol_type="connect") as worker:
        rebalance(worker)
        assert delete_offsets(client, group_id, ("orders", 0)) == NON_EMPTY_GROUP
    assert committed(client, group_id) == ALL


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_that_were_never_committed_are_minus_one(client: RawClient, group_id: str, version: int) -> None:
    wanted = [("orders", [0, 1, 99]), ("no-such-topic", [0])]
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in wanted],
    )
    response = client.ask(request, version, OffsetFetchResponse)
    found = [
        (topic.name, partition.partition_index, partition.committed_offset, partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    ]
    assert found == [("orders", 0, 7, 0), ("orders", 1, -1, 0), ("orders", 99, -1, 0), ("no-such-topic", 0, -1, 0)]
    if version >= 2:  # all that there is
        response = client.ask(OffsetFetchRequest(group_id=group_id, topics=None), version, OffsetFetchResponse)
        assert {(topic.name, topic.partitions[0].committed_offset) for topic in response.topics} == {
            ("orders", 7),
            ("payments", 8),
        }


def test_offsets_of_a_deleted_topic_are_not_those_of_the_next_with_its_name(client: RawClient, group_id: str) -> None:
    assert client.create_topic("short-lived") == 0
    assert commit(client, group_id, "short-lived", 5) == 0
    request = DeleteTopicsRequest(topic_names=["short-lived"], timeout_ms=10_000)
    assert client.ask(request, 3, DeleteTopicsResponse).responses[0].error_code == 0
    assert commit(client, group_id, "short-lived", 6) == UNKNOWN_TOPIC
    assert client.create_topic("short-lived") == 0
    eventually(lambda: committed(client, group_id) == ALL)


def test_topic_of_the_coordinator_is_not_for_clients_to_write(client: RawClient, group_id: str) -> None:
    for index in range(5):
        assert client.produce("__consumer_offsets", batch_of(b"forged"), partition=index).error_code == INVALID_TOPIC
    assert committed(client, group_id) == ALL


def test_records_of_the_coordinator_are_not_for_clients_to_delete(client: RawClient, group_id: str) -> None:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(5)]
    topic = DeleteRecordsTopic(name="__consumer_offsets", partitions=partitions)
    for version in range(3):
        response = client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), version, DeleteRecordsResponse)
        assert {partition.error_code for partition in response.topics[0].partitions} == {INVALID_TOPIC}
    assert committed(client, group_id) == ALL


def test_topic_of_the_coordinator_can_neither_go_nor_change_its_number_of_partitions(
    client: RawClient, group_id: str
) -> None:
    """A group is found by its hash over that number: with another one every commit would be looked for elsewhere."""
    deletion = DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=10_000)
    assert client.ask(deletion, 3, DeleteTopicsResponse).responses[0].error_code == INVALID_TOPIC
    topic = CreatePartitionsTopic(name="__consumer_offsets", count=10, assignments=None)
    addition = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)
    assert client.ask(addition, 3, CreatePartitionsResponse).results[0].error_code == INVALID_TOPIC
    assert committed(client, group_id) == ALL


@pytest.mark.parametrize(
    ("resource_type", "name", "key", "value", "error_code"),
    [
        (TOPIC_RESOURCE, "orders", "retention.ms", "soon", INVALID_CONFIG),
        (TOPIC_RESOURCE, "orders", "retention.ms", "9" * 5000, INVALID_CONFIG),
        (TOPIC_RESOURCE, "orders", "no.such.key", "1", INVALID_CONFIG),
        (TOPIC_RESOURCE, "no-such-topic", "retention.ms", "1", UNKNOWN_TOPIC),
        (TOPIC_RESOURCE, "", "retention.ms", "1", INVALID_TOPIC),
        (TOPIC_RESOURCE, "../etc", "retention.ms", "1", INVALID_TOPIC),
        (BROKER_RESOURCE, "2", "background.threads", "4", INVALID_REQUEST),
        (BROKER_RESOURCE, "one", "background.threads", "4", INVALID_REQUEST),
        (BROKER_RESOURCE, "1", "background.threads", "-4", INVALID_REQUEST),
        (BROKER_RESOURCE, "1", "log.dirs", "/tmp", INVALID_REQUEST),
        (BROKER_RESOURCE, "1", "group.max.size", "5", INVALID_REQUEST),
        (99, "1", "any", "1", INVALID_REQUEST),
        (-1, "1", "any", "1", INVALID_REQUEST),
    ],
)
def test_config_that_makes_no_sense_is_refused_with_a_reason(
    client: RawClient, resource_type: int, name: str, key: str, value: str, error_code: int
) -> None:
    resource = AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=[AlterableConfig(name=key, value=value)]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = client.ask(request, 1, IncrementalAlterConfigsResponse).responses
    assert answer.error_code == error_code
    assert answer.error_message


def test_what_a_broker_finds_out_at_its_start_is_described_as_its_static_config(
    broker: BrokerProcess, client: RawClient
) -> None:
    names = ["listeners", "advertised.listeners", "inter.broker.listener.name", "ottla.coordination.path"]
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=names)
    response = client.ask(DescribeConfigsRequest(resources=[resource]), 4, DescribeConfigsResponse)
    described = {entry.name: (entry.value, entry.config_source) for entry in response.results[0].configs}
    address = f"PLAINTEXT://{broker.address}"
    assert described == {
        "listeners": (address, STATIC_BROKER_CONFIG),
        "advertised.listeners": (address, STATIC_BROKER_CONFIG),
        "inter.broker.listener.name": ("PLAINTEXT", STATIC_BROKER_CONFIG),
        "ottla.coordination.path": (f"{broker.data_dir}/coordination.sqlite", STATIC_BROKER_CONFIG),
    }
