"""`Admin` in both faces on a real broker, and without one."""

import asyncio
import inspect

import pytest

import ottla
import ottla.aio
from ottla import NewTopic, TopicPartition
from ottla.clients.admin import OperationFailed
from ottla.clients.admin_configs import AlterKind, ConfigChange, topic_resource
from ottla.clients.errors import BrokerError, ClientClosed, ConnectionFailed
from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from tests.processes import BrokerProcess, eventually


@pytest.fixture
def address(shared_broker: BrokerProcess) -> str:
    """Where the cluster is; interop/ runs these tests on another one."""
    return shared_broker.address


def test_both_faces_have_the_same_operations() -> None:
    def operations(face: type) -> dict[str, list[str]]:
        found = {}
        for name, member in inspect.getmembers(face, inspect.isfunction):
            if not name.startswith("_"):
                found[name] = list(inspect.signature(member).parameters)
        return found

    assert operations(ottla.Admin) == operations(ottla.aio.Admin)


def test_a_cluster_that_is_not_there_is_told_in_time() -> None:
    with ottla.Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=50, retry_backoff_ms=10) as admin:
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1: not reached"):
            admin.connect()
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1: not reached"):
            admin.list_topics()


def test_a_closed_admin_says_so() -> None:
    admin = ottla.Admin()
    admin.close()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.list_topics()

    async def asynchronous() -> None:
        async with ottla.aio.Admin() as admin:
            pass
        with pytest.raises(ClientClosed):
            await admin.list_topics()

    asyncio.run(asynchronous())


@pytest.mark.process
def test_topics_configs_offsets_and_groups_of_a_broker(address: str) -> None:
    topic_partition = TopicPartition("administered", 1)
    resource = topic_resource("administered")
    with ottla.Admin({"bootstrap.servers": address}) as admin:
        admin.connect()
        assert list(admin.brokers()) == [admin.describe_cluster().controller_id]
        assert admin.serves(ApiKey.CREATE_TOPICS)
        assert admin.create_topics([NewTopic("administered", 2, 1), "plain"])["administered"].partitions == 2
        assert {"administered", "plain"} <= set(admin.list_topics())
        assert admin.add_partitions({"administered": 3}) == {"administered": 3}
        eventually(lambda: len(admin.describe_topics(["administered"])["administered"].partitions) == 3)
        admin.alter_configs({resource: [ConfigChange("retention.ms", AlterKind.SET, "1234")]})
        eventually(
            lambda: ("retention.ms", "1234") in [entry[:2] for entry in admin.describe_configs([resource])[resource]]
        )
        assert admin.list_offsets([topic_partition], admin.LATEST)[topic_partition].offset == 0
        assert admin.list_offsets([topic_partition], admin.EARLIEST)[topic_partition].offset == 0
        assert admin.delete_records({topic_partition: 0}) == {topic_partition: 0}
        admin.alter_group_offsets("administrators", {topic_partition: 0})
        assert admin.list_group_offsets("administrators")[topic_partition].offset == 0
        assert "administrators" in [group.group_id for group in admin.list_groups()]
        assert admin.describe_groups(["administrators"])["administrators"].members == ()
        admin.delete_group_offsets("administrators", [topic_partition])
        admin.delete_groups(["administrators"])
        assert any(directory.replicas for directory in admin.describe_log_dirs([topic_partition]))
        admin.delete_topics(["administered", "plain"])
        eventually(lambda: "administered" not in admin.list_topics())


@pytest.mark.process
def test_what_failed_of_several_is_raised_with_all_outcomes(address: str) -> None:
    with ottla.Admin(bootstrap_servers=address) as admin:
        admin.create_topics(["there"])
        with pytest.raises(OperationFailed, match="creating topic there: TOPIC_ALREADY_EXISTS") as caught:
            admin.create_topics(["there", "new"])
        assert isinstance(caught.value, BrokerError)
        assert caught.value.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert set(caught.value.outcomes) == {"there", "new"}
        assert set(caught.value.failures) == {"there"}
        with pytest.raises(OperationFailed, match=r"no such topic.*; 1 more failed"):
            admin.describe_topics(["nowhere", "nor-here"])


@pytest.mark.process
def test_operations_are_awaited_by_the_asyncio_face(address: str) -> None:
    async def administer() -> None:
        async with ottla.aio.Admin(bootstrap_servers=address) as admin:
            await admin.create_topics([NewTopic("awaited", 1, 1)])
            names, brokers = await asyncio.gather(admin.list_topics(), admin.brokers())
            assert "awaited" in names
            assert len(brokers) == 1
            with pytest.raises(OperationFailed):
                await admin.create_topics(["awaited"])
            await admin.delete_topics(["awaited"])

    asyncio.run(administer())
