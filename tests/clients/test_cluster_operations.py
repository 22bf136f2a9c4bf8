"""Topics, sending and reading against a real broker, judged by a foreign client where it matters."""

from collections import defaultdict
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ForeignPlace

from ottla.clients.cluster import Cluster
from ottla.clients.errors import BrokerError
from ottla.clients.fetching import AssignedReader
from ottla.clients.partitioning import partition_for_key
from ottla.clients.producing import BatchSender, Delivery
from ottla.clients.sender_settings import SenderSettings
from ottla.clients.topics import (
    EARLIEST,
    LATEST,
    NewTopic,
    create_topics,
    delete_records,
    delete_topics,
    list_offsets,
    list_topics,
    wait_for_leaders,
)
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.records.compression import NAMES, codec_named
from ottla.records.read import Record
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process


def make_topic(cluster: Cluster, name: str, partitions: int) -> list[TopicPartition]:
    create_topics(cluster, [NewTopic(name, partitions)])
    wait_for_leaders(cluster, [name])
    return [TopicPartition(name, partition) for partition in range(partitions)]


def read_all(cluster: Cluster, places: list[TopicPartition]) -> dict[TopicPartition, list[Record]]:
    ends = list_offsets(cluster, places, LATEST)
    reader = AssignedReader(cluster, list_offsets(cluster, places, EARLIEST), max_wait_ms=100)
    found: dict[TopicPartition, list[Record]] = defaultdict(list)
    while any(reader.positions[place] < end for place, end in ends.items()):
        for fetched in reader.fetch():
            found[fetched.place] += fetched.records
    return found


def test_a_topic_is_created_listed_and_deleted(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.address) as cluster:
        make_topic(cluster, "short-lived", 3)
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
    deliveries: list[Delivery] = []
    with Cluster(shared_broker.address) as cluster:
        places = make_topic(cluster, "ordered", 4)
        with BatchSender(cluster, SenderSettings(batch_size=500), on_delivery=deliveries.append) as sender:
            for number in range(2000):
                key = f"k{number % 37}".encode()
                sender.send("ordered", str(number).encode(), key=key, timestamp_ms=1000 + number)
                sender.poll()
            assert sender.flush()
            assert sender.buffered_bytes == 0
        found = read_all(cluster, places)
    assert sum(len(records) for records in found.values()) == 2000
    for place, records in found.items():
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers)
        assert [record.offset for record in records] == list(range(len(records)))
        assert [record.timestamp_ms for record in records] == [1000 + number for number in numbers]
        assert all(partition_for_key(record.key or b"", 4) == place.partition for record in records)
    assert sum(delivery.record_count for delivery in deliveries) == 2000
    assert all(delivery.error_code == 0 and delivery.latency_ms >= 0 for delivery in deliveries)


