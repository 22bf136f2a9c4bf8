"""The short way of a produce request whose head is known: the same answers as the long way, and never for too long."""

from struct import error as struct_error

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.connection_notes import notes_of
from ottla.broker.known_heads import HEAD_BYTES_MAX, HEAD_POSITION, KnownHead, learn_head, records_after
from ottla.broker.request_memo import RequestMemo
from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.exchange import Deferred
from ottla.protocol.frames import parse_request_header
from ottla.protocol.produce_client_codec import encode_produce_request
from ottla.protocol.produce_codec import decode_produce_request
from ottla.records.compression import ZSTD
from ottla.storage.log_config import LogConfig
from tests.broker.rig import FakePeer, Rig, bytes_of, decode_produced
from tests.replication.partitions import make_partition
from tests.storage.log_making import batch

ALL_VERSIONS = range(3, 12)
VERSIONS_WITH_A_SHORT_WAY = range(5, 12)


def request(
    version: int, records: bytes, *, correlation_id: int = 1, client_id: str = "c", topic: str = "t"
) -> bytearray:
    parts = encode_produce_request(
        version,
        correlation_id,
        client_id,
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topics=[(topic, [(0, records)])],
    )
    return bytearray(b"".join(parts)[4:])


def new_memo() -> RequestMemo[KnownHead]:
    return RequestMemo(versions=12, key_bytes_max=HEAD_BYTES_MAX)


def learned(version: int, frame: bytearray, memo: RequestMemo[KnownHead] | None = None) -> int:
    view = memoryview(frame)
    body = parse_request_header(view).body_position
    records = decode_produce_request(view, body, version).topics[0][1][0][1]
    assert records is not None
    return learn_head(memo or new_memo(), version, view, records, make_partition(), acks=-1, timeout_ms=1000)


@given(st.sampled_from(VERSIONS_WITH_A_SHORT_WAY), st.binary(min_size=1, max_size=20_000), st.text(max_size=20))
@settings(max_examples=100, deadline=None)
def test_what_follows_a_learned_head_are_the_records(version: int, records: bytes, client_id: str) -> None:
    frame = memoryview(request(version, records, client_id=client_id))
    memo = new_memo()
    end = learned(version, bytearray(frame), memo)
    assert end > HEAD_POSITION
    assert bytes(frame[HEAD_POSITION:end]) in memo.by_version[version]
    found = records_after(version, frame, end)
    assert found is not None
    assert bytes(found) == records


@given(st.sampled_from(VERSIONS_WITH_A_SHORT_WAY), st.binary(max_size=300), st.binary(max_size=300), st.data())
@settings(max_examples=200, deadline=None)
def test_short_way_reads_what_the_long_way_reads_or_nothing(
    version: int, records: bytes, other: bytes, data: st.DataObject
) -> None:
    first = request(version, records)
    end = learned(version, first)
    second = request(version, other, correlation_id=2)
    cut = data.draw(st.integers(0, 5))
    tail = data.draw(st.binary(max_size=5))
    frame = memoryview(second[: len(second) - cut] + tail)
    if not 0 < end < len(frame) or frame[HEAD_POSITION:end] != first[HEAD_POSITION:end]:
        return
    try:
        found = records_after(version, frame, end)
    except (IndexError, struct_error):
        return
    except ProtocolViolation:
        with pytest.raises(ProtocolViolation):
            decode_produce_request(frame, parse_request_header(frame).body_position, version)
        return
    if found is not None:
        body = parse_request_header(frame).body_position
        assert decode_produce_request(frame, body, version).topics == [("t", [(0, found)])]


@pytest.mark.parametrize("version", VERSIONS_WITH_A_SHORT_WAY)
def test_request_with_anything_after_its_records_is_not_learned(version: int) -> None:
    frame = request(version, b"\0" * 40)
    assert learned(version, frame + bytes(4)) == 0


@pytest.mark.parametrize("version", range(9, 12))
@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
def test_request_whose_tags_end_in_zeros_is_not_learned(version: int, byte: bytes) -> None:
    frame = request(version, byte * 40)
    frame[-1:] = b"\x01\x09\x03\x00\x00\x00"  # one tagged field of the request: tag 9, three bytes
    assert learned(version, frame) == 0


@pytest.mark.parametrize("version", range(9, 12))
def test_length_that_is_written_too_long_is_not_learned(version: int) -> None:
    frame = request(version, b"\0" * 40)
    at = len(frame) - 3 - 40 - 1
    frame[at : at + 1] = b"\xa9\x00"  # 41 in two bytes
    assert learned(version, frame) == 0


@pytest.mark.parametrize("version", [3, 4])
def test_versions_without_the_common_answer_are_not_learned(version: int) -> None:
    assert learned(version, request(version, b"x")) == 0


def test_head_that_is_too_long_is_not_learned() -> None:
    assert learned(9, request(9, b"x", client_id="c" * 600)) == 0


# In the handler


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_short_way_gives_the_same_bytes_as_the_long_way(rig: Rig, version: int, acks: int, timestamp_type: str) -> None:
    for topic in ("long", "fast"):
        rig.create_topic(topic, message_timestamp_type=timestamp_type)
    peer = FakePeer()
    for number in range(4):
        records = bytes(batch(*(b"v%d" % index for index in range(1 + number % 2))))
        long_way = rig.send_produce(
            ("long", 0, records), version=version, acks=acks, correlation_id=number, peer=FakePeer()
        )
        short_way = rig.send_produce(("fast", 0, records), version=version, acks=acks, correlation_id=number, peer=peer)
        assert bytes_of(short_way) == bytes_of(long_way).replace(b"long", b"fast")
        assert (notes_of(peer).produce_head_end > 0) is (version in VERSIONS_WITH_A_SHORT_WAY)
    assert rig.partition("long").log.size_bytes == rig.partition("fast").log.size_bytes


