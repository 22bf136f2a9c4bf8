"""Faults of produce against a running broker: it refuses what may not be produced, and keeps none of it."""

import socket
import struct
import time
from collections.abc import Callable

import pytest

from ottla.protocol.produce_client_codec import decode_produce_response, encode_produce_request
from ottla.records.build import assemble_batch, build_batch, build_end_transaction_marker
from ottla.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from ottla.records.header import HEADER_BYTES, write_crc
from ottla.records.kernel import IS_COMPILED
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import SOME_TIME_MS, RawClient, batch_of

pytestmark = pytest.mark.process

CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC = 17
RECORD_LIST_TOO_LARGE = 18
INVALID_REQUIRED_ACKS = 21
INVALID_TIMESTAMP = 32
UNSUPPORTED_VERSION = 35
UNSUPPORTED_COMPRESSION = 76
INVALID_RECORD = 87

MIB = 1024 * 1024

StartBroker = Callable[..., BrokerProcess]
needs_kernel = pytest.mark.skipif(not IS_COMPILED, reason="the kernel was not built")


def assert_refused(client: RawClient, topic: str, records: bytes | bytearray | None, error_code: int) -> None:
    """Refused, with each acks, and not a byte appended."""
    for acks in (1, -1):
        produced = client.produce(topic, records, acks=acks)
        assert (produced.error_code, produced.base_offset) == (error_code, -1), produced.error_message
    assert [record.value for record in client.read_all(topic)] == [b"before"]
    assert client.produce(topic, batch_of(b"after")).base_offset == 1


def test_flipped_bit_anywhere_under_the_checksum_is_refused(client: RawClient, topic: str) -> None:
    sound = batch_of(b"value", b"another")
    for position in range(17, len(sound)):
        for bit in (0x01, 0x10, 0x80):
            batch = bytearray(sound)
            batch[position] ^= bit
            assert client.produce(topic, batch, acks=1).error_code == CORRUPT_MESSAGE, (position, bit)
    assert_refused(client, topic, batch, CORRUPT_MESSAGE)


def test_batch_over_max_message_bytes_is_refused(client: RawClient, topic: str) -> None:
    assert_refused(client, topic, batch_of(bytes(MIB + 12)), MESSAGE_TOO_LARGE)


def test_batch_of_exactly_max_message_bytes_is_taken(client: RawClient) -> None:
    batch = batch_of(b"x" * 3000)
    for limit, error_code in ((len(batch) - 1, MESSAGE_TOO_LARGE), (len(batch), 0)):
        assert client.create_topic(f"limit-{limit}", max_message_bytes=str(limit)) == 0
        assert client.produce(f"limit-{limit}", batch).error_code == error_code


def test_batch_over_the_segment_size_is_refused(client: RawClient) -> None:
    assert client.create_topic("small-segments", segment_bytes="1024") == 0
    assert client.produce("small-segments", batch_of(b"before")).error_code == 0
    assert_refused(client, "small-segments", batch_of(b"x" * 2000), RECORD_LIST_TOO_LARGE)


@pytest.mark.parametrize(("record_count", "last_offset_delta"), [(2, 5), (3, 1), (0, -1), (-1, -2), (2**31 - 1, 1)])
def test_record_count_that_differs_from_the_offset_range_is_refused(
    client: RawClient, topic: str, record_count: int, last_offset_delta: int
) -> None:
    records = bytes(batch_of(b"a", b"b")[HEADER_BYTES:])
    batch = assemble_batch(
        records,
        record_count=record_count,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=SOME_TIME_MS,
        max_timestamp_ms=SOME_TIME_MS,
        attributes=0,
    )
    assert_refused(client, topic, batch, INVALID_RECORD)


def test_control_batch_of_a_client_is_refused(client: RawClient, topic: str) -> None:
    marker = build_end_transaction_marker(
        is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=SOME_TIME_MS
    )
    marker[22] &= ~0x10  # not transactional, which would be refused for that
    write_crc(marker, 0, len(marker))
    assert_refused(client, topic, marker, INVALID_RECORD)


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_null_key_on_a_compacted_topic_is_refused_and_named(client: RawClient, codec: int) -> None:
    name = f"compacted-{codec}"
    assert client.create_topic(name, cleanup_policy="compact") == 0
    assert client.produce(name, batch_of(b"before", codec=codec)).error_code == 0
    bad = batch_of(b"one", b"two", b"three", keys=[b"k", None, b"k"], codec=codec)
    produced = client.produce(name, bad)
    assert produced.error_code == INVALID_RECORD
    assert [index for index, _ in produced.record_errors] == [1]
    assert_refused(client, name, bad, INVALID_RECORD)


