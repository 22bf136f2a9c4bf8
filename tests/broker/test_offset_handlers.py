"""ListOffsets and DeleteRecords."""

import errno

import pytest

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.core.types import TopicPartition
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.records.build import build_batch
from ottla.records.compression import GZIP
from tests.broker.rig import Rig, bytes_of
from tests.storage.log_making import NOW_MS, batch

NOT_FOUND = (0, -1, -1, -1)


def look_up(
    rig: Rig, timestamp: int, *, version: int = 8, index: int = 0, epoch: int = -1, topic: str = "orders"
) -> tuple[int, int, int, int]:
    """(error code, timestamp, offset, leader epoch)."""
    wanted = ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    found = rig.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def filled(rig: Rig, **configs: str) -> None:
    """Four records with the times 10, 40, 20, 30 after NOW_MS."""
    rig.create_topic("orders", 1, **configs)
    for delay_ms in (10, 40, 20, 30):
        rig.send_produce(("orders", 0, batch(b"v", timestamp_ms=NOW_MS + delay_ms)))


@pytest.mark.parametrize("version", range(1, 9))
def test_latest_is_the_high_watermark_and_earliest_the_start(rig: Rig, version: int) -> None:
    filled(rig)
    rig.replicas.delete_records_before(rig.partition(), 1)
    epoch = 0 if version >= 4 else -1
    assert look_up(rig, -1, version=version) == (0, -1, 4, epoch)
    assert look_up(rig, -2, version=version) == (0, -1, 1, epoch)


def test_first_local_offset_is_the_first_offset(rig: Rig) -> None:
    filled(rig)
    assert look_up(rig, -4) == look_up(rig, -2) == (0, -1, 0, 0)


def test_newest_by_time_is_not_the_last(rig: Rig) -> None:
    filled(rig)
    assert look_up(rig, -3, version=7) == (0, NOW_MS + 40, 1, 0)


@pytest.mark.parametrize(("delay_ms", "offset", "found_ms"), [(-99, 0, 10), (10, 0, 10), (11, 1, 40), (40, 1, 40)])
def test_first_record_at_or_after_a_time(rig: Rig, delay_ms: int, offset: int, found_ms: int) -> None:
    filled(rig)
    assert look_up(rig, NOW_MS + delay_ms) == (0, NOW_MS + found_ms, offset, 0)


def test_time_after_the_last_record_finds_nothing(rig: Rig) -> None:
    filled(rig)
    assert look_up(rig, NOW_MS + 41) == NOT_FOUND


def test_empty_log_has_no_times(rig: Rig) -> None:
    rig.create_topic()
    assert look_up(rig, 0) == look_up(rig, -3) == NOT_FOUND
    assert look_up(rig, -1)[:3] == look_up(rig, -2)[:3] == (0, -1, 0)


@pytest.mark.parametrize(("timestamp", "version"), [(-5, 8), (-100, 8), (-3, 6), (-3, 1), (-4, 7)])
def test_negative_time_that_its_version_does_not_know_is_error_35(rig: Rig, timestamp: int, version: int) -> None:
    filled(rig)
    assert look_up(rig, timestamp, version=version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


def test_nothing_above_the_high_watermark_is_told(rig: Rig) -> None:
    filled(rig, flush_messages="3")
    assert rig.partition().high_watermark == 2
    assert look_up(rig, -1)[2] == 2
    assert look_up(rig, NOW_MS + 10)[2] == 0
    rig.send_produce(("orders", 0, batch(b"v", timestamp_ms=NOW_MS + 90)))
    assert look_up(rig, NOW_MS + 50) == NOT_FOUND
    rig.flush()
    assert look_up(rig, NOW_MS + 50)[2] == 4


def test_leader_epoch_is_checked(rig: Rig) -> None:
    filled(rig)
    rig.partition().state = PartitionState(1, 5, (1,), (1,))
    assert look_up(rig, -1, epoch=4)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert look_up(rig, -1, epoch=6)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert look_up(rig, -1, epoch=5)[0] == 0


def elected(rig: Rig) -> None:
    """Led in a new epoch with a follower of which nothing is known."""
    filled(rig)
    state = PartitionState(1, 5, (1, 2), (1, 2), 1)
    assert rig.replicas.apply_state(rig.partition().topic_partition, state) == 0
    rig.partition().high_watermark = 1  # as of one that was a follower until now


def fetched_to(rig: Rig, offset: int) -> None:
    rig.partition().on_follower_fetch(
        2, broker_epoch=1, fetch_offset=offset, durable_offset=-1, log_start_offset=0, now_ms=0
    )


@pytest.mark.parametrize("version", [4, 5, 8])
def test_latest_offset_is_not_known_until_the_epoch_s_start_is_committed(rig: Rig, version: int) -> None:
    elected(rig)
    end_offset = rig.partition().log.log_end_offset
    not_yet = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
    assert look_up(rig, -1, version=version)[0] == not_yet
    fetched_to(rig, end_offset - 1)
    assert look_up(rig, -1, version=version)[0] == not_yet
    fetched_to(rig, end_offset)
    assert look_up(rig, -1, version=version) == (0, -1, end_offset, 5)


def test_time_beyond_what_is_known_to_be_committed_is_not_available_either(rig: Rig) -> None:
    elected(rig)
    assert look_up(rig, NOW_MS + 20)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert look_up(rig, NOW_MS + 10**6)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert look_up(rig, NOW_MS)[0] == 0
    assert look_up(rig, -2)[0] == 0
    fetched_to(rig, rig.partition().log.log_end_offset)
    assert look_up(rig, NOW_MS + 20)[0] == 0
    assert look_up(rig, NOW_MS + 10**6) == NOT_FOUND


def test_unknown_partition_is_told(rig: Rig) -> None:
    filled(rig)
    assert look_up(rig, -1, index=7)[0] == look_up(rig, -1, topic="x")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_disk_that_fails_under_a_lookup_is_a_storage_error(rig: Rig) -> None:
    filled(rig)
    rig.disk.fail_next("pread", errno.EIO)
    assert look_up(rig, NOW_MS + 20)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.replicas.find("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR


def delete_before(rig: Rig, *wanted: tuple[int, int], topic: str = "orders", version: int = 2) -> list[tuple[int, int]]:
    """(error code, low watermark) for each (partition, offset)."""
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in wanted]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1000)
    response = rig.ask(request, DeleteRecordsResponse, version)
    return [(one.error_code, one.low_watermark) for one in response.topics[0].partitions]


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_up_to_an_offset(rig: Rig, version: int) -> None:
    filled(rig)
    assert delete_before(rig, (0, 3), version=version) == [(0, 3)]
    assert delete_before(rig, (0, 1), version=version) == [(0, 3)]
    assert look_up(rig, -2)[2] == 3