def faulty_batches() -> list[bytes]:
    good = bytes(batch(b"a", b"b", producer_id=4, producer_epoch=0, base_sequence=0))
    broken = bytearray(good)
    broken[-1] ^= 1
    return [
        bytes(broken),
        good[:-3],
        good + b"\0",
        b"",
        good[:20],
        bytes(batch(b"late", producer_id=4, producer_epoch=0, base_sequence=9)),
        bytes(batch(b"x" * 2_000_000)),
        bytes(batch(b"soon", timestamp_ms=9 * 10**12)),
        good,
        good,  # a duplicate
    ]


@pytest.mark.parametrize("version", VERSIONS_WITH_A_SHORT_WAY)
def test_short_way_refuses_with_the_same_bytes_as_the_long_way(rig: Rig, version: int) -> None:
    for topic in ("long", "fast"):
        rig.create_topic(topic)
    peer = FakePeer()
    for number, records in enumerate(faulty_batches()):
        rig.send_produce(("fast", 0, batch(b"learn")), version=version, peer=peer)
        rig.send_produce(("long", 0, batch(b"learn")), version=version, peer=FakePeer())
        assert notes_of(peer).produce_head_end > 0
        long_way, short_way = (
            rig.send_produce((topic, 0, records), version=version, correlation_id=number, peer=sender)
            for topic, sender in (("long", FakePeer()), ("fast", peer))
        )
        rig.background.run_all()
        assert bytes_of(short_way) == bytes_of(long_way).replace(b"long", b"fast"), number


def test_request_with_two_partitions_takes_the_long_way_each_time(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    for number in range(3):
        answer = rig.send_produce(("orders", 0, batch(b"a")), ("orders", 1, batch(b"b")))
        assert [one.base_offset for one in decode_produced(answer).topics[0][1]] == [number, number]
        assert notes_of(rig.peer).produce_head_end == 0


def test_connection_that_changes_its_partition_learns_the_new_head(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    rig.create_topic("o")
    for topic, index in (("orders", 0), ("orders", 1), ("o", 0), ("orders", 0), ("o", 0), ("orders", 1)):
        assert rig.produce(batch(b"%s-%d" % (topic.encode(), index)), topic, index)[0] == 0
    ends = [rig.partition(*key).log.log_end_offset for key in (("orders", 0), ("orders", 1), ("o", 0))]
    assert ends == [2, 2, 2]


def test_acks_and_timeout_are_part_of_the_head(rig: Rig) -> None:
    rig.create_topic(min_insync_replicas="2")
    assert rig.produce(batch(b"a"), acks=1) == (0, 0)
    assert rig.produce(batch(b"b"), acks=-1) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert rig.produce(batch(b"c"), acks=1) == (0, 1)


def test_short_way_waits_for_the_fsync_like_the_long_one(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    for number in range(3):
        answer = rig.send_produce(("orders", 0, batch(b"a")), correlation_id=number)
        assert isinstance(answer, Deferred)
        assert not answer.holds
        assert not answer.is_complete
        rig.flush()
        assert decode_produced(answer).topics[0][1][0][:3] == (0, 0, number)
    answer = rig.send_produce(("orders", 0, batch(b"a")), timeout_ms=1000)
    rig.advance(1000)
    assert decode_produced(answer).topics[0][1][0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_topic_that_was_made_again_gets_its_own_batches(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a"))
    rig.produce(batch(b"a"))
    rig.pump.call(rig.topics.delete, "orders")
    assert rig.produce(batch(b"a")) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    rig.create_topic()
    assert rig.produce(batch(b"b")) == (0, 0)


@pytest.mark.parametrize("change", ["config", "offline"])
def test_head_is_forgotten_when_its_partition_changes(rig: Rig, change: str) -> None:
    rig.create_topic()
    assert [rig.produce(batch(b"a"), acks=1) for _ in range(2)] == [(0, 0), (0, 1)]
    if change == "config":
        rig.log_manager.update_config("orders", LogConfig(compact=True))
        assert rig.produce(batch(b"a", key=None), acks=1) == (ErrorCode.INVALID_RECORD, -1)
        assert notes_of(rig.peer).produce_head_end == 0
    else:
        rig.replicas.take_offline([rig.partition().topic_partition])
        assert rig.produce(batch(b"a"), acks=1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_known_head_is_no_way_around_a_leadership_that_was_lost(rig: Rig) -> None:
    rig.create_topic()
    assert rig.produce(batch(b"a"), acks=1) == (0, 0)
    rig.replicas.update_state(rig.partition().topic_partition, PartitionState(2, 1, (2,), (1, 2)))
    assert rig.produce(batch(b"b"), acks=1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    rig.replicas.update_state(rig.partition().topic_partition, PartitionState(1, 2, (1,), (1, 2)))
    assert rig.produce(batch(b"c"), acks=1) == (0, 1)
    assert rig.partition().log.leader_epochs.epoch_of(1) == 2


def test_small_compressed_batch_of_a_known_head_takes_no_thread_when_its_topic_was_made_anew(rig: Rig) -> None:
    rig.create_topic()
    compressed = bytes(batch(b"v", codec=ZSTD))
    for offset in range(2):
        assert rig.produce(compressed) == (0, offset)
    rig.pump.call(rig.topics.delete, "orders")
    rig.create_topic()
    assert rig.produce(compressed) == (0, 0)
    assert not rig.background.waiting


def test_small_compressed_batch_is_refused_for_lack_of_replicas_without_a_thread(rig: Rig) -> None:
    rig.create_topic(min_insync_replicas="2")
    for _ in range(3):
        assert rig.produce(bytes(batch(b"v", codec=ZSTD))) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert not rig.background.waiting