def test_batch_beside_one_that_is_prepared_is_checked_all_the_same(client: RawClient) -> None:
    client.create_topic("beside-packed", compression_type="gzip")
    client.create_topic("beside-compacted", cleanup_policy="compact")
    client.create_topic("beside-plain")
    parts = encode_produce_request(
        3,
        900,
        "raw",
        transactional_id=None,
        acks=1,
        timeout_ms=1000,
        topics=[
            ("beside-packed", [(0, batch_of(b"x" * 100))]),
            ("beside-compacted", [(0, batch_of(b"v", keys=[None]))]),
            ("beside-plain", [(0, batch_of(b"v", codec=ZSTD))]),
        ],
    )
    client.send(b"".join(parts))
    answer = decode_produce_response(3, client.receive_frame())
    codes = {name: partitions[0].error_code for name, partitions in answer.topics}
    assert codes == {
        "beside-packed": 0,
        "beside-compacted": INVALID_RECORD,
        "beside-plain": UNSUPPORTED_COMPRESSION,
    }


def test_timestamp_out_of_range_is_refused(client: RawClient) -> None:
    now_ms = int(time.time() * 1000)
    client.create_topic("dated", message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000")
    assert client.produce("dated", batch_of(b"before", timestamp_ms=now_ms)).error_code == 0
    for bad in (now_ms - 3_600_000, now_ms + 3_600_000, 2**62, -2, -(2**62)):
        for acks in (1, -1):
            produced = client.produce("dated", batch_of(b"x", timestamp_ms=bad), acks=acks)
            assert produced.error_code == INVALID_TIMESTAMP, bad
    assert client.log_end_offset("dated") == 1


@pytest.mark.parametrize("acks", [7, 2, -2, 32767, -32768])
def test_unknown_acks_are_refused(client: RawClient, topic: str, acks: int) -> None:
    assert client.produce(topic, batch_of(b"x"), acks=acks).error_code == INVALID_REQUIRED_ACKS
    assert client.log_end_offset(topic) == 1


def test_error_with_acks_0_closes_the_connection(shared_broker: BrokerProcess, client: RawClient, topic: str) -> None:
    broken = batch_of(b"x")
    broken[-1] ^= 1
    for name, records in ((topic, broken), ("no-such-topic", batch_of(b"x")), ("__consumer_offsets", batch_of(b"x"))):
        with RawClient(shared_broker.port) as other:
            other.send_produce(name, records, acks=0)
            assert other.is_closed_by_broker()
    assert client.log_end_offset(topic) == 1


def test_acks_0_is_appended_and_never_answered(client: RawClient, topic: str) -> None:
    client.send_produce(topic, batch_of(b"unanswered"), acks=0)
    assert client.log_end_offset(topic) == 2  # the next answer is the next request's


def bomb(codec: int, size_bytes: int) -> bytearray:
    """A batch that says one record and unpacks to zeros without end."""
    return assemble_batch(
        compress(codec, bytes(size_bytes), None),
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=SOME_TIME_MS,
        max_timestamp_ms=SOME_TIME_MS,
        attributes=codec,
    )


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("config", [{"compression_type": "uncompressed"}, {"cleanup_policy": "compact"}])
def test_decompression_bomb_is_capped(
    shared_broker: BrokerProcess, client: RawClient, codec: int, config: dict[str, str]
) -> None:
    name = f"bomb-{codec}-{'-'.join(config)}"
    client.create_topic(name, **config)
    # Snappy packs 1:21 at best; the rest fit a gigabyte or so of zeros into what a batch may have.
    batch = bomb(codec, 20 * MIB if codec == SNAPPY else 200 * MIB)
    assert len(batch) < 1_048_588
    before = shared_broker.resident_bytes
    assert client.produce(name, batch).error_code in (CORRUPT_MESSAGE, INVALID_RECORD)
    assert shared_broker.resident_bytes - before < 150 * MIB
    assert client.log_end_offset(name) == 0


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_bytes_that_are_none_are_refused_where_they_are_unpacked(client: RawClient, codec: int) -> None:
    client.create_topic(f"unpacked-{codec}", compression_type="uncompressed")
    for records in (b"", b"\x00", b"\xff" * 100, compress(codec, b"good start" * 100, None)[:-5]):
        batch = assemble_batch(
            records,
            record_count=1,
            last_offset_delta=0,
            base_timestamp_ms=SOME_TIME_MS,
            max_timestamp_ms=SOME_TIME_MS,
            attributes=codec,
        )
        assert client.produce(f"unpacked-{codec}", batch).error_code in (CORRUPT_MESSAGE, INVALID_RECORD)
    assert client.log_end_offset(f"unpacked-{codec}") == 0


@pytest.mark.parametrize("position", [0, 3, 4, 6])  # length, offset delta, key length, value length
def test_lying_lengths_in_records_are_refused_where_records_are_walked(client: RawClient, position: int) -> None:
    client.create_topic("walked", cleanup_policy="compact")
    records = bytearray(batch_of(b"value")[HEADER_BYTES:])
    for lie in (b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\x80" * 11, b"\x7e"):
        lying = bytes(records[:position] + lie + records[position + 1 :])
        batch = assemble_batch(
            lying,
            record_count=1,
            last_offset_delta=0,
            base_timestamp_ms=SOME_TIME_MS,
            max_timestamp_ms=SOME_TIME_MS,
            attributes=0,
        )
        produced = client.produce("walked", batch)
        assert produced.error_code in (CORRUPT_MESSAGE, INVALID_RECORD), (position, lie)
    assert client.log_end_offset("walked") == 0


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1, -(2**31)])
def test_lying_batch_length_is_refused(client: RawClient, topic: str, length: int) -> None:
    batch = batch_of(b"value")
    struct.pack_into(">i", batch, 8, length)
    assert_refused(client, topic, batch, CORRUPT_MESSAGE)


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_client_can_not_write_to_the_brokers_own_topics(client: RawClient, name: str) -> None:
    assert client.produce(name, batch_of(b"x")).error_code == INVALID_TOPIC


