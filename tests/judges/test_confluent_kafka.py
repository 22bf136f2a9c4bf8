"""confluent-kafka (librdkafka) as a judge: it produces and consumes by assignment, and finds what it sent."""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.judges import messages as sent_messages
from tests.judges.messages import CODECS, SOME_TIME_MS, all_kinds, stored_codecs, stored_headers
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

CREATE_TIME = 1
APPEND_TIME = 2


def new_topic(broker: BrokerProcess, *, partitions: int = 1, **configs: str) -> str:
    """A topic made by the admin client; configs are given with `_` for `.`."""
    name = f"confluent-{uuid.uuid4().hex[:8]}"
    config = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(10)
    return name


def producer_for(broker: BrokerProcess, **settings: Any) -> Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": broker.address, "linger.ms": 5, **named})


def produce_all(
    producer: Producer, topic: str, messages: list[sent_messages.Message], *, partition: int = 0
) -> list[Message]:
    """Send and wait; what was reported for each, in order."""
    reports: list[Message] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        reports.append(message)

    for message in messages:
        producer.produce(
            topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            partition=partition,
            timestamp=message.timestamp_ms,
            on_delivery=on_delivery,
        )
    assert producer.flush(30) == 0
    return reports


def consumer_for(broker: BrokerProcess, **settings: Any) -> Consumer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            **named,
        }
    )