def test_minus_one_deletes_up_to_the_high_watermark(rig: Rig) -> None:
    filled(rig, flush_messages="3")
    assert delete_before(rig, (0, -1)) == [(0, 2)]


@pytest.mark.parametrize("offset", [3, 99, -2])
def test_offset_that_is_not_to_be_seen_is_out_of_range(rig: Rig, offset: int) -> None:
    filled(rig, flush_messages="3")
    assert delete_before(rig, (0, offset)) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]


def test_each_partition_gets_its_own_verdict(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    rig.produce(batch(b"a", b"b"), index=1)
    assert delete_before(rig, (7, 0), (1, 2), (0, 1)) == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (0, 2),
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
    ]


def test_request_with_nothing_to_wait_for_is_answered(rig: Rig) -> None:
    assert delete_before(rig, (0, 0), topic="unknown") == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert rig.ask(DeleteRecordsRequest(topics=[], timeout_ms=1000), DeleteRecordsResponse, 2).topics == []


def test_compacted_topic_keeps_its_records(rig: Rig) -> None:
    filled(rig, cleanup_policy="compact")
    assert delete_before(rig, (0, 1)) == [(ErrorCode.POLICY_VIOLATION, -1)]
    rig.create_topic("both", cleanup_policy="compact,delete")
    assert delete_before(rig, (0, 0), topic="both") == [(0, 0)]


def test_offline_partition_is_a_storage_error(rig: Rig) -> None:
    filled(rig)
    rig.replicas.take_offline([TopicPartition("orders", 0)])
    assert delete_before(rig, (0, 1)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]


def test_compressed_batch_is_opened_on_a_thread_and_holds_its_connection(rig: Rig) -> None:
    rig.create_topic("orders", 1)
    for delay_ms in (10, 40):
        rig.send_produce(("orders", 0, batch(b"v", b"w", timestamp_ms=NOW_MS + delay_ms, codec=GZIP)))
        rig.background.run_all()
    for timestamp, expected in ((NOW_MS + 11, (NOW_MS + 40, 2)), (-3, (NOW_MS + 40, 2)), (NOW_MS, (NOW_MS + 10, 0))):
        wanted = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
        answer = rig.send(encode_request(request, 8, 77, "test"))
        assert isinstance(answer, Deferred)
        assert answer.holds
        assert not answer.is_complete
        rig.background.run_all()
        assert answer.is_complete
        _, response = decode_response(ListOffsetsResponse, 8, bytes_of(answer)[4:])
        found = response.topics[0].partitions[0]
        assert (found.timestamp, found.offset) == expected


def test_compressed_batch_below_the_start_sends_the_lookup_the_long_way(rig: Rig) -> None:
    rig.create_topic("orders", 1)
    values = [(NOW_MS + 40, b"k", b"v", ()), (NOW_MS + 10, b"k", b"w", ())]
    rig.send_produce(("orders", 0, memoryview(build_batch(values, codec=GZIP))))
    rig.send_produce(("orders", 0, batch(b"x", timestamp_ms=NOW_MS + 50, codec=GZIP)))
    rig.background.run_all()
    rig.replicas.delete_records_before(rig.partition(), 1)
    wanted = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=NOW_MS + 20)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
    answer = rig.send(encode_request(request, 8, 77, "test"))
    rig.background.run_all()
    _, response = decode_response(ListOffsetsResponse, 8, bytes_of(answer)[4:])
    assert response.topics[0].partitions[0].offset == 2
