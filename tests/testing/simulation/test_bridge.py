"""A foreign client over real sockets into a simulated cluster, whose time runs with the clock."""

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.simulation.bridge import BridgedCluster

WAIT_S = 20


@pytest.mark.slow
def test_confluent_kafka_produces_and_consumes_over_a_simulated_broker() -> None:
    with BridgedCluster(1, brokers=1) as bridged:
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
