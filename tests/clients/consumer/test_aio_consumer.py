"""The asyncio consumer on a real broker: the same session, awaited."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.clients.consumer.aio import Consumer
from ottla.clients.consumer.errors import ConcurrentUse, WokenUp
from ottla.clients.consumer.listener import RebalanceListener
from ottla.clients.errors import ClientClosed
from ottla.core.types import TopicPartition
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

MakeTopic = Callable[..., str]


def consumer_of(broker: BrokerProcess, **settings: Any) -> Consumer:
    defaults = {"bootstrap_servers": broker.address, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    return Consumer(**{**defaults, **settings})


def test_a_member_reads_commits_and_goes_on(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic, group_id = make_topic(2, 20), f"g-{uuid.uuid4().hex[:8]}"
    told = []

    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append(("assigned", len(topic_partitions)))

        async def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append(("revoked", len(topic_partitions)))

    async def run() -> None:
        async with consumer_of(broker, group_id=group_id) as consumer:
            await consumer.subscribe([topic], Listener())
            seen = []
            async for record in consumer:
                seen.append((record.partition, record.offset))
                if len(seen) == 20:
                    break
            assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(10)]
            await consumer.commit()
            topic_partitions = consumer.assignment()
            committed = await consumer.committed(topic_partitions)
            assert [each.offset for each in committed.values() if each is not None] == [10, 10]
            assert await consumer.end_offsets(topic_partitions) == dict.fromkeys(topic_partitions, 10)
            topic_partition = TopicPartition(topic, 0)
            consumer.seek(topic_partition, 8)
            assert [record.offset for record in await consumer.poll(2_000)] == [8, 9]
            await consumer.seek_to_time(0, topic_partition)
            assert await consumer.position(topic_partition) == 0
            batch = await consumer.poll_arrow(2_000)
            assert batch is not None
            assert batch.num_rows == 10
        with pytest.raises(ClientClosed):
            await consumer.poll(0)

    asyncio.run(run())
    assert told == [("assigned", 2), ("revoked", 2)]


def test_two_members_in_one_loop_share_partitions(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic, group_id = make_topic(4, 40), f"g-{uuid.uuid4().hex[:8]}"

    async def run() -> None:
        strategy = "cooperative-sticky"
        async with (
            consumer_of(
                broker, group_id=group_id, partition_assignment_strategy=strategy, heartbeat_interval_ms=50
            ) as first,
            consumer_of(
                broker, group_id=group_id, partition_assignment_strategy=strategy, heartbeat_interval_ms=50
            ) as second,
        ):
            await first.subscribe([topic])
            await second.subscribe([topic])
            seen: list[tuple[int, int]] = []
            while len(seen) < 40 or not (len(first.assignment()) == len(second.assignment()) == 2):
                for records in await asyncio.gather(first.poll(50), second.poll(50)):
                    seen += [(record.partition, record.offset) for record in records]
            assert len(seen) == len(set(seen)) == 40

    asyncio.run(asyncio.wait_for(run(), 90))


def test_a_second_task_is_kept_out_and_wakeup_ends_the_wait(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(1)

    async def run() -> None:
        async with consumer_of(broker) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            polling = asyncio.create_task(consumer.poll(30_000))
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentUse):
                await consumer.poll(0)
            with pytest.raises(ConcurrentUse):
                consumer.seek(TopicPartition(topic, 0), 1)
            consumer.wakeup()
            with pytest.raises(WokenUp):
                await polling
            cancelled = asyncio.create_task(consumer.poll(30_000))
            await asyncio.sleep(0.01)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            assert await consumer.poll(0) == []

    asyncio.run(asyncio.wait_for(run(), 90))
