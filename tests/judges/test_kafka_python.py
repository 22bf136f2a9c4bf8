"""kafka-python as a judge: written from the protocol's description in pure Python, so it takes nothing for granted."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

from tests.judges.messages import CODECS, SOME_TIME_MS, Message, all_kinds, stored_codecs, stored_headers
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

APPEND_TIME = 1


@contextmanager
def admin_for(broker: BrokerProcess) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        yield admin
    finally:
        admin.close()


def new_topic(broker: BrokerProcess, *, partitions: int = 1, **configs: str) -> str:
    """A topic made by the admin client; configs are given with `_` for `.`."""
    name = f"kafka-python-{uuid.uuid4().hex[:8]}"
    config = {key.replace("_", "."): value for key, value in configs.items()}
    with admin_for(broker) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
    return name


@contextmanager
def producer_for(broker: BrokerProcess, *, codec: str = "none", **settings: Any) -> Iterator[Any]:
    producer = KafkaProducer(
        bootstrap_servers=broker.address,
        compression_type=None if codec == "none" else codec,
        **{"linger_ms": 2, **settings},
    )
    try:
        yield producer
    finally:
        producer.close(timeout=10)


def produce_all(producer: Any, topic: str, messages: list[Message], *, partition: int | None = 0) -> list[Any]:
    """Send and wait; what was reported for each, in order."""
    futures = [
        producer.send(
            topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            partition=partition,
            timestamp_ms=message.timestamp_ms,
        )
        for message in messages
    ]
    producer.flush(30)
    return [future.get(30) for future in futures]


@contextmanager
def consumer_for(broker: BrokerProcess, **settings: Any) -> Iterator[Any]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address,
        group_id=None,
        **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100, **settings},
    )
    try:
        yield consumer
    finally:
        consumer.close()


def take(consumer: Any, count: int) -> list[Any]:
    taken: list[Any] = []
    deadline_s = time.monotonic() + 30
    while len(taken) < count:
        assert time.monotonic() < deadline_s, f"{len(taken)} of {count}"
        for records in consumer.poll(timeout_ms=500, max_records=count - len(taken)).values():
            taken += records
    return taken


def consume(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    with consumer_for(broker) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return take(consumer, count)


def as_sent(record: Any) -> Message:
    return Message(record.key, record.value, tuple(map(tuple, record.headers)), record.timestamp)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_produced_under_a_codec_is_stored_so_and_consumed_whole(
    shared_broker: BrokerProcess, codec: str
) -> None:
    topic = new_topic(shared_broker)
    sent = all_kinds()
    # Sent by the flush, so that time does not cut batches: one that a codec would not shrink is sent without.
    with producer_for(shared_broker, codec=codec, linger_ms=60_000) as producer:
        reports = produce_all(producer, topic, sent)
    assert [report.offset for report in reports] == list(range(len(sent)))
    received = consume(shared_broker, topic, len(sent))
    assert [as_sent(record) for record in received] == sent
    assert [record.offset for record in received] == list(range(len(sent)))
    assert {record.timestamp_type for record in received} == {0}
    assert set(stored_codecs(shared_broker, topic)) == {codec}


@pytest.mark.parametrize("topic_codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batches_that_the_broker_re_compressed_are_read(shared_broker: BrokerProcess, topic_codec: str) -> None:
    topic = new_topic(shared_broker, compression_type=topic_codec)
    sent = all_kinds(24)
    with producer_for(shared_broker, codec="gzip" if topic_codec != "gzip" else "none") as producer:
        produce_all(producer, topic, sent)
    assert [as_sent(record) for record in consume(shared_broker, topic, len(sent))] == sent
    assert set(stored_codecs(shared_broker, topic)) == {"none" if topic_codec == "uncompressed" else topic_codec}


def test_append_time_is_the_brokers(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    with producer_for(shared_broker) as producer:
        reports = produce_all(producer, topic, all_kinds(9))
    after_ms = int(time.time() * 1000)
    received = consume(shared_broker, topic, 9)
    assert {record.timestamp_type for record in received} == {APPEND_TIME}
    for message in [*reports, *received]:
        assert before_ms <= message.timestamp <= after_ms


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_delivers(shared_broker: BrokerProcess, acks: int | str) -> None:
    topic = new_topic(shared_broker)
    sent = all_kinds(200)
    with producer_for(shared_broker, acks=acks, enable_idempotence=False) as producer:
        produce_all(producer, topic, sent)
    assert [as_sent(record) for record in consume(shared_broker, topic, len(sent))] == sent


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_producer_id_is_stored_where_there_is_one(shared_broker: BrokerProcess, is_idempotent: bool) -> None:
    topic = new_topic(shared_broker)
    with producer_for(shared_broker, enable_idempotence=is_idempotent) as producer:
        for _ in range(3):
            produce_all(producer, topic, all_kinds(10))
    headers = stored_headers(shared_broker, topic)
    assert {header.producer_id >= 0 for header in headers} == {is_idempotent}
    if is_idempotent:
        assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


def test_messages_near_a_megabyte_pass_and_larger_ones_are_refused(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    sent = [Message(b"k", bytes([number]) * (1_048_588 - 100), (), SOME_TIME_MS) for number in range(3)]
    with producer_for(shared_broker, max_request_size=3_000_000, retries=0, enable_idempotence=False) as producer:
        produce_all(producer, topic, sent)
        with pytest.raises(MessageSizeTooLargeError):
            produce_all(producer, topic, [Message(None, bytes(1_500_000), (), SOME_TIME_MS)])
    assert [as_sent(record) for record in consume(shared_broker, topic, 3)] == sent


def test_seek_goes_where_it_says(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker, segment_bytes="20000", index_interval_bytes="1000")
    sent = all_kinds(120)
    with producer_for(shared_broker) as producer:
        for start in range(0, 120, 10):
            produce_all(producer, topic, sent[start : start + 10])
    partition = TopicPartition(topic, 0)
    with consumer_for(shared_broker) as consumer:
        consumer.assign([partition])
        for offset in (119, 0, 60, 61, 13, 118):
            consumer.seek(partition, offset)
            record = take(consumer, 1)[0]
            assert (record.offset, as_sent(record)) == (offset, sent[offset])
            assert consumer.position(partition) == offset + 1


def test_offsets_by_time_and_ends(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    with producer_for(shared_broker) as producer:
        produce_all(producer, topic, all_kinds(50))
    partition = TopicPartition(topic, 0)
    with consumer_for(shared_broker) as consumer:
        for timestamp_ms, offset in (
            (0, 0),
            (SOME_TIME_MS, 0),
            (SOME_TIME_MS + 1, 1),
            (SOME_TIME_MS + 29_001, 30),
            (SOME_TIME_MS + 49_000, 49),
        ):
            found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
            assert (found.offset, found.timestamp) == (offset, SOME_TIME_MS + offset * 1000)
        assert consumer.offsets_for_times({partition: SOME_TIME_MS + 49_001})[partition] is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 50}


def test_deleted_records_are_gone(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    sent = all_kinds(30)
    with producer_for(shared_broker) as producer:
        produce_all(producer, topic, sent)
    partition = TopicPartition(topic, 0)
    with admin_for(shared_broker) as admin:
        admin.delete_records({partition: 12})
    with consumer_for(shared_broker) as consumer:
        assert consumer.beginning_offsets([partition]) == {partition: 12}
        consumer.assign([partition])
        consumer.seek(partition, 3)  # out of range now: reset to the earliest
        assert [as_sent(record) for record in take(consumer, 18)] == sent[12:]


def test_many_partitions_are_filled_and_read(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker, partitions=20)
    sent = [Message(b"%d" % number, b"v%d" % number, (), SOME_TIME_MS) for number in range(500)]
    with producer_for(shared_broker) as producer:
        produce_all(producer, topic, sent, partition=None)
    with consumer_for(shared_broker) as consumer:
        assert consumer.partitions_for_topic(topic) == set(range(20))
        consumer.assign([TopicPartition(topic, partition) for partition in range(20)])
        consumer.seek_to_beginning()
        received = take(consumer, 500)
    assert {as_sent(record) for record in received} == set(sent)


def test_topic_is_made_when_first_asked_for(shared_broker: BrokerProcess) -> None:
    with producer_for(shared_broker) as producer:
        produce_all(producer, "made-by-kafka-python", all_kinds(3))
    assert len(consume(shared_broker, "made-by-kafka-python", 3)) == 3


def test_topics_are_created_listed_and_deleted(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker, partitions=3)
    with admin_for(shared_broker) as admin:
        assert topic in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic, 1, 1)])
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()


def test_waiting_consumer_gets_a_record_when_it_comes(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    with consumer_for(shared_broker, fetch_max_wait_ms=20_000) as consumer, producer_for(shared_broker) as producer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.poll(timeout_ms=300) == {}  # its fetch waits at the broker now
        timer = threading.Timer(0.2, lambda: produce_all(producer, topic, all_kinds(1)))
        timer.start()
        started_s = time.monotonic()
        assert len(take(consumer, 1)) == 1
        assert time.monotonic() - started_s < 10  # woken, not timed out
        timer.join()


def test_records_and_clients_outlive_a_restart(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    topic = new_topic(broker, segment_bytes="50000")
    sent = all_kinds(90)
    with producer_for(broker, retry_backoff_ms=50) as producer:
        produce_all(producer, topic, sent[:30])
        broker.restart()
        produce_all(producer, topic, sent[30:60])
        broker.kill()
        broker.start()
        produce_all(producer, topic, sent[60:])
    assert [as_sent(record) for record in consume(broker, topic, 90)] == sent


def test_no_bug_was_met(shared_broker: BrokerProcess) -> None:
    assert "Traceback" not in shared_broker.log
