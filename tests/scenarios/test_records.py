"""Scenarios of records: whatever one client writes is stored as it says, and read by every other client."""

import time
from contextlib import closing
from typing import Any

import pytest

from ottla.clients.partitioning import partition_for_key
from tests.scenarios.clients import CLIENTS, with_clients
from tests.scenarios.conftest import MakeTopic
from tests.scenarios.messages import CODECS, Message, all_kinds, stored_codecs, stored_headers
from tests.scenarios.port import Ability, Client, Reading, Writing
from tests.scenarios.reading import messages_of, take

pytestmark = pytest.mark.process


@with_clients()
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_under_a_codec_is_stored_so_and_read_by_every_client(
    cluster: Any, make_topic: MakeTopic, client: Client, codec: str
) -> None:
    topic = make_topic()
    sent = all_kinds()
    with closing(client.writer(cluster.address, Writing(codec=codec))) as writer:
        assert writer.send(topic, sent) == [(0, offset) for offset in range(len(sent))]
    for reading in CLIENTS:
        with closing(reading.reader(cluster.address, topic)) as reader:
            received = take(reader, len(sent))
        assert messages_of(received) == sent, reading.name
        assert [record.offset for record in received] == list(range(len(sent)))
        assert not any(record.is_append_time for record in received)
    stored = set(stored_codecs(cluster, topic))
    if Ability.HOLDS_BATCHES_FOR_THE_FLUSH in client.abilities:
        assert stored == {codec}
    else:  # one small record, alone because the machine stalled: the codec makes it larger, so it is sent plain
        assert codec in stored
        assert stored <= {codec, "none"}


def check_all_read(cluster: Any, topic: str, client: Client, message: Message) -> None:
    with closing(client.writer(cluster.address)) as writer:
        writer.send(topic, [message])
    for reading in CLIENTS:
        with closing(reading.reader(cluster.address, topic)) as reader:
            assert messages_of(take(reader, 1)) == [message], reading.name


@with_clients(Ability.RECORDS_WITHOUT_KEY_AND_VALUE)
def test_record_with_neither_key_nor_value_passes(cluster: Any, make_topic: MakeTopic, client: Client) -> None:
    check_all_read(cluster, make_topic(), client, Message(None, None))


@with_clients(Ability.HEADERS_WITHOUT_VALUE)
def test_header_without_a_value_passes(cluster: Any, make_topic: MakeTopic, client: Client) -> None:
    check_all_read(cluster, make_topic(), client, Message(b"k", b"v", (("h", None),), 5))


@with_clients()
@pytest.mark.parametrize("topic_codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topic_with_a_codec_of_its_own_stores_everything_under_it(
    cluster: Any, make_topic: MakeTopic, client: Client, topic_codec: str
) -> None:
    topic = make_topic(compression_type=topic_codec)
    sent = all_kinds(24)
    for codec in CODECS:
        with closing(client.writer(cluster.address, Writing(codec=codec, is_idempotent=True))) as writer:
            writer.send(topic, sent)
    with closing(client.reader(cluster.address, topic)) as reader:
        assert messages_of(take(reader, len(CODECS) * len(sent))) == sent * len(CODECS)
    assert set(stored_codecs(cluster, topic)) == {"none" if topic_codec == "uncompressed" else topic_codec}


@with_clients()
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_append_time_is_the_brokers(cluster: Any, make_topic: MakeTopic, client: Client, codec: str) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    with closing(client.writer(cluster.address, Writing(codec=codec))) as writer:
        writer.send(topic, all_kinds(9))
    after_ms = int(time.time() * 1000)
    with closing(client.reader(cluster.address, topic)) as reader:
        received = take(reader, 9)
    assert all(record.is_append_time for record in received)
    assert all(before_ms <= record.message.timestamp_ms <= after_ms for record in received)


@with_clients()
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_delivers(cluster: Any, make_topic: MakeTopic, client: Client, acks: str) -> None:
    topic = make_topic()
    sent = all_kinds(200)
    with closing(client.writer(cluster.address, Writing(acks=acks, codec="lz4"))) as writer:
        writer.send(topic, sent)
    with closing(client.reader(cluster.address, topic)) as reader:
        assert messages_of(take(reader, len(sent))) == sent


@with_clients()
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_idempotent_writer_leaves_its_id_and_sequences(
    cluster: Any, make_topic: MakeTopic, client: Client, is_idempotent: bool
) -> None:
    topic = make_topic()
    with closing(client.writer(cluster.address, Writing(is_idempotent=is_idempotent))) as writer:
        for _ in range(5):
            writer.send(topic, all_kinds(10))
    headers = stored_headers(cluster, topic)
    assert len({header.producer_id for header in headers}) == 1
    if is_idempotent:
        assert headers[0].producer_id >= 0
        assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]
    else:
        assert headers[0].producer_id == -1


@with_clients()
@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_records_near_a_megabyte_pass(cluster: Any, make_topic: MakeTopic, client: Client, codec: str) -> None:
    topic = make_topic()
    sent = [Message(b"k", bytes([number]) * (1_048_588 - 100)) for number in range(4)]
    with closing(client.writer(cluster.address, Writing(codec=codec, request_max_bytes=2_000_000))) as writer:
        writer.send(topic, sent)
    with closing(client.reader(cluster.address, topic)) as reader:
        assert messages_of(take(reader, len(sent))) == sent


@with_clients()
def test_keys_lie_where_java_puts_them_and_all_partitions_are_read(
    cluster: Any, make_topic: MakeTopic, client: Client
) -> None:
    count = 20
    topic = make_topic(count)
    keys = [b"%d" % number for number in range(500)] + [b"", b"\xff\x00", "Ærø".encode(), b"x" * 1000]
    sent = [Message(key, b"v-" + key[:20]) for key in keys]
    with closing(client.writer(cluster.address)) as writer:
        placed = writer.send(topic, sent, partition=None)
    assert [partition for partition, _ in placed] == [partition_for_key(key, count) for key in keys]
    with closing(client.reader(cluster.address, topic, range(count))) as reader:
        received = take(reader, len(sent))
    assert {(record.partition, record.offset): record.message for record in received} == dict(
        zip(placed, sent, strict=True)
    )
    next_offset = dict.fromkeys(range(count), 0)
    for record in received:
        assert record.offset == next_offset[record.partition]
        next_offset[record.partition] += 1


@with_clients()
def test_waiting_reader_gets_a_record_when_it_comes(cluster: Any, make_topic: MakeTopic, client: Client) -> None:
    topic = make_topic()
    with (
        closing(client.reader(cluster.address, topic, how=Reading(fetch_wait_ms=28_000))) as reader,
        closing(client.writer(cluster.address)) as writer,
    ):
        for _ in range(5):
            assert reader.poll() == []  # its fetch waits at the broker now
        writer.send(topic, all_kinds(1))
        assert len(take(reader, 1, within_s=25)) == 1  # woken, not timed out
