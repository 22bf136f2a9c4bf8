"""What one fetch reads: limits, errors, old clients."""

import errno

import pytest

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.protocol.fetch_codec import FetchedPartition, TopicKey
from ottla.records.compression import GZIP, ZSTD
from ottla.records.header import iter_headers
from tests.broker.conftest import MakeRig
from tests.broker.rig import Rig, at
from tests.storage.log_making import batch

SIZE = len(batch(b"v" * 100))  # of each batch that `filled` appends


def filled(rig: Rig, topic: str = "orders", partitions: int = 1, batches: int = 3) -> None:
    rig.create_topic(topic, partitions)
    for index in range(partitions):
        for _ in range(batches):
            assert rig.produce(batch(b"v" * 100), topic, index)[0] == 0


def only(rig: Rig, *wanted: tuple[TopicKey, object], **settings: int) -> FetchedPartition:
    return rig.fetch(*wanted, **settings).topics[0][1][0]  # type: ignore[arg-type]


def sizes(rig: Rig, *wanted: tuple[TopicKey, object], **settings: int) -> list[int]:
    answer = rig.fetch(*wanted, **settings)  # type: ignore[arg-type]
    return [records_bytes(one) for _, some in answer.topics for one in some]


def records_bytes(fetched: FetchedPartition) -> int:
    assert isinstance(fetched.records, (bytes, memoryview))
    return len(fetched.records)


def offsets(fetched: FetchedPartition) -> list[int]:
    assert isinstance(fetched.records, (bytes, memoryview))
    return [header.base_offset for _, header in iter_headers(fetched.records, allow_partial_tail=True)]


@pytest.mark.parametrize("version", range(4, 17))
def test_all_records_from_an_offset_on_with_the_offsets_of_the_partition(rig: Rig, version: int) -> None:
    filled(rig)
    topic: TopicKey = "orders" if version < 13 else rig.cache.topics["orders"].topic_id
    fetched = only(rig, at(1, topic), version=version)
    assert offsets(fetched) == [1, 2]
    assert (fetched.error_code, fetched.high_watermark, fetched.last_stable_offset) == (0, 3, 3)
    assert fetched.log_start_offset == (0 if version >= 5 else -1)


def test_end_of_the_log_gives_empty_records_not_null(rig: Rig) -> None:
    filled(rig)
    fetched = only(rig, at(3))
    assert (fetched.error_code, fetched.records) == (0, b"")


def test_read_committed_lists_no_aborted_transactions(rig: Rig) -> None:
    filled(rig)
    assert only(rig, at(0), isolation_level=1).aborted_transactions == []
    assert only(rig, at(0), isolation_level=0).aborted_transactions is None


@pytest.mark.parametrize("max_bytes", [1, 0, -1, -(2**31)])
def test_first_batch_comes_whole_whatever_the_limits(rig: Rig, max_bytes: int) -> None:
    filled(rig)
    assert sizes(rig, at(0, max_bytes=max_bytes)) == [SIZE]
    assert sizes(rig, at(0), max_bytes=max_bytes) == [SIZE]


def test_limit_of_a_partition_cuts_its_last_batch(rig: Rig) -> None:
    filled(rig)
    assert sizes(rig, at(0, max_bytes=SIZE + 10)) == [SIZE + 10]


def test_limit_of_the_request_counts_over_all_partitions(rig: Rig) -> None:
    filled(rig, partitions=3)
    wanted = [at(0, index=index) for index in range(3)]
    assert sizes(rig, *wanted, max_bytes=4 * SIZE) == [3 * SIZE, SIZE, 0]
    assert sizes(rig, *wanted, max_bytes=SIZE) == [SIZE, 0, 0]
    assert sizes(rig, *wanted, max_bytes=1) == [SIZE, 0, 0]


def test_only_the_first_partition_with_records_gets_its_batch_over_the_limit(rig: Rig) -> None:
    filled(rig, partitions=3)
    assert sizes(rig, at(3, index=0), at(0, index=1), at(0, index=2), max_bytes=1) == [0, SIZE, 0]


@pytest.mark.parametrize("max_bytes", [-1, 0, 1])
def test_partition_limit_too_small_for_a_batch_gives_nothing_after_the_first(rig: Rig, max_bytes: int) -> None:
    filled(rig, partitions=2)
    assert sizes(rig, at(0, index=0, max_bytes=SIZE), at(0, index=1, max_bytes=max_bytes)) == [SIZE, 0]


def test_limit_of_the_broker_is_over_that_of_the_request(make_rig: MakeRig) -> None:
    rig = make_rig({"fetch.max.bytes": "1024"})
    filled(rig, batches=20)
    assert sizes(rig, at(0), max_bytes=2**31 - 1) == [1024]


