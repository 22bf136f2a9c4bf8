"""aiokafka as a judge of groups: its members send heartbeats, join and commit from tasks of one event loop."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from tests.judges.conftest import NO_INITIAL_DELAY
from tests.judges.messages import SOME_TIME_MS, Message
from tests.judges.test_aiokafka import admin_for, new_topic, produce_all, producer_for, take
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

PARTITIONS = 4


class Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]
    """What a member was told of its partitions."""

    def __init__(self) -> None:
        self.assigned: list[set[int]] = []

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.assigned.append({partition.partition for partition in assigned})

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass


@asynccontextmanager
async def member_of(
    broker: BrokerProcess, group_id: str, topic: str, *, listener: Rebalances | None = None, **settings: Any
) -> AsyncIterator[Any]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.address,
        group_id=group_id,
        **{
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 100,
            "heartbeat_interval_ms": 100,
            "retry_backoff_ms": 50,
            **settings,
        },
    )
    consumer.subscribe([topic], listener=listener or Rebalances())
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


def partitions_of(consumer: Any) -> set[int]:
    return {partition.partition for partition in consumer.assignment()}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def fill(broker: BrokerProcess, topic: str, *, each: int = 10) -> None:
    async with producer_for(broker) as producer:
        for partition in range(PARTITIONS):
            messages = [Message(None, b"%d" % number, (), SOME_TIME_MS) for number in range(each)]
            await produce_all(producer, topic, messages, partition=partition)


def new_group() -> str:
    return f"aiokafka-{uuid.uuid4().hex[:8]}"


async def committed(broker: BrokerProcess, group_id: str, topic: str) -> list[int]:
    async with admin_for(broker) as admin:
        found = await admin.list_consumer_group_offsets(group_id)
    return [found[TopicPartition(topic, partition)].offset for partition in range(PARTITIONS)]


def test_group_reads_everything_once_and_goes_on_where_it_committed(group_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic, group_id = await new_topic(group_broker, partitions=PARTITIONS), new_group()
        await fill(group_broker, topic)
        async with member_of(group_broker, group_id, topic) as first:
            assert len(await take(first, 40)) == 40
            await first.commit()
        assert await committed(group_broker, group_id, topic) == [10] * PARTITIONS
        await fill(group_broker, topic, each=1)
        async with member_of(group_broker, group_id, topic) as second:
            assert {record.offset for record in await take(second, 4)} == {10}

    asyncio.run(run())


@pytest.mark.parametrize("assignor", [None, StickyPartitionAssignor])
def test_partitions_are_shared_when_a_member_comes_and_taken_over_when_it_goes(
    group_broker: BrokerProcess, assignor: Any
) -> None:
    async def run() -> None:
        topic, group_id = await new_topic(group_broker, partitions=PARTITIONS), new_group()
        strategy = {} if assignor is None else {"partition_assignment_strategy": (assignor,)}
        async with member_of(group_broker, group_id, topic, **strategy) as first:
            await until(lambda: len(partitions_of(first)) == 4)
            async with member_of(group_broker, group_id, topic, **strategy) as second:
                await until(lambda: len(partitions_of(first)) == len(partitions_of(second)) == 2)
                assert partitions_of(first) | partitions_of(second) == {0, 1, 2, 3}
            await until(lambda: len(partitions_of(first)) == 4)

    asyncio.run(run())


def test_many_members_settle_with_each_partition_owned_once(group_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic, group_id = await new_topic(group_broker, partitions=12), new_group()
        async with asyncio.TaskGroup() as tasks:
            is_settled = asyncio.Event()
            members: list[Any] = []

            async def live() -> None:
                async with member_of(group_broker, group_id, topic) as member:
                    members.append(member)
                    await is_settled.wait()

            for _ in range(6):
                tasks.create_task(live())
            await until(lambda: [len(partitions_of(member)) for member in members] == [2] * 6)
            assert set.union(*(partitions_of(member) for member in members)) == set(range(12))
            is_settled.set()

    asyncio.run(run())


def test_metadata_of_a_commit_comes_back(group_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic, group_id = await new_topic(group_broker, partitions=PARTITIONS), new_group()
        partition = TopicPartition(topic, 1)
        async with member_of(group_broker, group_id, topic) as member:
            await until(lambda: len(partitions_of(member)) == 4)
            await member.commit({partition: OffsetAndMetadata(3, "half way: Ærø")})
        async with admin_for(group_broker) as admin:
            found = await admin.list_consumer_group_offsets(group_id)
        assert found[partition] == OffsetAndMetadata(3, "half way: Ærø")

    asyncio.run(run())


@pytest.mark.parametrize("is_killed", [True, False])
def test_member_goes_on_over_a_restart_of_the_broker(
    start_broker: Callable[..., BrokerProcess], is_killed: bool
) -> None:
    async def run() -> None:
        broker = start_broker(NO_INITIAL_DELAY)
        topic, group_id = await new_topic(broker, partitions=PARTITIONS), new_group()
        await fill(broker, topic)
        async with member_of(broker, group_id, topic, session_timeout_ms=30_000) as member:
            await take(member, 40)
            await member.commit()
            if is_killed:
                broker.kill()
                broker.start()
            else:
                broker.restart()
            assert await committed(broker, group_id, topic) == [10] * PARTITIONS
            await fill(broker, topic, each=1)
            assert {record.offset for record in await take(member, 4)} == {10}
            await member.commit()
        assert await committed(broker, group_id, topic) == [11] * PARTITIONS
        assert "Traceback" not in broker.log

    asyncio.run(run())


def test_no_bug_was_met(group_broker: BrokerProcess) -> None:
    assert "Traceback" not in group_broker.log