def test_none_or_several_batches_for_a_partition_are_refused(client: RawClient, topic: str) -> None:
    for records in (None, b"", batch_of(b"one") + batch_of(b"two")):
        assert client.produce(topic, records).error_code == INVALID_RECORD
    assert_refused(client, topic, batch_of(b"one") + batch_of(b"two"), INVALID_RECORD)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_format_is_refused(client: RawClient, topic: str, magic: int) -> None:
    body = struct.pack(">Bb", magic, 0) + (struct.pack(">q", SOME_TIME_MS) if magic else b"") + struct.pack(">i", -1)
    body += struct.pack(">i", 60) + b"v" * 60
    message = struct.pack(">qiI", 0, len(body) + 4, 0) + body
    assert_refused(client, topic, message, INVALID_RECORD)
    assert client.produce(topic, message, version=3).error_code == INVALID_RECORD


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_versions_of_the_old_formats_are_refused_or_closed(shared_broker: BrokerProcess, version: int) -> None:
    with RawClient(shared_broker.port) as client:
        assert client.produce("any", batch_of(b"x"), version=version).error_code == UNSUPPORTED_VERSION


def test_zstd_needs_produce_7_and_fetch_10(client: RawClient, topic: str) -> None:
    batch = batch_of(b"packed", codec=ZSTD)
    for version in range(3, 7):
        assert client.produce(topic, batch, version=version).error_code == UNSUPPORTED_COMPRESSION
    assert client.log_end_offset(topic) == 1
    for version in range(7, 12):
        assert client.produce(topic, batch, version=version).error_code == 0
    for version in range(4, 10):
        assert client.fetch(topic, 1, version=version).error_code == UNSUPPORTED_COMPRESSION
        assert client.fetch(topic, 0, version=version).error_code == 0  # the record before is readable
    for version in range(10, 13):
        fetched = client.fetch(topic, 1, version=version)
        assert fetched.error_code == 0
        assert fetched.records


def test_zstd_topic_takes_old_producers_and_stores_zstd(client: RawClient) -> None:
    client.create_topic("becomes-zstd", compression_type="zstd")
    assert client.produce("becomes-zstd", batch_of(b"v" * 500, codec=GZIP), version=3).error_code == 0
    assert client.fetch("becomes-zstd", 0, version=9).error_code == UNSUPPORTED_COMPRESSION
    assert [record.value for record in client.read_all("becomes-zstd")] == [b"v" * 500]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_refused(client: RawClient, topic: str, codec: int) -> None:
    batch = build_batch([(SOME_TIME_MS, None, b"v", ())])
    batch[22] = codec
    write_crc(batch, 0, len(batch))
    assert_refused(client, topic, batch, INVALID_RECORD)


def test_unknown_partition_is_refused(client: RawClient, topic: str) -> None:
    for partition in (1, -1, 2**31 - 1):
        assert client.produce(topic, batch_of(b"x"), partition=partition).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_no_bug_was_met(shared_broker: BrokerProcess) -> None:
    assert "Traceback" not in shared_broker.log


