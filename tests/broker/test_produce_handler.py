"""Produce: order, refusals, waits, and the detour over a thread."""

import errno
from collections.abc import Callable

import pytest

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.exchange import Deferred
from ottla.records.build import build_batch
from ottla.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.records.kernel import IS_COMPILED
from ottla.storage.log_config import LogConfig
from tests.broker.conftest import MakeRig
from tests.broker.rig import FakePeer, Rig, decode_produced
from tests.storage.log_making import NOW_MS, batch, headers_of, read_all, values_of

ALL_VERSIONS = range(3, 12)


def threads_batch(key: bytes | None = b"k") -> bytes:
    """It is small only as long as it is compressed, so that it is not walked on the loop."""
    return bytes(batch(*(b"x" * 10_000 for _ in range(20)), key=key, codec=ZSTD))


def log_values(rig: Rig, topic: str = "orders", index: int = 0) -> list[bytes | None]:
    return values_of(read_all(rig.partition(topic, index).log))


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_batches_get_growing_offsets(rig: Rig, version: int, acks: int) -> None:
    rig.create_topic()
    assert rig.produce(batch(b"a", b"b"), version=version, acks=acks) == (0, 0)
    assert rig.produce(batch(b"c"), version=version, acks=acks) == (0, 2)
    assert log_values(rig) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_partitions_of_one_request_are_answered_in_its_order(rig: Rig, version: int) -> None:
    rig.create_topic("orders", 2)
    rig.create_topic("payments")
    answer = decode_produced(
        rig.send_produce(
            ("orders", 1, batch(b"a")),
            ("orders", 7, batch(b"lost")),
            ("orders", 0, batch(b"b")),
            ("payments", 0, batch(b"c", b"d")),
            version=version,
        ),
        version,
    )
    told = [(topic, one.partition, one.error_code, one.base_offset) for topic, some in answer.topics for one in some]
    assert told == [
        ("orders", 1, 0, 0),
        ("orders", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("orders", 0, 0, 0),
        ("payments", 0, 0, 0),
    ]
    assert log_values(rig, "payments") == [b"c", b"d"]


def test_acks_zero_is_appended_and_never_answered(rig: Rig) -> None:
    rig.create_topic()
    assert rig.send_produce(("orders", 0, batch(b"a")), acks=0) is None
    assert log_values(rig) == [b"a"]


def test_acks_zero_with_an_error_closes_the_connection(rig: Rig) -> None:
    with pytest.raises(ProtocolViolation, match="orders-0: UNKNOWN_TOPIC_OR_PARTITION"):
        rig.send_produce(("orders", 0, batch(b"a")), acks=0)


@pytest.mark.parametrize("acks", [7, 2, -2])
def test_acks_that_do_not_exist_are_refused_for_each_partition(rig: Rig, acks: int) -> None:
    rig.create_topic("orders", 2)
    answer = decode_produced(rig.send_produce(("orders", 0, batch(b"a")), ("orders", 1, batch(b"a")), acks=acks))
    assert [one.error_code for one in answer.topics[0][1]] == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert log_values(rig) == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_that_are_only_advertised_are_refused_for_each_partition(rig: Rig, version: int) -> None:
    rig.create_topic()
    assert rig.produce(batch(b"a"), version=version) == (ErrorCode.UNSUPPORTED_VERSION, -1)
    assert log_values(rig) == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_version_with_acks_zero_is_never_answered(rig: Rig, version: int) -> None:
    rig.create_topic()
    with pytest.raises(ProtocolViolation, match="UNSUPPORTED_VERSION"):
        rig.send_produce(("orders", 0, batch(b"a")), version=version, acks=0)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_not_for_clients(rig: Rig, topic: str) -> None:
    rig.create_topic(topic)
    for _ in range(2):  # also when the head could be known
        assert rig.produce(batch(b"a"), topic) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_transactional_batch_is_refused(rig: Rig) -> None:
    rig.create_topic()
    records = build_batch(
        [(NOW_MS, b"k", b"v", ())], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    rig.produce(batch(b"a"))  # the head is known from now on
    assert rig.produce(records) == (ErrorCode.INVALID_TXN_STATE, -1)
    records[-1] ^= 1
    assert rig.produce(records) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert log_values(rig) == [b"a"]


def test_too_few_in_sync_replicas_refuse_acks_all_only(rig: Rig) -> None:
    rig.create_topic(min_insync_replicas="2")
    assert rig.produce(batch(b"a"), acks=-1) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert rig.produce(batch(b"b"), acks=1) == (0, 0)
    assert log_values(rig) == [b"b"]


@pytest.mark.parametrize("leader", [-1, 2])
def test_partition_that_is_not_led_here_takes_nothing(rig: Rig, leader: int) -> None:
    rig.create_topic()
    rig.produce(batch(b"a"))
    rig.partition().state = PartitionState(leader, 1, (2,), (1, 2))
    for _ in range(2):
        assert rig.produce(batch(b"b"), acks=1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert log_values(rig) == [b"a"]


def test_null_and_empty_records_are_refused(rig: Rig) -> None:
    rig.create_topic()
    answer = decode_produced(rig.send_produce(("orders", 0, None)))
    assert answer.topics[0][1][0].error_code == ErrorCode.INVALID_RECORD
    assert rig.produce(b"")[0] != 0
    assert rig.produce(batch(b"a")[:50])[0] != 0
    assert log_values(rig) == []


def test_duplicate_is_answered_with_its_first_offset_and_not_appended(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"before"))

    def sent(sequence: int) -> tuple[int, int]:
        return rig.produce(batch(b"%d" % sequence, producer_id=9, producer_epoch=0, base_sequence=sequence))

    assert [sent(sequence) for sequence in (0, 1, 1, 0, 2)] == [(0, 1), (0, 2), (0, 2), (0, 1), (0, 3)]
    assert sent(7) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert log_values(rig) == [b"before", b"0", b"1", b"2"]


def test_duplicate_of_a_batch_that_still_waits_waits_too(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    records = bytes(batch(b"a", producer_id=9, producer_epoch=0, base_sequence=0))
    first = rig.send_produce(("orders", 0, records))
    second = rig.send_produce(("orders", 0, records))
    assert isinstance(second, Deferred)
    assert not second.is_complete
    rig.flush()
    for answer in (first, second):
        assert decode_produced(answer).topics[0][1][0].base_offset == 0
    assert log_values(rig) == [b"a"]


# Waiting


@pytest.mark.parametrize("acks", [1, -1])
def test_produce_waits_for_the_fsync_without_holding_its_connection(rig: Rig, acks: int) -> None:
    rig.create_topic(flush_messages="1")
    first = rig.send_produce(("orders", 0, batch(b"a")), acks=acks, correlation_id=1)
    second = rig.send_produce(("orders", 0, batch(b"b")), acks=acks, correlation_id=2)
    assert isinstance(first, Deferred)
    assert isinstance(second, Deferred)
    assert not first.holds
    assert not first.is_complete
    rig.turn()
    assert len(rig.background.waiting) == 1, "one fsync serves both"
    rig.background.run_all()
    answers = [decode_produced(first), decode_produced(second)]
    assert [(one.correlation_id, one.topics[0][1][0].base_offset) for one in answers] == [(1, 0), (2, 1)]


def test_acks_zero_does_not_wait_for_the_fsync(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    assert rig.send_produce(("orders", 0, batch(b"a")), acks=0) is None
    rig.turn()
    assert len(rig.background.waiting) == 1


def test_produce_that_waits_too_long_is_answered_with_error_7(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    answer = rig.send_produce(("orders", 0, batch(b"a")), timeout_ms=50)
    rig.advance(50)
    produced = decode_produced(answer).topics[0][1][0]
    assert (produced.error_code, produced.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert produced.error_message
    rig.flush()  # the fsync comes after all, and nobody is answered twice


def test_only_the_partition_that_waits_is_told_the_timeout(rig: Rig) -> None:
    rig.create_topic("safe", flush_messages="1")
    rig.create_topic("fast")
    answer = rig.send_produce(("safe", 0, batch(b"a")), ("fast", 0, batch(b"b")), timeout_ms=50)
    rig.advance(50)
    told = [(one.error_code, one.base_offset) for _, some in decode_produced(answer).topics for one in some]
    assert told == [(ErrorCode.REQUEST_TIMED_OUT, -1), (0, 0)]


def test_abandoned_produce_leaves_nothing_behind(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    answer = rig.send_produce(("orders", 0, batch(b"a")))
    assert isinstance(answer, Deferred)
    answer.abandon()
    assert rig.replicas.waiting.produces.delayed == 0
    assert len(rig.wheel) == rig.idle_timers


def test_fsync_that_fails_is_a_storage_error_for_all_who_wait(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    answer = rig.send_produce(("orders", 0, batch(b"a")))
    rig.disk.fail_next("fsync", errno.EIO)
    rig.flush()
    assert decode_produced(answer).topics[0][1][0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.produce(batch(b"b")) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_append_that_fails_takes_the_directory_offline(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    for index in (0, 1):
        rig.produce(batch(b"a"), index=index)
    rig.disk.fail_next("append", errno.ENOSPC)
    assert rig.produce(batch(b"b")) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert rig.produce(batch(b"b"), index=1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_directory_that_fails_within_a_request_settles_what_already_waits(rig: Rig) -> None:
    rig.create_topic("orders", 2, flush_messages="1")
    rig.disk.fail_next("append", errno.EIO, path_prefix="/data/orders-1")
    answer = rig.send_produce(("orders", 0, batch(b"a")), ("orders", 1, batch(b"b")))
    assert isinstance(answer, Deferred)
    assert answer.is_complete
    codes = [one.error_code for one in decode_produced(answer).topics[0][1]]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


# The detour over a thread


@pytest.mark.parametrize(("name", "codec"), [("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD)])
def test_batch_is_stored_under_the_codec_of_its_topic(rig: Rig, name: str, codec: int) -> None:
    rig.create_topic(compression_type=name)
    answer = rig.send_produce(("orders", 0, batch(b"a", b"b")))
    assert isinstance(answer, Deferred)
    assert answer.holds
    assert not answer.is_complete
    rig.background.run_all()
    assert decode_produced(answer).topics[0][1][0][:3] == (0, 0, 0)
    assert [header.compression for header in headers_of(rig.partition().log)] == [codec]
    assert log_values(rig) == [b"a", b"b"]


def test_topic_without_compression_stores_plain_batches(rig: Rig) -> None:
    rig.create_topic(compression_type="uncompressed")
    answer = rig.send_produce(("orders", 0, batch(b"a", codec=ZSTD)))
    rig.background.run_all()
    decode_produced(answer)
    assert [header.compression for header in headers_of(rig.partition().log)] == [NONE]


def test_batch_that_has_the_codec_of_its_topic_takes_no_detour_where_nobody_walks(make_rig: MakeRig) -> None:
    rig = make_rig({"ottla.produce.validate.records": "never"})
    rig.create_topic(compression_type="zstd")
    assert rig.produce(batch(b"a", codec=ZSTD)) == (0, 0)
    assert rig.background.waiting == []


def test_prepared_batches_keep_the_order_of_the_thread(rig: Rig) -> None:
    rig.create_topic(compression_type="zstd")
    answers = [rig.send_produce(("orders", 0, batch(b"%d" % number)), peer=FakePeer()) for number in range(3)]
    for _ in range(3):
        rig.background.run_one()
    assert [decode_produced(answer).topics[0][1][0].base_offset for answer in answers] == [0, 1, 2]
    assert log_values(rig) == [b"0", b"1", b"2"]


def test_frame_of_a_prepared_request_may_be_reused_at_once(rig: Rig) -> None:
    rig.create_topic(compression_type="zstd")
    answer = rig.send_produce(("orders", 0, records := bytearray(batch(b"a"))))
    records[:] = bytes(len(records))
    rig.background.run_all()
    assert decode_produced(answer).topics[0][1][0].error_code == 0


def test_partitions_that_need_no_preparation_go_along(rig: Rig) -> None:
    rig.create_topic("packed", compression_type="gzip")
    rig.create_topic("plain")
    answer = rig.send_produce(
        ("plain", 0, batch(b"a")), ("packed", 0, batch(b"b")), ("unknown", 0, batch(b"c")), ("plain", 0, None)
    )
    rig.background.run_all()
    codes = {(topic, one.partition): one.error_code for topic, some in decode_produced(answer).topics for one in some}
    assert codes[("packed", 0)] == 0
    assert codes[("unknown", 0)] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert log_values(rig, "plain") == [b"a"]
    assert log_values(rig, "packed") == [b"b"]


def test_prepared_batch_is_checked_as_it_was_sent(rig: Rig) -> None:
    rig.create_topic(compression_type="gzip")
    records = bytearray(batch(b"a"))
    records[-1] ^= 1
    answer = rig.send_produce(("orders", 0, records))
    rig.background.run_all()
    assert decode_produced(answer).topics[0][1][0].error_code == ErrorCode.CORRUPT_MESSAGE


def test_zstd_from_an_old_version_is_refused_also_where_it_would_be_changed(rig: Rig) -> None:
    rig.create_topic(compression_type="gzip")
    answer = rig.send_produce(("orders", 0, batch(b"a", codec=ZSTD)), version=6)
    rig.background.run_all()
    assert decode_produced(answer, 6).topics[0][1][0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_old_version_can_produce_to_a_topic_in_zstd(rig: Rig) -> None:
    rig.create_topic(compression_type="zstd")
    answer = rig.send_produce(("orders", 0, batch(b"a")), version=6)
    rig.background.run_all()
    assert decode_produced(answer, 6).topics[0][1][0].error_code == 0


def test_prepared_produce_waits_for_its_fsync(rig: Rig) -> None:
    rig.create_topic(compression_type="zstd", flush_messages="1")
    answer = rig.send_produce(("orders", 0, batch(b"a")))
    rig.background.run_one()
    assert isinstance(answer, Deferred)
    assert not answer.is_complete
    rig.flush()
    assert decode_produced(answer).topics[0][1][0].error_code == 0


def test_prepared_produce_whose_directory_fails_is_answered(rig: Rig) -> None:
    rig.create_topic("orders", 2, compression_type="zstd", flush_messages="1")
    rig.disk.fail_next("append", errno.EIO, path_prefix="/data/orders-1")
    answer = rig.send_produce(("orders", 0, batch(b"a")), ("orders", 1, batch(b"b")))
    rig.background.run_one()
    codes = [one.error_code for one in decode_produced(answer).topics[0][1]]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_prepared_produce_that_is_abandoned_while_it_waits_leaves_nothing(rig: Rig) -> None:
    rig.create_topic(compression_type="zstd", flush_messages="1")
    answer = rig.send_produce(("orders", 0, batch(b"a")))
    rig.background.run_one()
    assert isinstance(answer, Deferred)
    answer.abandon()
    assert rig.replicas.waiting.produces.delayed == 0


def test_prepared_produce_with_acks_zero_sends_nothing(rig: Rig) -> None:
    rig.create_topic(compression_type="zstd")
    answer = rig.send_produce(("orders", 0, batch(b"a")), acks=0)
    rig.background.run_all()
    assert isinstance(answer, Deferred)
    assert answer.is_complete
    assert answer.answer is None
    assert log_values(rig) == [b"a"]


def test_prepared_produce_with_acks_zero_that_is_refused_closes_its_connection(rig: Rig) -> None:
    rig.create_topic(cleanup_policy="compact")
    answer = rig.send_produce(("orders", 0, threads_batch(key=None)), acks=0)
    rig.background.run_all()
    assert isinstance(answer, Deferred)
    assert answer.is_complete
    assert isinstance(answer.failure, ProtocolViolation)
    assert log_values(rig) == []


@pytest.mark.parametrize("make", [lambda key: batch(b"v", b"w", key=key), threads_batch], ids=["inline", "on a thread"])
@pytest.mark.parametrize("version", [7, 8, 9, 11])
def test_compacted_topic_refuses_records_without_a_key_and_names_them(
    rig: Rig, make: Callable[[bytes | None], bytes], version: int
) -> None:
    rig.create_topic(cleanup_policy="compact")
    answer = rig.send_produce(("orders", 0, make(None)), version=version)
    rig.background.run_all()
    produced = decode_produced(answer, version).topics[0][1][0]
    assert (produced.error_code, produced.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    if version >= 8:
        assert produced.record_errors[0][0] == 0
        assert produced.error_message
    answer = rig.send_produce(("orders", 0, make(b"k")), version=version)
    rig.background.run_all()
    assert decode_produced(answer, version).topics[0][1][0].error_code == 0


def test_small_batch_for_a_compacted_topic_takes_no_detour(rig: Rig) -> None:
    rig.create_topic(cleanup_policy="compact")
    assert rig.produce(batch(b"v")) == (0, 0)
    assert rig.produce(batch(b"v", codec=GZIP)) == (0, 1)
    answer = rig.send_produce(("orders", 0, threads_batch()))
    assert isinstance(answer, Deferred)
    assert len(rig.background.waiting) == 1
    rig.background.run_all()


def test_log_append_time_is_in_the_answer(rig: Rig) -> None:
    rig.create_topic(message_timestamp_type="LogAppendTime")
    for _ in range(2):  # the long way, then the short one
        rig.now_ms += 5
        produced = decode_produced(rig.send_produce(("orders", 0, batch(b"a")))).topics[0][1][0]
        assert produced.log_append_time_ms == rig.now_ms


def test_config_change_is_seen_by_the_next_request(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a"))
    rig.log_manager.update_config("orders", LogConfig(max_message_bytes=70))
    assert rig.produce(batch(b"x" * 100)) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    rig.log_manager.update_config("orders", LogConfig(min_insync_replicas=2))
    assert rig.produce(batch(b"b"), acks=-1) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    rig.log_manager.update_config("orders", LogConfig(compression_type="gzip"))
    assert isinstance(rig.send_produce(("orders", 0, batch(b"b"))), Deferred)


@pytest.mark.parametrize(("mode", "is_walked"), [("always", True), ("never", False), ("kernel", IS_COMPILED)])
def test_batch_that_grows_is_walked_on_a_thread_and_small_ones_at_once(
    make_rig: MakeRig, mode: str, is_walked: bool
) -> None:
    rig = make_rig({"ottla.produce.validate.records": mode})
    rig.create_topic()
    for number in range(3):
        assert rig.produce(batch(b"plain")) == (0, 22 * number)
        assert rig.produce(batch(b"compressed", codec=ZSTD)) == (0, 22 * number + 1)
        answer = rig.send_produce(("orders", 0, threads_batch()))
        assert len(rig.background.waiting) == is_walked
        assert isinstance(answer, Deferred) == is_walked
        rig.background.run_all()
        assert decode_produced(answer).topics[0][1][0].base_offset == 22 * number + 2


def test_request_with_many_compressed_batches_is_prepared_on_a_thread_as_a_whole(make_rig: MakeRig) -> None:
    rig = make_rig({"ottla.produce.validate.records": "always"})
    rig.create_topic("orders", 20)
    for partitions in (8, 9, 20):
        answer = rig.send_produce(*(("orders", index, batch(b"v", codec=ZSTD)) for index in range(partitions)))
        assert isinstance(answer, Deferred) == (partitions > 8)
        rig.background.run_all()
        produced = decode_produced(answer).topics[0][1]
        assert [one.error_code for one in produced] == [0] * partitions


def test_one_batch_for_a_thread_takes_the_others_of_its_request_along(make_rig: MakeRig) -> None:
    rig = make_rig({"ottla.produce.validate.records": "always"})
    rig.create_topic("orders", 2)
    answer = rig.send_produce(("orders", 0, batch(b"v", codec=ZSTD)), ("orders", 1, threads_batch()))
    assert isinstance(answer, Deferred)
    assert rig.partition("orders", 0).log.log_end_offset == 0
    rig.background.run_all()
    assert [rig.partition("orders", index).log.log_end_offset for index in (0, 1)] == [1, 20]


def test_batch_that_grows_beyond_what_all_may_have_is_walked_alone(make_rig: MakeRig) -> None:
    rig = make_rig({"ottla.produce.validate.records": "always"})
    rig.create_topic()
    answer = rig.send_produce(("orders", 0, batch(bytes(40 * 1024 * 1024), codec=ZSTD)))
    rig.background.run_all()
    assert decode_produced(answer).topics[0][1][0].error_code == 0


def test_batch_is_prepared_anew_when_its_topic_becomes_compacted_meanwhile(make_rig: MakeRig) -> None:
    rig = make_rig({"ottla.produce.validate.records": "always"})
    rig.create_topic()
    answers = [rig.send_produce(("orders", 0, threads_batch(key)), peer=FakePeer()) for key in (None, b"k")]
    rig.log_manager.update_config("orders", LogConfig(compact=True, walks_records=True))
    rig.background.run_all()
    produced = [decode_produced(answer).topics[0][1][0] for answer in answers]
    assert [(one.error_code, one.base_offset) for one in produced] == [(ErrorCode.INVALID_RECORD, -1), (0, 0)]
    assert produced[0].record_errors[0][0] == 0
    assert rig.partition().log.log_end_offset == 20


def test_batch_is_prepared_anew_when_its_topic_gets_another_codec_meanwhile(rig: Rig) -> None:
    rig.create_topic(compression_type="gzip")
    answer = rig.send_produce(("orders", 0, batch(b"a")))
    rig.log_manager.update_config("orders", LogConfig(compression_type="lz4"))
    rig.background.run_all()
    assert decode_produced(answer).topics[0][1][0].error_code == 0
    assert [header.compression for header in headers_of(rig.partition().log)] == [LZ4]


def test_batch_for_a_topic_that_is_made_while_others_are_prepared_is_checked(rig: Rig) -> None:
    rig.create_topic("packed", compression_type="gzip")
    keyless = batch(b"a", b"b", key=None)
    answer = rig.send_produce(("packed", 0, batch(b"c")), ("compacted", 0, keyless))
    preparation = rig.background.waiting.pop()
    rig.create_topic("compacted", cleanup_policy="compact")
    rig.background.submit(*preparation)
    rig.background.run_all()
    codes = {topic: some[0].error_code for topic, some in decode_produced(answer).topics}
    assert codes == {"packed": 0, "compacted": ErrorCode.INVALID_RECORD}
    assert log_values(rig, "compacted") == []


def test_prepared_batch_of_a_topic_that_is_deleted_meanwhile_is_refused(rig: Rig) -> None:
    rig.create_topic(compression_type="gzip")
    answer = rig.send_produce(("orders", 0, batch(b"a")))
    preparation = rig.background.waiting.pop()
    rig.pump.call(rig.topics.delete, "orders")
    rig.background.submit(*preparation)
    rig.background.run_one()
    assert decode_produced(answer).topics[0][1][0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("state", [PartitionState(2, 1, (2,), (1, 2)), PartitionState(1, 1, (1,), (1, 2))])
@pytest.mark.parametrize("acks", [1, -1])
def test_produce_that_waits_hears_that_the_leadership_was_lost(rig: Rig, acks: int, state: PartitionState) -> None:
    rig.create_topic(flush_messages="1")
    answers = [rig.send_produce(("orders", 0, batch(b"a")), acks=acks) for _ in range(2)]  # the long way, the short
    rig.replicas.update_state(rig.partition().topic_partition, state)
    produced = [decode_produced(answer).topics[0][1][0] for answer in answers]
    assert [(one.error_code, one.base_offset) for one in produced] == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)] * 2
