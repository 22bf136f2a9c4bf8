"""Our producer on Apache Kafka: split batches, idempotence over a restart, transactions; confluent-kafka reads."""

import asyncio
import time
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from interop.kafka_peer import KafkaPeer
from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
from ottla.clients.producer import aio
from ottla.clients.producer.errors import InvalidTransactionState, ProducerFenced
from ottla.clients.producer.producer import Producer
from ottla.core.types import TopicPartition


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, kafka_tools: None) -> Iterator[KafkaPeer]:
    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data") as running:
        yield running


def create(kafka: KafkaPeer, name: str, partitions: int = 1, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(timeout=30)
    return name


def read(
    kafka: KafkaPeer, topic: str, count: int, *, isolation: str = "read_committed"
) -> list[confluent_kafka.Message]:
    """The first records of a topic, and one poll more that shows that there are no others."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": f"judge-{topic}-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    records: list[confluent_kafka.Message] = []
    deadline = time.monotonic() + 30
    while len(records) < count and time.monotonic() < deadline:
        records += [message for message in consumer.consume(500, 0.5) if message.error() is None]
    records += [message for message in consumer.consume(500, 0.5) if message.error() is None]
    consumer.close()
    return records


def test_a_batch_above_the_topics_limit_is_split(kafka: KafkaPeer) -> None:
    topic = create(kafka, "small", **{"max.message.bytes": "2000"})
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        handles = [producer.send(topic, b"%d" % number + b"x" * 100) for number in range(200)]
    assert [handle.result(0).offset for handle in handles] == list(range(200))


def fail_within_a_transaction(producer: Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"lost", partition=0).result(10)
        raise ZeroDivisionError


def test_a_committed_transaction_is_seen_and_an_aborted_one_is_not(kafka: KafkaPeer) -> None:
    topic = create(kafka, "transactions", 2)
    with Producer(bootstrap_servers=kafka.bootstrap, transactional_id="tx-1") as producer:
        producer.init_transactions()
        with pytest.raises(InvalidTransactionState):
            producer.send(topic, b"too early")
        for transaction in range(5):
            producer.begin_transaction()
            for number in range(20):
                producer.send(topic, b"%d-%d" % (transaction, number), partition=number % 2)
            if transaction % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.begin_transaction()
        producer.commit_transaction()  # an empty one
        with pytest.raises(ZeroDivisionError):
            fail_within_a_transaction(producer, topic)
        with producer.transaction():
            producer.send(topic, b"last", partition=0)
    values = sorted(m.value() for m in read(kafka, topic, 61))
    expected = [b"%d-%d" % (transaction, number) for transaction in (0, 2, 4) for number in range(20)]
    assert values == sorted([*expected, b"last"])


def test_a_newer_producer_fences_the_older_one(kafka: KafkaPeer) -> None:
    topic = create(kafka, "fenced")
    with (
        Producer(bootstrap_servers=kafka.bootstrap, transactional_id="tx-2") as old,
        Producer(bootstrap_servers=kafka.bootstrap, transactional_id="tx-2") as new,
    ):
        old.init_transactions()
        old.begin_transaction()
        old.send(topic, b"old").result(10)
        new.init_transactions()
        new.begin_transaction()
        new.send(topic, b"new")
        with pytest.raises(ProducerFenced):
            old.commit_transaction()
        with pytest.raises(ProducerFenced):
            old.send(topic, b"never")
        new.commit_transaction()
    assert [m.value() for m in read(kafka, topic, 1)] == [b"new"]


def test_offsets_are_committed_with_the_transaction(kafka: KafkaPeer) -> None:
    topic = create(kafka, "copied")
    source = TopicPartition(create(kafka, "source"), 0)
    with Producer(bootstrap_servers=kafka.bootstrap, transactional_id="tx-3") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"1")
            producer.send_offsets_to_transaction({source: OffsetAndMetadata(7, "note")}, GroupMetadata("copiers"))
        producer.begin_transaction()
        producer.send(topic, b"2")
        producer.send_offsets_to_transaction({source: 9}, "copiers")
        producer.abort_transaction()
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "copiers"})
    (committed,) = consumer.committed([confluent_kafka.TopicPartition(*source)], timeout=20)
    consumer.close()
    assert committed.offset == 7
    assert [m.value() for m in read(kafka, topic, 1)] == [b"1"]


def test_closing_aborts_what_is_open(kafka: KafkaPeer) -> None:
    topic = create(kafka, "closed")
    with Producer(bootstrap_servers=kafka.bootstrap, transactional_id="tx-4") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted").result(10)
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        producer.send(topic, b"seen").result(10)
    assert [m.value() for m in read(kafka, topic, 1)] == [b"seen"]


def test_transactions_in_asyncio(kafka: KafkaPeer) -> None:
    topic = create(kafka, "asyncio")

    async def main() -> None:
        async with aio.Producer(bootstrap_servers=kafka.bootstrap, transactional_id="tx-5") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, b"1")
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, "copiers-2")
            await producer.begin_transaction()
            await producer.send(topic, b"2")
            await producer.abort_transaction()

    asyncio.run(main())
    assert [m.value() for m in read(kafka, topic, 1)] == [b"1"]


def test_nothing_is_lost_or_twice_over_a_restart(kafka: KafkaPeer) -> None:
    topic = create(kafka, "restarted")
    with Producer(bootstrap_servers=kafka.bootstrap, batch_size=2_000, linger_ms=1) as producer:
        handles = [producer.send(topic, b"%d" % number) for number in range(2_000)]
        kafka.kill()
        handles += [producer.send(topic, b"%d" % number) for number in range(2_000, 4_000)]
        kafka.start()
        producer.flush(60_000)
    assert [handle.result(0).offset for handle in handles] == list(range(4_000))
    assert [m.value() for m in read(kafka, topic, 4_000)] == [b"%d" % number for number in range(4_000)]
