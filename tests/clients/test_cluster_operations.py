"""Topics, sending and reading against a real broker, judged by a foreign client where it matters."""

from collections import defaultdict

import pytest
from confluent_kafka import Consumer as ForeignConsumer
from confluent_kafka import TopicPartition as ForeignPlace

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.clients.cluster import Cluster
from ottla.clients.consumer.errors import OffsetOutOfRange
from ottla.clients.consumer.values import ConsumerRecord
from ottla.clients.errors import BrokerError
from ottla.clients.partitioning import partition_for_key
from ottla.clients.topics import create_topics, delete_topics, list_topics, wait_for_leaders
from ottla.records.compression import NAMES
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process


def make_topic(broker: BrokerProcess, name: str, partitions: int) -> list[TopicPartition]:
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.create_topics([NewTopic(name, partitions)])
    return [TopicPartition(name, partition) for partition in range(partitions)]


def read_from(broker: BrokerProcess, starts: dict[TopicPartition, int]) -> dict[TopicPartition, list[ConsumerRecord]]:
    """From these offsets to where the partitions end."""
    found: dict[TopicPartition, list[ConsumerRecord]] = defaultdict(list)
    with Consumer(bootstrap_servers=broker.address, auto_offset_reset="none") as consumer:
        consumer.assign(starts)
        for topic_partition, offset in starts.items():
            consumer.seek(topic_partition, offset)
        while any(consumer.lag(topic_partition) != 0 for topic_partition in starts):
            for record in consumer.poll():
                found[TopicPartition(record.topic, record.partition)].append(record)
    return found


def test_a_topic_is_created_listed_and_deleted(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.address) as cluster:
        create_topics(cluster, [NewTopic("short-lived", 3)])
        wait_for_leaders(cluster, ["short-lived"])
        assert cluster.partition_count("short-lived") == 3
        assert "short-lived" in list_topics(cluster)
        with pytest.raises(BrokerError, match="short-lived: TOPIC_ALREADY_EXISTS"):
            create_topics(cluster, [NewTopic("short-lived", 1)])
        assert create_topics(cluster, [NewTopic("short-lived", 1)], keep_existing=True) == []
        delete_topics(cluster, ["short-lived"])
        assert "short-lived" not in list_topics(cluster)
        with pytest.raises(BrokerError, match="no such topic"):
            delete_topics(cluster, ["short-lived"])


def test_records_keep_their_order_and_their_keys_partition(shared_broker: BrokerProcess) -> None:
    topic_partitions = make_topic(shared_broker, "ordered", 4)
    with Producer(bootstrap_servers=shared_broker.address, batch_size=500) as producer:
        for number in range(2000):
            key = f"k{number % 37}".encode()
            producer.send("ordered", str(number).encode(), key, timestamp_ms=1000 + number)
        producer.flush()
        counts = producer.counts()
    assert (counts.stored_records, counts.failed_records, counts.first_failure) == (2000, 0, None)
    found = read_from(shared_broker, dict.fromkeys(topic_partitions, 0))
    assert sum(len(records) for records in found.values()) == 2000
    for topic_partition, records in found.items():
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers)
        assert [record.offset for record in records] == list(range(len(records)))
        assert [record.timestamp_ms for record in records] == [1000 + number for number in numbers]
        assert all(partition_for_key(record.key or b"", 4) == topic_partition.partition for record in records)


@pytest.mark.parametrize("codec", NAMES)
def test_a_foreign_client_reads_what_was_sent(shared_broker: BrokerProcess, codec: str) -> None:
    topic = f"foreign-{codec}"
    make_topic(shared_broker, topic, 1)
    with Producer(bootstrap_servers=shared_broker.address, compression_type=codec) as producer:
        for number in range(50):
            producer.send(topic, b"v" * number, headers=(("h", b"1"), ("empty", None)), partition=0)
        producer.send(topic, None, b"tombstone", partition=0)
    consumer = ForeignConsumer(
        {"bootstrap.servers": shared_broker.address, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([ForeignPlace(topic, 0, 0)])
    messages = consumer.consume(51, timeout=60)
    consumer.close()
    assert [message.value() for message in messages] == [*(b"v" * number for number in range(50)), None]
    assert messages[0].headers() == [("h", b"1"), ("empty", None)]
    assert messages[50].key() == b"tombstone"


@pytest.mark.parametrize("acks", ["0", "1"])
def test_without_all_acks_all_still_arrives(shared_broker: BrokerProcess, acks: str) -> None:
    topic = f"acks-{acks}"
    (topic_partition,) = make_topic(shared_broker, topic, 1)
    with Producer(bootstrap_servers=shared_broker.address, acks=acks) as producer:
        for _ in range(100):
            producer.send(topic, b"v")
    with Consumer(bootstrap_servers=shared_broker.address, auto_offset_reset="earliest") as consumer:
        consumer.assign([topic_partition])
        count = 0
        while count < 100:  # with acks 0 they may come after the producer is gone
            count += len(consumer.poll())
    assert count == 100


def test_deleted_records_are_gone_and_times_are_found(shared_broker: BrokerProcess) -> None:
    (topic_partition,) = make_topic(shared_broker, "trimmed", 1)
    with Producer(bootstrap_servers=shared_broker.address) as producer:
        for number in range(10):
            producer.send("trimmed", b"v", timestamp_ms=1000 * number)
    with Admin(bootstrap_servers=shared_broker.address) as admin:
        assert admin.list_offsets([topic_partition], 4500)[topic_partition].offset == 5
        assert admin.list_offsets([topic_partition], 99_000)[topic_partition].offset == -1
        assert admin.delete_records({topic_partition: 4}) == {topic_partition: 4}
    assert [record.offset for record in read_from(shared_broker, {topic_partition: 4})[topic_partition]] == list(
        range(4, 10)
    )
    with pytest.raises(OffsetOutOfRange, match="trimmed-0 at 2"):
        read_from(shared_broker, {topic_partition: 2})


def test_a_reader_may_begin_within_a_batch(shared_broker: BrokerProcess) -> None:
    (topic_partition,) = make_topic(shared_broker, "within", 1)
    with Producer(bootstrap_servers=shared_broker.address, linger_ms=60_000) as producer:
        for number in range(10):
            producer.send("within", str(number).encode())
    assert [record.value for record in read_from(shared_broker, {topic_partition: 7})[topic_partition]] == [
        b"7",
        b"8",
        b"9",
    ]
