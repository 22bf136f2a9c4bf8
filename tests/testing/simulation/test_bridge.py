"""A foreign client over real sockets into a simulated cluster, whose time runs with the clock."""

import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.core.types import TopicPartition
from ottla.testing.simulation.bridge import BridgedCluster
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.stored_topics import stored_state

WAIT_S = 20
FAIL_OVER_S = 60


@pytest.mark.slow
def test_confluent_kafka_produces_and_consumes_over_a_simulated_broker() -> None:
    with BridgedCluster(1, brokers=1, properties={"offsets.topic.replication.factor": "1"}) as bridged:
        admin = AdminClient({"bootstrap.servers": bridged.bootstrap})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(WAIT_S)
        producer = Producer({"bootstrap.servers": bridged.bootstrap, "linger.ms": 0, "enable.idempotence": True})
        failed: list[object] = []
        for number in range(100):
            producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(WAIT_S) == 0
        assert failed == [None] * 100
        bridged.call(lambda cluster: cluster.brokers[1].pause())
        bridged.call(lambda cluster: cluster.brokers[1].resume())
        consumer = Consumer(
            {"bootstrap.servers": bridged.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        values = set()
        while len(values) < 100:
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None
            values.add(message.value())
        consumer.close()
        assert bridged.call(lambda cluster: cluster.now) > 0
    assert values == {b"%d" % number for number in range(100)}


@pytest.mark.slow
def test_confluent_kafka_goes_on_when_a_leader_of_three_simulated_brokers_is_killed() -> None:
    properties = {
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "offsets.topic.num.partitions": "2",
    }
    with BridgedCluster(2, brokers=3, properties=properties) as bridged:
        create_orders(bridged)
        producer = Producer({"bootstrap.servers": bridged.bootstrap, "linger.ms": 0, "enable.idempotence": True})
        consumer = Consumer(
            {
                "bootstrap.servers": bridged.bootstrap,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
            }
        )
        consumer.subscribe(["orders"])
        delivered: list[object] = []
        values: list[bytes] = []
        produce(producer, range(100), delivered)
        assert producer.flush(WAIT_S) == 0
        consume(consumer, values, 100)
        leader = bridged.call(lambda cluster: leader_of(cluster, 0))
        bridged.call(lambda cluster: cluster.brokers[leader].kill())
        produce(producer, range(100, 200), delivered)
        assert producer.flush(FAIL_OVER_S) == 0
        consume(consumer, values, 200)
        assert bridged.call(lambda cluster: leader_of(cluster, 0)) != leader
        bridged.call(lambda cluster: cluster.brokers[leader].start())
        produce(producer, range(200, 300), delivered)
        assert producer.flush(FAIL_OVER_S) == 0
        consume(consumer, values, 300)
        consumer.close()
    assert delivered == [None] * 300
    assert sorted(values) == sorted(b"%d" % number for number in range(300))


def create_orders(bridged: BridgedCluster) -> None:
    admin = AdminClient({"bootstrap.servers": bridged.bootstrap})
    admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(WAIT_S)


def produce(producer: Producer, numbers: range, delivered: list[object]) -> None:
    for number in numbers:
        producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: delivered.append(error))


def consume(consumer: Consumer, values: list[bytes], count: int) -> None:
    """Until there are that many; an error that the client heals by itself is none."""
    ends_at = time.monotonic() + FAIL_OVER_S
    while len(values) < count:
        assert time.monotonic() < ends_at, f"{len(values)} of {count} within {FAIL_OVER_S} s"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())


def leader_of(cluster: SimulatedCluster, partition: int) -> int:
    state = stored_state(cluster, TopicPartition("orders", partition))
    assert state is not None
    return state.leader