@pytest.mark.parametrize("codec", NAMES)
def test_a_foreign_client_reads_what_was_sent(shared_broker: BrokerProcess, codec: str) -> None:
    topic = f"foreign-{codec}"
    with Cluster(shared_broker.address) as cluster:
        make_topic(cluster, topic, 1)
        with BatchSender(cluster, SenderSettings(codec=codec_named(codec))) as sender:
            for number in range(50):
                sender.send(topic, b"v" * number, key=None, headers=(("h", b"1"), ("empty", None)), partition=0)
            sender.send(topic, None, key=b"tombstone", partition=0)
            assert sender.flush()
    consumer = Consumer({"bootstrap.servers": shared_broker.address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([ForeignPlace(topic, 0, 0)])
    messages = consumer.consume(51, timeout=20)
    consumer.close()
    assert [message.value() for message in messages] == [*(b"v" * number for number in range(50)), None]
    assert messages[0].headers() == [("h", b"1"), ("empty", None)]
    assert messages[50].key() == b"tombstone"


def test_records_without_a_key_go_round(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.address) as cluster:
        places = make_topic(cluster, "round", 3)
        with BatchSender(cluster) as sender:
            for _ in range(9):
                sender.send("round", b"v")
            assert sender.flush()
        assert list_offsets(cluster, places, LATEST) == dict.fromkeys(places, 3)


def test_without_acks_all_still_arrives(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.address) as cluster:
        places = make_topic(cluster, "unacknowledged", 1)
        with BatchSender(cluster, SenderSettings(acks=0)) as sender:
            for _ in range(100):
                sender.send("unacknowledged", b"v")
            assert sender.flush()
            # An acknowledged record on the same connection can only follow the others.
        with BatchSender(cluster, SenderSettings(acks=1)) as sender:
            sender.send("unacknowledged", b"last")
            assert sender.flush()
        reader = AssignedReader(cluster, dict.fromkeys(places, 0), max_wait_ms=100)
        count = 0
        while count < 101:
            count += sum(len(fetched.records) for fetched in reader.fetch())
    assert count == 101


def test_an_unknown_topic_is_an_error_that_names_it(shared_broker: BrokerProcess) -> None:
    with (
        Cluster(shared_broker.address, retry_timeout_ms=50) as cluster,
        BatchSender(cluster) as sender,
        pytest.raises(BrokerError, match="no-such-topic: UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        sender.send("no-such-topic", b"v")


def test_a_record_that_is_too_large_is_refused_and_the_rest_goes_on(shared_broker: BrokerProcess) -> None:
    deliveries: list[Delivery] = []
    with Cluster(shared_broker.address) as cluster:
        create_topics(cluster, [NewTopic("small", 1, configs=(("max.message.bytes", "1000"),))])
        wait_for_leaders(cluster, ["small"])
        with BatchSender(cluster, SenderSettings(batch_size=900), on_delivery=deliveries.append) as sender:
            sender.send("small", b"first")
            assert sender.flush()
            sender.send("small", bytes(5000))
            sender.send("small", b"fits")
            assert sender.flush()
            sender.send("small", b"last")
            assert sender.flush()
    codes = [delivery.error_code for delivery in deliveries]
    assert codes == [ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE, ErrorCode.NONE]
    assert [delivery.base_offset for delivery in deliveries if not delivery.error_code] == [0, 1, 2]


def test_deleted_records_are_gone_and_times_are_found(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.address) as cluster:
        (place,) = make_topic(cluster, "trimmed", 1)
        with BatchSender(cluster) as sender:
            for number in range(10):
                sender.send("trimmed", b"v", timestamp_ms=1000 * number)
            assert sender.flush()
        assert list_offsets(cluster, [place], 4500) == {place: 5}
        assert list_offsets(cluster, [place], 99_000) == {place: -1}
        assert delete_records(cluster, {place: 4}) == {place: 4}
        assert [record.offset for record in read_all(cluster, [place])[place]] == list(range(4, 10))
        with pytest.raises(BrokerError, match="trimmed-0: fetch at 2: OFFSET_OUT_OF_RANGE"):
            AssignedReader(cluster, {place: 2}, max_wait_ms=10).fetch()


def test_a_reader_may_begin_within_a_batch(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.address) as cluster:
        (place,) = make_topic(cluster, "within", 1)
        with BatchSender(cluster) as sender:
            for number in range(10):
                sender.send("within", str(number).encode())
            assert sender.flush()
        (fetched,) = AssignedReader(cluster, {place: 7}).fetch()
    assert [record.value for record in fetched.records] == [b"7", b"8", b"9"]
    assert fetched.high_watermark == 10


def test_nothing_is_lost_or_doubled_when_the_broker_restarts(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    failed: list[Delivery] = []

    def on_delivery(delivery: Delivery) -> None:
        if delivery.error_code:
            failed.append(delivery)

    with Cluster(broker.address) as cluster:
        places = make_topic(cluster, "survivor", 2)
        with BatchSender(cluster, SenderSettings(linger_ms=0, batch_size=300), on_delivery=on_delivery) as sender:
            for number in range(600):
                sender.send("survivor", str(number).encode(), key=str(number).encode())
                sender.poll()
                if number == 300:
                    # Requests are under way: whether they were stored, the sender can't know.
                    broker.kill()
                    broker.start()
            assert sender.flush()
        found = read_all(cluster, places)
    assert not failed
    for records in found.values():
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers)
    assert sorted(int(record.value or b"") for records in found.values() for record in records) == list(range(600))