def test_records_above_the_high_watermark_are_not_seen(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    rig.send_produce(("orders", 0, batch(b"a")))
    fetched = only(rig, at(0))
    assert (fetched.error_code, fetched.high_watermark, fetched.records) == (0, 0, b"")
    assert only(rig, at(1)).error_code == 0, "written, but not to be seen yet"
    rig.flush()
    assert offsets(only(rig, at(0))) == [0]


@pytest.mark.parametrize("offset", [-1, 4, 10**15])
def test_offset_outside_of_the_log_is_error_1_with_its_bounds(rig: Rig, offset: int) -> None:
    filled(rig)
    fetched = only(rig, at(offset))
    assert (fetched.error_code, fetched.high_watermark, fetched.log_start_offset) == (
        ErrorCode.OFFSET_OUT_OF_RANGE, 3, 0,
    )  # fmt: skip
    assert fetched.records == b""


def test_deleted_records_are_out_of_range(rig: Rig) -> None:
    filled(rig)
    rig.replicas.delete_records_before(rig.partition(), 2)
    fetched = only(rig, at(1))
    assert (fetched.error_code, fetched.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)


@pytest.mark.parametrize(
    ("epoch", "error_code"), [(-1, 0), (5, 0), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_leader_epoch_of_the_request_is_checked(rig: Rig, epoch: int, error_code: int) -> None:
    filled(rig)
    rig.partition().state = PartitionState(1, 5, (1,), (1,))
    assert only(rig, at(0, leader_epoch=epoch)).error_code == error_code


def test_partition_that_is_not_here_is_unknown(rig: Rig) -> None:
    filled(rig)
    assert only(rig, at(0, index=4)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only(rig, at(0, "payments")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fetched = only(rig, at(0, b"\x07" * 16), version=13)
    assert (fetched.error_code, fetched.high_watermark) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


def test_follower_is_told_that_there_is_no_replica_for_it(rig: Rig) -> None:
    filled(rig)
    for version in (12, 14, 15, 16):
        topic: TopicKey = "orders" if version < 13 else rig.cache.topics["orders"].topic_id
        fetched = only(rig, at(0, topic), version=version, replica_id=2)
        assert fetched.error_code == ErrorCode.REPLICA_NOT_AVAILABLE


def test_error_of_one_partition_leaves_the_others_alone(rig: Rig) -> None:
    filled(rig)
    answer = rig.fetch(at(9), at(0, "payments"), at(0, index=3))
    codes = [(topic, one.partition, one.error_code) for topic, some in answer.topics for one in some]
    assert codes == [("orders", 0, 1), ("orders", 3, 3), ("payments", 0, 3)]


# Clients that know no zstd


def test_batches_before_the_first_in_zstd_are_given_to_old_clients(rig: Rig) -> None:
    rig.create_topic()
    for codec in (0, GZIP, ZSTD, 0):
        rig.send_produce(("orders", 0, batch(b"v", codec=codec)))
        rig.background.run_all()
    assert offsets(only(rig, at(0), version=9)) == [0, 1]
    assert offsets(only(rig, at(0), version=10)) == [0, 1, 2, 3]


def test_zstd_first_is_error_76_for_old_clients(rig: Rig) -> None:
    rig.create_topic()
    rig.send_produce(("orders", 0, batch(b"v", codec=ZSTD)))
    rig.background.run_all()
    fetched = only(rig, at(0), version=9)
    assert (fetched.error_code, fetched.high_watermark) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 1)


# A disk that fails


@pytest.mark.parametrize("version", [9, 12])
def test_disk_that_fails_under_a_read_is_a_storage_error_and_takes_the_directory_offline(
    rig: Rig, version: int
) -> None:
    filled(rig)
    rig.disk.fail_next("pread", errno.EIO)
    # Where the last batches begin is known; the first one has to be looked for.
    assert only(rig, at(0, max_bytes=10), version=version).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.replicas.find("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR


def test_disk_that_fails_under_the_search_for_zstd_is_a_storage_error(rig: Rig) -> None:
    filled(rig)
    only(rig, at(1), version=9)
    rig.disk.fail_next("pread", errno.EIO)  # with no limit in the way, only that search reads
    assert only(rig, at(1), version=9).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.replicas.find("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR


def test_rotten_batch_does_not_stop_an_old_client_from_finding_out(rig: Rig) -> None:
    filled(rig)
    rig.disk.corrupt("/data/orders-0/00000000000000000000.log", SIZE + 8, xor=0x80)  # a negative length
    assert only(rig, at(0), version=9).error_code == 0