@pytest.mark.parametrize("is_half_closed", [False, True])
def test_records_of_acks_0_are_stored_that_were_sent_before_the_producer_closed(
    shared_broker: BrokerProcess, is_half_closed: bool
) -> None:
    topic = f"goodbye-{is_half_closed}"
    values = [b"%d" % number for number in range(3_000)]
    with RawClient(shared_broker.port) as observer:
        observer.create_topic(topic, compression_type="gzip")  # each batch takes a detour over a thread
        with RawClient(shared_broker.port) as producer:
            for value in values:
                producer.send_produce(topic, batch_of(value), acks=0)
            if is_half_closed:
                producer.socket.shutdown(socket.SHUT_WR)
                assert producer.is_closed_by_broker()
        eventually(lambda: observer.log_end_offset(topic) == len(values), within_s=30)
        assert [record.value for record in observer.read_all(topic)] == values


def lying_batch(codec: int = 0) -> bytearray:
    """Its checksum is right, but its only record says to be a byte longer than it is."""
    inside = bytearray(batch_of(b"lie")[HEADER_BYTES:])
    inside[0] += 2
    return assemble_batch(
        compress(codec, inside),
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=SOME_TIME_MS,
        max_timestamp_ms=SOME_TIME_MS,
        attributes=codec,
    )


@needs_kernel
@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_lie_about_the_inside_of_a_batch_is_refused(client: RawClient, topic: str, codec: int) -> None:
    assert client.produce(topic, batch_of(b"known", codec=codec)).error_code == 0  # its head is remembered
    for _ in range(2):
        for acks in (1, -1):
            produced = client.produce(topic, lying_batch(codec), acks=acks)
            assert (produced.error_code, produced.base_offset) == (INVALID_RECORD, -1)
            assert "record 0" in (produced.error_message or "")
    assert client.produce(topic, batch_of(b"after", codec=codec)).base_offset == 2
    assert [record.value for record in client.read_all(topic)] == [b"before", b"known", b"after"]


@needs_kernel
@pytest.mark.parametrize("codec", [0, LZ4])
def test_lie_with_acks_0_costs_the_connection(shared_broker: BrokerProcess, topic: str, codec: int) -> None:
    with RawClient(shared_broker.port) as liar:
        liar.send_produce(topic, lying_batch(codec), acks=0)
        assert liar.is_closed_by_broker()


@needs_kernel
def test_compressed_and_plain_batches_of_one_connection_stay_in_order(client: RawClient, topic: str) -> None:
    values = [b"%d" % number for number in range(200)]
    for number, value in enumerate(values):
        client.send_produce(topic, batch_of(value, codec=(0, LZ4, 0, GZIP, ZSTD)[number % 5]), acks=1)
    offsets = [client.receive_produced()[1].base_offset for _ in values]
    assert offsets == list(range(1, 201))
    assert [record.value for record in client.read_all(topic)] == [b"before", *values]


@needs_kernel
def test_large_plain_batch_is_walked_too(client: RawClient) -> None:
    client.create_topic("large", max_message_bytes="4000000")
    assert client.produce("large", batch_of(b"v" * 2 * MIB)).error_code == 0
    lie = batch_of(b"v" * 2 * MIB)
    lie[HEADER_BYTES] ^= 2
    write_crc(lie, 0, len(lie))
    for _ in range(2):
        assert client.produce("large", lie).error_code == INVALID_RECORD
    assert client.produce("large", batch_of(b"v" * 2 * MIB)).base_offset == 1


@pytest.mark.parametrize(
    ("mode", "kernel", "error_code"),
    [("kernel", "off", 0), ("never", "on", 0), ("always", "off", INVALID_RECORD), ("always", "on", INVALID_RECORD)],
)
def test_records_are_looked_at_as_the_config_says(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch, mode: str, kernel: str, error_code: int
) -> None:
    monkeypatch.setenv("OTTLA_KERNEL", kernel)
    broker = start_broker(f"ottla.produce.validate.records={mode}")
    with RawClient(broker.port) as client:
        client.create_topic("plain")
        client.create_topic("compact", cleanup_policy="compact")
        for codec in (0, LZ4):
            assert client.produce("plain", batch_of(b"sound", codec=codec)).error_code == 0
            for _ in range(2):
                assert client.produce("plain", lying_batch(codec)).error_code == error_code
            assert client.produce("compact", lying_batch(codec)).error_code == INVALID_RECORD
