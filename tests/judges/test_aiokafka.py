"""aiokafka as a judge: the client of asyncio programs, with a record reader of its own in C."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.errors import MessageSizeTooLargeError

from tests.judges.messages import CODECS, SOME_TIME_MS, Message, all_kinds, stored_codecs, stored_headers
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process


@asynccontextmanager
async def admin_for(broker: BrokerProcess) -> AsyncIterator[Any]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def new_topic(broker: BrokerProcess, *, partitions: int = 1, **configs: str) -> str:
    """A topic made by the admin client; configs are given with `_` for `.`."""
    name = f"aiokafka-{uuid.uuid4().hex[:8]}"
    config = {key.replace("_", "."): value for key, value in configs.items()}
    async with admin_for(broker) as admin:
        response = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
        assert [entry[1] for entry in response.topic_errors] == [0]
    return name


@asynccontextmanager
async def producer_for(broker: BrokerProcess, *, codec: str = "none", **settings: Any) -> AsyncIterator[Any]:
    producer = AIOKafkaProducer(
        bootstrap_servers=broker.address, compression_type=None if codec == "none" else codec, linger_ms=2, **settings
    )
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def produce_all(producer: Any, topic: str, messages: list[Message], *, partition: int | None = 0) -> list[Any]:
    """Send and wait; what was reported for each, in order."""
    futures = []
    for message in messages:
        futures.append(
            await producer.send(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                partition=partition,
                timestamp_ms=message.timestamp_ms,
            )
        )
    return [await asyncio.wait_for(future, 30) for future in futures]


@asynccontextmanager
async def consumer_for(broker: BrokerProcess, **settings: Any) -> AsyncIterator[Any]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.address,
        group_id=None,
        **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100, **settings},
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def take(consumer: Any, count: int) -> list[Any]:
    return [await asyncio.wait_for(consumer.getone(), 30) for _ in range(count)]


async def consume(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    async with consumer_for(broker) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        return await take(consumer, count)


def as_sent(record: Any) -> Message:
    return Message(record.key, record.value, tuple(map(tuple, record.headers)), record.timestamp)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_produced_under_a_codec_is_stored_so_and_consumed_whole(
    shared_broker: BrokerProcess, codec: str
) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker)
        sent = all_kinds()
        async with producer_for(shared_broker, codec=codec) as producer:
            reports = await produce_all(producer, topic, sent)
        assert [report.offset for report in reports] == list(range(len(sent)))
        received = await consume(shared_broker, topic, len(sent))
        assert [as_sent(record) for record in received] == sent
        assert [record.offset for record in received] == list(range(len(sent)))
        # It stores a batch plain when the codec makes it larger.
        assert set(stored_codecs(shared_broker, topic)) <= {codec, "none"}
        assert codec in stored_codecs(shared_broker, topic)

    asyncio.run(run())


@pytest.mark.parametrize("topic_codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batches_that_the_broker_re_compressed_are_read(shared_broker: BrokerProcess, topic_codec: str) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker, compression_type=topic_codec)
        sent = all_kinds(24)
        async with producer_for(shared_broker, codec="gzip" if topic_codec != "gzip" else "none") as producer:
            await produce_all(producer, topic, sent)
        assert [as_sent(record) for record in await consume(shared_broker, topic, len(sent))] == sent
        stored = stored_codecs(shared_broker, topic)
        assert set(stored) == {"none" if topic_codec == "uncompressed" else topic_codec}

    asyncio.run(run())


def test_append_time_is_the_brokers(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker, message_timestamp_type="LogAppendTime")
        before_ms = int(time.time() * 1000)
        async with producer_for(shared_broker) as producer:
            reports = await produce_all(producer, topic, all_kinds(9))
        after_ms = int(time.time() * 1000)
        received = await consume(shared_broker, topic, 9)
        for message in [*reports, *received]:
            assert message.timestamp_type == 1
            assert before_ms <= message.timestamp <= after_ms

    asyncio.run(run())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_delivers(shared_broker: BrokerProcess, acks: int | str) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker)
        sent = all_kinds(200)
        async with producer_for(shared_broker, acks=acks) as producer:
            await produce_all(producer, topic, sent)
        assert [as_sent(record) for record in await consume(shared_broker, topic, len(sent))] == sent

    asyncio.run(run())


def test_idempotent_producer_leaves_its_id_and_sequences(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker)
        async with producer_for(shared_broker, enable_idempotence=True) as producer:
            for _ in range(5):
                await produce_all(producer, topic, all_kinds(10))
        headers = stored_headers(shared_broker, topic)
        assert len({header.producer_id for header in headers}) == 1
        assert headers[0].producer_id >= 0
        assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]

    asyncio.run(run())


def test_messages_near_a_megabyte_pass_and_larger_ones_are_refused(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker)
        sent = [Message(b"k", bytes([number]) * (1_048_588 - 100), (), SOME_TIME_MS) for number in range(3)]
        async with producer_for(shared_broker, max_request_size=3_000_000) as producer:
            await produce_all(producer, topic, sent)
            with pytest.raises(MessageSizeTooLargeError):
                await produce_all(producer, topic, [Message(None, bytes(1_500_000), (), SOME_TIME_MS)])
        assert [as_sent(record) for record in await consume(shared_broker, topic, 3)] == sent

    asyncio.run(run())


def test_seek_goes_where_it_says(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker, segment_bytes="20000", index_interval_bytes="1000")
        sent = all_kinds(120)
        async with producer_for(shared_broker) as producer:
            for start in range(0, 120, 10):
                await produce_all(producer, topic, sent[start : start + 10])
        partition = TopicPartition(topic, 0)
        async with consumer_for(shared_broker) as consumer:
            consumer.assign([partition])
            for offset in (119, 0, 60, 61, 13, 118):
                consumer.seek(partition, offset)
                (record,) = await take(consumer, 1)
                assert (record.offset, as_sent(record)) == (offset, sent[offset])
                assert await consumer.position(partition) == offset + 1

    asyncio.run(run())


def test_offsets_by_time_and_ends(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker)
        async with producer_for(shared_broker, codec="lz4") as producer:
            await produce_all(producer, topic, all_kinds(50))
        partition = TopicPartition(topic, 0)
        async with consumer_for(shared_broker) as consumer:
            for timestamp_ms, offset in (
                (0, 0),
                (SOME_TIME_MS + 1, 1),
                (SOME_TIME_MS + 29_001, 30),
                (SOME_TIME_MS + 49_000, 49),
            ):
                found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
                assert (found.offset, found.timestamp) == (offset, SOME_TIME_MS + offset * 1000)
            assert (await consumer.offsets_for_times({partition: SOME_TIME_MS + 49_001}))[partition] is None
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 50}

    asyncio.run(run())


def test_deleted_records_are_gone(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker)
        sent = all_kinds(30)
        async with producer_for(shared_broker) as producer:
            await produce_all(producer, topic, sent)
        partition = TopicPartition(topic, 0)
        async with admin_for(shared_broker) as admin:
            assert await admin.delete_records({partition: RecordsToDelete(before_offset=12)}) == {partition: 12}
        async with consumer_for(shared_broker) as consumer:
            assert await consumer.beginning_offsets([partition]) == {partition: 12}
            consumer.assign([partition])
            consumer.seek(partition, 3)  # out of range now: reset to the earliest
            assert [as_sent(record) for record in await take(consumer, 18)] == sent[12:]

    asyncio.run(run())


def test_many_partitions_are_filled_and_read(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker, partitions=20)
        sent = [Message(b"%d" % number, b"v%d" % number, (), SOME_TIME_MS) for number in range(500)]
        async with producer_for(shared_broker) as producer:
            await produce_all(producer, topic, sent, partition=None)
        async with consumer_for(shared_broker) as consumer:
            consumer.assign([TopicPartition(topic, partition) for partition in range(20)])
            await consumer.seek_to_beginning()
            received = await take(consumer, 500)
        assert {as_sent(record) for record in received} == set(sent)

    asyncio.run(run())


def test_topic_is_made_when_first_asked_for(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        async with producer_for(shared_broker) as producer:
            await produce_all(producer, "made-by-aiokafka", all_kinds(3))
        assert len(await consume(shared_broker, "made-by-aiokafka", 3)) == 3

    asyncio.run(run())


def test_waiting_consumer_gets_a_record_when_it_comes(shared_broker: BrokerProcess) -> None:
    async def run() -> None:
        topic = await new_topic(shared_broker)
        async with (
            consumer_for(shared_broker, fetch_max_wait_ms=20_000) as consumer,
            producer_for(shared_broker) as producer,
        ):
            consumer.assign([TopicPartition(topic, 0)])
            assert await consumer.getmany(timeout_ms=300) == {}  # its fetch waits at the broker now
            started_s = time.monotonic()
            await produce_all(producer, topic, all_kinds(1))
            assert len(await take(consumer, 1)) == 1
            assert time.monotonic() - started_s < 10  # woken, not timed out

    asyncio.run(run())


def test_records_and_clients_outlive_a_restart(start_broker: Callable[..., BrokerProcess]) -> None:
    async def run() -> None:
        broker = start_broker()
        topic = await new_topic(broker, segment_bytes="50000")
        sent = all_kinds(90)
        async with producer_for(broker, enable_idempotence=True) as producer:
            await produce_all(producer, topic, sent[:30])
            broker.restart()
            await produce_all(producer, topic, sent[30:60])
            broker.kill()
            broker.start()
            await produce_all(producer, topic, sent[60:])
        assert [as_sent(record) for record in await consume(broker, topic, 90)] == sent

    asyncio.run(run())


def test_no_bug_was_met(shared_broker: BrokerProcess) -> None:
    assert "Traceback" not in shared_broker.log
