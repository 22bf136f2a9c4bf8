"""One group, members of several clients: ours beside confluent-kafka and aiokafka, whoever leads."""

import asyncio
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.clients.consumer.consumer import Consumer
from tests.processes import BrokerProcess, eventually

pytestmark = pytest.mark.process

AIOKAFKA_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
PARTITIONS = 6
RECORDS = 120


class Ours:
    def __init__(self, address: str, group_id: str, topic: str, assignor: str) -> None:
        self._consumer = Consumer(
            bootstrap_servers=address,
            group_id=group_id,
            auto_offset_reset="earliest",
            partition_assignment_strategy=assignor,
            heartbeat_interval_ms=100,
            session_timeout_ms=6_000,
            fetch_max_wait_ms=20,
        )
        self._consumer.subscribe([topic])

    def step(self) -> list[tuple[int, int]]:
        return [(record.partition, record.offset) for record in self._consumer.poll(20)]

    def owned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    def __init__(self, address: str, group_id: str, topic: str, assignor: str) -> None:
        self._consumer = ConfluentConsumer(
            {
                "bootstrap.servers": address,
                "group.id": group_id,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": assignor,
                "heartbeat.interval.ms": 100,
                "session.timeout.ms": 6_000,
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def step(self) -> list[tuple[int, int]]:
        messages = [message for message in self._consumer.consume(100, 0.02) if message.error() is None]
        return [(message.partition(), message.offset()) for message in messages]

    def owned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class Aiokafka:
    """Its event loop runs in a thread of its own."""

    def __init__(self, address: str, group_id: str, topic: str, assignor: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=address,
                group_id=group_id,
                auto_offset_reset="earliest",
                partition_assignment_strategy=[AIOKAFKA_ASSIGNORS[assignor]],
                heartbeat_interval_ms=100,
                session_timeout_ms=6_000,
                fetch_max_wait_ms=20,
            )
            await consumer.start()
            return consumer

        # It waits until it is a member: others must be polled meanwhile.
        self._starting = asyncio.run_coroutine_threadsafe(start(), self._loop)
        self._asked: Any = None

    def step(self) -> list[tuple[int, int]]:
        if not self._starting.done():
            return []
        # During a rebalance it waits for the others, who are polled by the same thread: so nobody waits for it.
        asked, self._asked = self._asked, None
        if asked is not None and not asked.done():
            self._asked = asked
            return []
        consumer = self._starting.result()
        self._asked = asyncio.run_coroutine_threadsafe(consumer.getmany(timeout_ms=20), self._loop)
        if asked is None:
            return []
        return [(record.partition, record.offset) for records in asked.result().values() for record in records]

    def owned(self) -> set[int]:
        return {place.partition for place in self._starting.result().assignment()} if self._starting.done() else set()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._starting.result(20).stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)


KINDS = {"ours": Ours, "confluent": Confluent, "aiokafka": Aiokafka}


@pytest.fixture(scope="module")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    overrides = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")
    broker = BrokerProcess(tmp_path_factory.mktemp("mixed") / "data", *overrides).start()
    yield broker
    broker.close()


@pytest.mark.parametrize(
    ("assignor", "kinds"),
    [
        ("range", ("ours", "confluent", "aiokafka")),
        ("range", ("confluent", "aiokafka", "ours")),
        ("roundrobin", ("ours", "aiokafka", "confluent")),
        ("roundrobin", ("aiokafka", "ours", "confluent")),
        ("sticky", ("ours", "aiokafka")),
        ("sticky", ("aiokafka", "ours")),
        ("cooperative-sticky", ("ours", "confluent")),
        ("cooperative-sticky", ("confluent", "ours", "ours")),
    ],
)
def test_members_of_several_clients_share_a_topic(
    group_broker: BrokerProcess, assignor: str, kinds: tuple[str, ...]
) -> None:
    topic, group_id = f"t-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    settings = {"bootstrap.servers": group_broker.address, "log_level": 0}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result()
    producer = ConfluentProducer(settings)
    members: list[Any] = []
    read: list[tuple[int, int]] = []

    def is_shared() -> bool:
        for member in members:
            read.extend(member.step())
        owned = [member.owned() for member in members]
        each = PARTITIONS // len(members)
        return all(len(part) == each for part in owned) and len(set().union(*owned)) == PARTITIONS

    try:
        for kind in kinds:  # the first leads, and goes on to lead when others come
            members.append(KINDS[kind](group_broker.address, group_id, topic, assignor))
            eventually(is_shared)
        for number in range(RECORDS):
            producer.produce(topic, b"v", partition=number % PARTITIONS)
        producer.flush()
        eventually(lambda: is_shared() and len(read) >= RECORDS)
        members.pop(0).close()
        eventually(is_shared)
        assert sorted(read) == [
            (partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS // PARTITIONS)
        ]
    finally:
        for member in members:
            member.close()
