"""Our consumer on Apache Kafka: the scenarios that it passes on our broker, and transactions, which only Kafka has."""

import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer

from interop.kafka_peer import KafkaPeer
from ottla.clients.consumer.consumer import Consumer
from ottla.core.types import TopicPartition
from tests.clients.consumer.conftest import make_topic  # noqa: F401
from tests.clients.consumer.test_consumer_process import *  # noqa: F403
from tests.clients.consumer.test_consumer_process import consumer_of, group, read

pytestmark = pytest.mark.usefixtures("kafka_tools")


@pytest.fixture(scope="module")
def broker(kafka_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data", overrides=overrides) as kafka:
        yield SimpleNamespace(address=kafka.bootstrap)


def test_committed_reads_pass_over_aborted_transactions(broker: Any, make_topic: Callable[..., str]) -> None:  # noqa: F811
    topic = make_topic(1)
    place = TopicPartition(topic, 0)
    producer = ConfluentProducer({"bootstrap.servers": broker.address, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    for number, is_committed in enumerate((True, False, True, False)):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, b"%d" % number)
        producer.flush()
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    with consumer_of(broker, isolation_level="read_committed") as consumer:
        consumer.assign([place])
        assert [record.value for record in read(consumer, 6)] == [b"0"] * 3 + [b"2"] * 3
        consumer.poll(200)
        assert consumer.position(place) == consumer.end_offsets([place])[place] == 16  # markers included
        consumer.seek(place, 0)
        batch = consumer.poll_arrow(5_000)
        assert batch is not None
        assert batch.column("value").to_pylist() == [b"0"] * 3 + [b"2"] * 3
    with consumer_of(broker) as consumer:
        consumer.assign([place])
        assert len(read(consumer, 12)) == 12


def test_kafka_s_tool_sees_our_member(broker: Any, make_topic: Callable[..., str]) -> None:  # noqa: F811
    from interop.kafka_peer import run_tool

    topic, name = make_topic(2, 4), group()
    with Consumer(
        bootstrap_servers=broker.address,
        group_id=name,
        auto_offset_reset="earliest",
        client_id="ours",
        partition_assignment_strategy="cooperative-sticky",
    ) as consumer:
        consumer.subscribe([topic])
        read(consumer, 4)
        consumer.commit()
        arguments = ["--bootstrap-server", broker.address, "--group", name, "--describe", "--members", "--verbose"]
        seen = run_tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", arguments).stdout
    assert "ours" in seen
    assert f"{topic}(0,1)" in seen or f"{topic}:0,1" in seen