def consume(broker: BrokerProcess, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
    consumer = consumer_for(broker)
    consumer.assign([TopicPartition(topic, partition, offset)])
    try:
        return take(consumer, count)
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    taken: list[Message] = []
    deadline_s = time.monotonic() + 30
    while len(taken) < count:
        assert time.monotonic() < deadline_s, f"{len(taken)} of {count}"
        for message in consumer.consume(count - len(taken), timeout=1.0):
            if message.error():
                raise KafkaException(message.error())
            taken.append(message)
    return taken


def as_sent(message: Message) -> sent_messages.Message:
    return sent_messages.Message(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_produced_under_a_codec_is_stored_so_and_consumed_whole(
    shared_broker: BrokerProcess, codec: str
) -> None:
    topic = new_topic(shared_broker)
    sent = all_kinds()
    # All of it in one batch, sent by the flush: librdkafka sends a batch that a codec would not shrink (one small
    # record, alone because the machine stalled) without compression.
    producer = producer_for(shared_broker, compression_codec=codec, linger_ms=60_000)
    reports = produce_all(producer, topic, sent)
    assert [report.offset() for report in reports] == list(range(len(sent)))
    received = consume(shared_broker, topic, len(sent))
    assert [as_sent(message) for message in received] == sent
    assert [message.offset() for message in received] == list(range(len(sent)))
    assert {message.timestamp()[0] for message in received} == {CREATE_TIME}
    # librdkafka falls back to no compression in silence when a broker's versions look too old for a codec.
    assert set(stored_codecs(shared_broker, topic)) == {codec}


def test_record_with_neither_key_nor_value_passes(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    sent = [sent_messages.Message(None, None, (), SOME_TIME_MS), sent_messages.Message(None, None, (("h", None),), 5)]
    produce_all(producer_for(shared_broker), topic, sent)
    assert [as_sent(message) for message in consume(shared_broker, topic, 2)] == sent


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("topic_codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topic_with_a_codec_of_its_own_stores_everything_under_it(
    shared_broker: BrokerProcess, codec: str, topic_codec: str
) -> None:
    topic = new_topic(shared_broker, compression_type=topic_codec)
    sent = all_kinds(24)
    produce_all(producer_for(shared_broker, compression_codec=codec, enable_idempotence=True), topic, sent)
    assert [as_sent(message) for message in consume(shared_broker, topic, len(sent))] == sent
    assert set(stored_codecs(shared_broker, topic)) == {"none" if topic_codec == "uncompressed" else topic_codec}


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_append_time_is_the_brokers(shared_broker: BrokerProcess, codec: str) -> None:
    topic = new_topic(shared_broker, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    reports = produce_all(producer_for(shared_broker, compression_codec=codec), topic, all_kinds(9))
    after_ms = int(time.time() * 1000)
    for message in [*reports, *consume(shared_broker, topic, 9)]:
        kind, timestamp_ms = message.timestamp()
        assert kind == APPEND_TIME
        assert before_ms <= timestamp_ms <= after_ms


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_acks_delivers(shared_broker: BrokerProcess, acks: str, codec: str) -> None:
    topic = new_topic(shared_broker)
    sent = all_kinds(200)
    produce_all(producer_for(shared_broker, acks=acks, compression_codec=codec), topic, sent)
    assert [as_sent(message) for message in consume(shared_broker, topic, len(sent))] == sent


def test_idempotent_producer_leaves_its_id_and_sequences(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    producer = producer_for(shared_broker, enable_idempotence=True)
    for _ in range(5):
        produce_all(producer, topic, all_kinds(10))
    headers = stored_headers(shared_broker, topic)
    assert len({header.producer_id for header in headers}) == 1
    assert headers[0].producer_id >= 0
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_messages_near_a_megabyte_pass(shared_broker: BrokerProcess, codec: str) -> None:
    topic = new_topic(shared_broker)
    producer = producer_for(shared_broker, compression_codec=codec, message_max_bytes=2_000_000)
    sent = [sent_messages.Message(b"k", bytes([number]) * (1_048_588 - 100), (), SOME_TIME_MS) for number in range(5)]
    produce_all(producer, topic, sent)
    assert [as_sent(message) for message in consume(shared_broker, topic, 5)] == sent


def test_message_over_the_limit_is_refused(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    errors: list[Any] = []
    producer = producer_for(shared_broker, message_max_bytes=3_000_000)
    producer.produce(topic, bytes(1_500_000), on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert [error.name() for error in errors] == ["MSG_SIZE_TOO_LARGE"]


def test_seek_goes_where_it_says(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker, segment_bytes="20000", index_interval_bytes="1000")
    sent = all_kinds(120)
    producer = producer_for(shared_broker)
    for start in range(0, 120, 10):
        produce_all(producer, topic, sent[start : start + 10])
    consumer = consumer_for(shared_broker)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert take(consumer, 1)[0].offset() == 0
    for offset in (119, 0, 60, 61, 13, 118):
        consumer.seek(TopicPartition(topic, 0, offset))
        message = take(consumer, 1)[0]
        assert (message.offset(), as_sent(message)) == (offset, sent[offset])
    consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_offsets_by_time_and_watermarks(shared_broker: BrokerProcess, codec: str) -> None:
    topic = new_topic(shared_broker)
    produce_all(producer_for(shared_broker, compression_codec=codec), topic, all_kinds(50))
    consumer = consumer_for(shared_broker)

    def first_at(timestamp_ms: int) -> int:
        found = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=10)
        return int(found[0].offset)

    assert first_at(0) == 0
    assert first_at(SOME_TIME_MS) == 0
    assert first_at(SOME_TIME_MS + 1) == 1
    assert first_at(SOME_TIME_MS + 30_000) == 30
    assert first_at(SOME_TIME_MS + 29_001) == 30
    assert first_at(SOME_TIME_MS + 49_000) == 49
    assert first_at(SOME_TIME_MS + 49_001) == -1  # the end
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 50)
    consumer.close()


def test_admin_lists_offsets_of_every_kind(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    sent = all_kinds(10)
    produce_all(producer_for(shared_broker), topic, [*sent[5:], *sent[:5]])  # the newest in the middle
    admin = AdminClient({"bootstrap.servers": shared_broker.address})
    partition = TopicPartition(topic, 0)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.max_timestamp(), 4),
        (OffsetSpec.for_timestamp(SOME_TIME_MS + 3000), 0),
    ):
        assert admin.list_offsets({partition: spec})[partition].result(10).offset == offset


def test_deleted_records_are_gone(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    sent = all_kinds(30)
    produce_all(producer_for(shared_broker), topic, sent)
    admin = AdminClient({"bootstrap.servers": shared_broker.address})
    deleted = admin.delete_records([TopicPartition(topic, 0, 12)])
    assert [future.result(10).low_watermark for future in deleted.values()] == [12]
    consumer = consumer_for(shared_broker, auto_offset_reset="earliest")
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (12, 30)
    consumer.assign([TopicPartition(topic, 0, 3)])
    assert [as_sent(message) for message in take(consumer, 18)] == sent[12:]
    consumer.close()
    everything = admin.delete_records([TopicPartition(topic, 0, -1)])
    assert [future.result(10).low_watermark for future in everything.values()] == [30]
    with pytest.raises(KafkaException):
        next(iter(admin.delete_records([TopicPartition(topic, 0, 31)]).values())).result(10)


def test_many_partitions_are_filled_and_read(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker, partitions=40)
    producer = producer_for(shared_broker, enable_idempotence=True)
    for number in range(2000):
        producer.produce(topic, key=b"%d" % number, value=b"v%d" % number)
    assert producer.flush(30) == 0
    consumer = consumer_for(shared_broker)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(40)])
    received = take(consumer, 2000)
    consumer.close()
    assert {message.value() for message in received} == {b"v%d" % number for number in range(2000)}
    assert len({message.partition() for message in received}) == 40
    next_offset = dict.fromkeys(range(40), 0)
    for message in received:
        assert message.offset() == next_offset[message.partition()]
        next_offset[message.partition()] += 1


def test_topic_is_made_when_first_asked_for(shared_broker: BrokerProcess) -> None:
    produce_all(producer_for(shared_broker), "made-by-confluent", all_kinds(3), partition=0)
    assert len(consume(shared_broker, "made-by-confluent", 3)) == 3


def test_topics_are_created_listed_and_deleted(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker, partitions=3, retention_ms="12345")
    admin = AdminClient({"bootstrap.servers": shared_broker.address})
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3
    with pytest.raises(KafkaException, match="exists"):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("bad-config", 1, 1, config={"no.such.key": "1"})])["bad-config"].result(10)
    admin.delete_topics([topic])[topic].result(10)
    assert topic not in admin.list_topics(timeout=10).topics


def test_waiting_consumer_gets_a_record_when_it_comes(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    consumer = consumer_for(shared_broker, fetch_wait_max_ms=20_000)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.consume(1, timeout=0.5) == []  # its fetch waits at the broker now
    producer = producer_for(shared_broker)
    timer = threading.Timer(0.2, lambda: produce_all(producer, topic, all_kinds(1)))
    timer.start()
    started_s = time.monotonic()
    assert len(take(consumer, 1)) == 1
    assert time.monotonic() - started_s < 10  # woken, not timed out
    timer.join()
    consumer.close()


@pytest.mark.parametrize("stop", ["stop", "kill"])
def test_records_and_clients_outlive_a_restart(start_broker: Callable[..., BrokerProcess], stop: str) -> None:
    broker = start_broker()
    topic = new_topic(broker, segment_bytes="50000")
    producer = producer_for(broker, enable_idempotence=True, reconnect_backoff_max_ms=200)
    sent = all_kinds(100)
    produce_all(producer, topic, sent[:50])
    getattr(broker, stop)()
    broker.start()
    produce_all(producer, topic, sent[50:])
    assert [as_sent(message) for message in consume(broker, topic, 100)] == sent


def test_idempotent_producer_through_kills_writes_each_record_once_and_in_order(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    topic = new_topic(broker)
    producer = producer_for(broker, enable_idempotence=True, reconnect_backoff_max_ms=100, batch_num_messages=20)
    failures: list[object] = []

    def on_delivery(error: object, _: Message) -> None:
        if error is not None:
            failures.append(error)

    count = 3000
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=on_delivery)
        producer.poll(0)
        if number in (1000, 2000):
            broker.kill()
            broker.start()
    assert producer.flush(60) == 0
    assert failures == []
    assert [message.value() for message in consume(broker, topic, count)] == [b"%d" % number for number in range(count)]


def test_no_bug_was_met(shared_broker: BrokerProcess) -> None:
    assert "Traceback" not in shared_broker.log
