"""The coordinator on a broker's replicas: its topic, loading, waiting for a commit, rewriting, going offline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.coordinator import partition_of_group
from ottla.coordinator.runtime.coordinator_runtime import REWRITE_ABOVE_BYTES
from ottla.core.cluster import OFFSETS_TOPIC
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.core.types import TopicPartition
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.records.build import build_batch
from tests.broker.rig import Rig, bytes_of
from tests.coordinator.group.shard_rig import NOW_MS

GROUP = "readers"
COMMIT_VERSION = 8
# As many commits with the longest text as make the log of a partition too large.
LONG_TEXT = "x" * 4096
COMMITS_TO_REWRITE = REWRITE_ABOVE_BYTES // len(LONG_TEXT) + 1
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = new_rig(tmp_path)
    yield rig
    rig.close()


def new_rig(directory: Path, **topic_configs: str) -> Rig:
    """With a topic to commit for, and one partition of __consumer_offsets."""
    rig = Rig(directory, {"offsets.topic.num.partitions": "1"})
    rig.create_topic("orders", partitions=50)
    if topic_configs:
        rig.create_topic(OFFSETS_TOPIC, 1, **topic_configs)
    assert rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3).error_code == 0
    return rig


def commit_request(offset: int, *, index: int = 0, text: str = "", group_id: str = GROUP) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=text)
    return OffsetCommitRequest(
        group_id=group_id, topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    )


def error_of(answer: object) -> int:
    _, response = decode_response(OffsetCommitResponse, COMMIT_VERSION, bytes_of(answer)[4:])  # type: ignore[arg-type]
    return response.topics[0].partitions[0].error_code


def send_commit(rig: Rig, offset: int, **options: object) -> object:
    request = commit_request(offset, **options)  # type: ignore[arg-type]
    return rig.send(encode_request(request, COMMIT_VERSION, 77, "test"))


def commit(rig: Rig, offset: int, **options: object) -> int:
    rig.now_ms += 1  # of several within a millisecond only the first is appended at once
    return error_of(send_commit(rig, offset, **options))


def committed(rig: Rig, group_id: str = GROUP) -> dict[int, int] | int:
    """Offsets by partition of the topic `orders`, or the error."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    (group,) = rig.ask(request, OffsetFetchResponse, 8).groups
    if group.error_code:
        return group.error_code
    found = [partition for topic in group.topics for partition in topic.partitions]
    return {partition.partition_index: partition.committed_offset for partition in found}


def reload(rig: Rig) -> None:
    """As after a restart: everything in memory is gone, and the log is read again."""
    rig.coordinator.stop()
    assert rig.groups.offsets_topic.maybe_start()
    rig.background.run_all()


# The topic


# Printed by Java: Utils.abs(groupId.hashCode()) % 50, and the hash code itself.
@pytest.mark.parametrize(
    ("group_id", "expected"),
    [
        ("", 0),
        ("payments", 13),  # 1382682413
        ("my-group", 12),  # -1906497762
        ("spark-job-7", 49),  # -1574939849
        ("analytics-v2", 29),  # -874699229
        ("polygenelubricants", 0),  # -2147483648, which has no absolute value
        ("grüße", 23),  # 98768023
        ("😀", 49),  # 1772899, of two UTF-16 units
        ("group-😀", 7),  # 508083057
        ("𝔘𝔫𝔦", 22),  # -2106254422
    ],
)
def test_groups_lie_on_the_partitions_that_kafka_puts_them_on(group_id: str, expected: int) -> None:
    assert partition_of_group(group_id, partition_count=50) == expected


def delete_orders(rig: Rig) -> None:
    assert rig.pump.call(rig.topics.delete, "orders") is None


def test_offsets_of_a_topic_that_is_deleted_while_their_shard_is_not_loaded_are_gone(rig: Rig) -> None:
    assert commit(rig, 5) == 0
    rig.coordinator.stop()
    delete_orders(rig)
    assert rig.groups.offsets_topic.maybe_start()
    rig.create_topic("orders", partitions=50)  # before the shard is loaded: it is another topic
    rig.background.run_all()
    assert committed(rig) == {}
    reload(rig)  # tombstones say so for good
    assert committed(rig) == {}


def test_offsets_of_a_topic_that_is_made_anew_while_their_shard_is_loaded_are_gone(rig: Rig) -> None:
    assert commit(rig, 5) == 0
    rig.coordinator.stop()
    assert rig.groups.offsets_topic.maybe_start()
    delete_orders(rig)
    rig.create_topic("orders", partitions=50)
    rig.background.run_all()
    assert committed(rig) == {}
    assert commit(rig, 7) == 0
    reload(rig)
    assert committed(rig) == {0: 7}


def test_offsets_of_the_topics_that_are_there_stay_when_others_are_gone(rig: Rig) -> None:
    rig.create_topic("payments", partitions=1)
    assert commit(rig, 5) == 0
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=9)
    topic = OffsetCommitRequestTopic(name="payments", partitions=[partition])
    request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
    rig.now_ms += 1
    assert error_of(rig.send(encode_request(request, COMMIT_VERSION, 77, "test"))) == 0
    rig.coordinator.stop()
    assert rig.pump.call(rig.topics.delete, "payments") is None
    reload(rig)
    assert committed(rig) == {0: 5}


def test_offsets_of_a_topic_that_is_younger_than_the_coordinator_outlive_a_new_leader_epoch(rig: Rig) -> None:
    rig.coordinator.stop()
    assert rig.groups.offsets_topic.maybe_start()
    rig.background.run_all()
    delete_orders(rig)
    rig.create_topic("orders", partitions=50)
    assert commit(rig, 5) == 0
    rig.coordinator.load({0: 1})
    rig.background.run_all()
    assert committed(rig) == {0: 5}


def test_first_question_for_a_coordinator_makes_the_topic(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "123456"})
    questions = [
        rig.send(encode_request(FindCoordinatorRequest(key=f"group {number}"), 2, 77, "test")) for number in range(3)
    ]
    assert all(isinstance(answer, Deferred) and not answer.is_complete for answer in questions)
    rig.pump.run_until(lambda: all(answer.is_complete for answer in questions))  # type: ignore[union-attr]
    for answer in questions:
        _, response = decode_response(FindCoordinatorResponse, 2, bytes_of(answer)[4:])
        assert (response.error_code, response.node_id, response.host, response.port) == (0, 1, "broker.test", 9092)
    (topic,) = rig.ask(MetadataRequest(topics=None), MetadataResponse, 9).topics
    assert (topic.name, topic.is_internal, len(topic.partitions)) == (OFFSETS_TOPIC, True, 7)
    assert len(topic.partitions[0].replica_nodes) == 1  # 3 are wanted, one broker is alive
    config = rig.partition(OFFSETS_TOPIC).log.config
    assert (config.compact, config.delete, config.segment_bytes) == (True, False, 123456)
    rig.close()


def test_no_topic_means_no_coordinator(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"offsets.topic.num.partitions": "1"})
    rig.create_topic("_.consumer_offsets")  # the names collide in metrics
    response = rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3)
    assert (response.error_code, response.node_id) == (NOT_AVAILABLE, -1)
    assert committed(rig) == NOT_AVAILABLE
    rig.close()


def test_transactional_ids_and_empty_group_ids_are_refused(rig: Rig) -> None:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["producer"])
    (found,) = rig.ask(request, FindCoordinatorResponse, 4).coordinators
    assert found.error_code == ErrorCode.INVALID_REQUEST
    (found,) = rig.ask(FindCoordinatorRequest(coordinator_keys=[""]), FindCoordinatorResponse, 4).coordinators
    assert found.error_code == ErrorCode.INVALID_GROUP_ID


# Loading


def test_commit_is_there_after_a_reload(rig: Rig) -> None:
    assert commit(rig, 5) == 0
    assert commit(rig, 6) == 0
    assert commit(rig, 7, index=3) == 0
    reload(rig)
    assert committed(rig) == {0: 6, 3: 7}
    assert rig.coordinator.runtime.loaded_record_count >= 3


def test_requests_while_loading_are_told_to_come_again(rig: Rig) -> None:
    commit(rig, 5)
    rig.coordinator.stop()
    rig.groups.offsets_topic.maybe_start()
    assert committed(rig) == LOADING
    assert commit(rig, 6) == LOADING
    response = rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3)
    assert (response.error_code, response.node_id) == (0, 1)
    rig.background.run_all()
    assert committed(rig) == {0: 5}


def test_load_goes_over_slices_and_segments(tmp_path: Path) -> None:
    rig = Rig(
        tmp_path,
        {
            "offsets.topic.num.partitions": "1",
            "offsets.load.buffer.size": "1000",
            "offsets.topic.segment.bytes": "3000",
        },
    )
    rig.create_topic("orders", partitions=50)
    rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3)
    for number in range(100):
        assert commit(rig, number, index=number % 50) == 0
    assert rig.partition(OFFSETS_TOPIC).log.segment_count > 3
    reload(rig)
    assert committed(rig) == {index: 50 + index for index in range(50)}
    rig.close()


def test_damaged_batch_is_left_out_and_nothing_else(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    log = rig.partition(OFFSETS_TOPIC).log
    positions = []
    for number in range(3):
        positions.append(log.size_bytes)
        assert commit(rig, 10 + number, index=number) == 0
    rig.disk.corrupt(f"{log.directory}/00000000000000000000.log", positions[1] + 90)
    reload(rig)
    assert committed(rig) == {0: 10, 2: 12}
    assert rig.coordinator.runtime.damaged_count == 1
    assert "__consumer_offsets-0: the batch at offset 1 is left out" in caplog.text


def test_damaged_lengths_cost_the_rest_of_their_segment(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    log = rig.partition(OFFSETS_TOPIC).log
    assert commit(rig, 10, index=0) == 0
    position = log.size_bytes
    assert commit(rig, 11, index=1) == 0
    log.roll(NOW_MS)
    assert commit(rig, 12, index=2) == 0
    rig.disk.corrupt(f"{log.directory}/00000000000000000000.log", position + 8, xor=0x40)
    reload(rig)
    assert committed(rig) == {0: 10, 2: 12}
    assert "records up to offset 2 are lost" in caplog.text


def test_unreadable_record_is_left_out_alone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    assert commit(rig, 10) == 0
    records = [(NOW_MS, b"\x00\x01garbage", b"", ()), (NOW_MS, None, b"", ()), (NOW_MS, b"\x00\x09newer", b"", ())]
    rig.partition(OFFSETS_TOPIC).append(memoryview(build_batch(records)), acks=1, now_ms=NOW_MS, is_from_client=False)
    reload(rig)
    assert committed(rig) == {0: 10}
    assert rig.coordinator.runtime.damaged_count == 2
    assert "the record at offset 1 is left out" in caplog.text


# Waiting for a commit


@pytest.fixture
def flushing_rig(tmp_path: Path) -> Iterator[Rig]:
    """What is not fsynced is not committed."""
    rig = new_rig(tmp_path, flush_messages="1", cleanup_policy="compact")
    yield rig
    rig.close()


def test_answer_and_state_wait_for_the_commit(flushing_rig: Rig) -> None:
    rig = flushing_rig
    answers = [send_commit(rig, 5), send_commit(rig, 6)]
    assert all(isinstance(answer, Deferred) and not answer.is_complete for answer in answers)
    assert committed(rig) == {}
    rig.flush()
    assert [error_of(answer) for answer in answers] == [0, 0]
    assert committed(rig) == {0: 6}


def test_commit_that_takes_too_long_fails_and_counts_when_it_comes(flushing_rig: Rig) -> None:
    rig = flushing_rig
    answer = send_commit(rig, 5)
    rig.advance(6_000)
    assert error_of(answer) == NOT_AVAILABLE
    rig.flush()
    assert committed(rig) == {0: 5}  # as a reload would find it


def test_commit_that_waits_hears_that_the_leadership_was_lost(flushing_rig: Rig) -> None:
    rig = flushing_rig
    answer = send_commit(rig, 5)
    offsets = rig.partition(OFFSETS_TOPIC)
    rig.replicas.update_state(offsets.topic_partition, offsets.state._replace(leader_epoch=7))
    assert error_of(answer) == ErrorCode.NOT_COORDINATOR
    assert commit(rig, 6) == ErrorCode.NOT_COORDINATOR  # what was loaded in the older epoch may no longer be all
    rig.flush()
    assert committed(rig) == {}


def test_failed_disk_takes_the_coordinator_offline_before_clients_see_its_leader_epoch(rig: Rig) -> None:
    offsets = TopicPartition(OFFSETS_TOPIC, 0)
    commit(rig, 5)
    newer = rig.replicas.partitions[offsets].state._replace(leader_epoch=5)
    rig.replicas.update_state(offsets, newer)
    rig.groups.coordinator.load({0: 5})
    rig.settle()
    assert committed(rig) == {0: 5}
    rig.groups.take_offline([offsets])
    assert committed(rig) == NOT_AVAILABLE


def test_failed_disk_takes_the_coordinator_offline(flushing_rig: Rig) -> None:
    rig = flushing_rig
    answer = send_commit(rig, 5)
    rig.disk.fail_next("fsync", 5)
    rig.turn()
    rig.background.run_all()
    assert error_of(answer) == ErrorCode.NOT_COORDINATOR
    assert commit(rig, 6) == ErrorCode.NOT_COORDINATOR
    rig.turn()  # the coordinator hears of it, but not in the middle of what may be an append of its own
    assert commit(rig, 6) == NOT_AVAILABLE
    assert rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3).error_code == NOT_AVAILABLE


def test_failed_log_that_the_topic_does_not_have_changes_nothing(rig: Rig) -> None:
    rig.groups.take_offline([TopicPartition(OFFSETS_TOPIC, 99), TopicPartition("orders", 0)])
    assert commit(rig, 5) == 0


def test_failed_append_is_answered_and_changes_nothing(rig: Rig) -> None:
    assert commit(rig, 5) == 0
    rig.disk.fail_next("append", 28)
    assert commit(rig, 6) == ErrorCode.NOT_COORDINATOR
    assert committed(rig) == {0: 5}


# Rewriting


def fill(rig: Rig, *, turns: bool = True) -> None:
    for number in range(COMMITS_TO_REWRITE):
        assert commit(rig, number, text=LONG_TEXT) == 0
        if turns:
            rig.turn()


def settle(rig: Rig) -> None:
    """Until nothing is to be done any more."""
    while rig.loop.soon or rig.background.waiting:
        rig.flush()


def test_log_that_is_mostly_old_is_rewritten_and_cut(rig: Rig) -> None:
    log = rig.partition(OFFSETS_TOPIC).log
    commit(rig, 77, index=9)
    fill(rig)
    settle(rig)
    assert rig.coordinator.runtime.rewriting_count == 1
    assert log.log_start_offset > COMMITS_TO_REWRITE * 9 // 10
    assert log.segment_count == 1
    assert log.size_bytes < REWRITE_ABOVE_BYTES // 10
    assert log.recovery_point > log.log_start_offset  # durable before the old went
    reload(rig)
    assert committed(rig) == {0: COMMITS_TO_REWRITE - 1, 9: 77}


def test_log_that_is_mostly_old_is_rewritten_at_start(rig: Rig) -> None:
    fill(rig, turns=False)
    reload(rig)
    settle(rig)
    assert rig.coordinator.runtime.rewriting_count == 1
    assert rig.partition(OFFSETS_TOPIC).log.size_bytes < 10_000


def test_nothing_goes_before_the_rewritten_is_durable(rig: Rig) -> None:
    log = rig.partition(OFFSETS_TOPIC).log
    fill(rig)
    for _ in range(10):
        rig.turn()
    assert log.log_start_offset == 0
    rig.flush()
    assert log.log_start_offset > 0


def test_large_live_state_is_not_rewritten_for_nothing(rig: Rig) -> None:
    for number in range(COMMITS_TO_REWRITE):
        group_id = f"group {number}"
        assert commit(rig, number, text=LONG_TEXT, group_id=group_id) == 0
        rig.turn()
    settle(rig)
    assert rig.coordinator.runtime.rewriting_count == 1  # only then it is known that all of it is in force
    for number in range(COMMITS_TO_REWRITE // 2):
        assert commit(rig, number, text=LONG_TEXT) == 0
        rig.turn()
    settle(rig)
    assert rig.coordinator.runtime.rewriting_count == 1


def test_commit_in_flight_is_not_undone_by_the_rewriting(flushing_rig: Rig) -> None:
    """A value that is about to be replaced must not be written behind the one that replaces it."""
    rig = flushing_rig
    for number in range(COMMITS_TO_REWRITE):
        send_commit(rig, number, text=LONG_TEXT)
    last = send_commit(rig, 1_000_000)
    held = send_commit(rig, 2_000_000, index=1)
    settle(rig)
    assert rig.coordinator.runtime.rewriting_count == 1
    assert (error_of(last), error_of(held)) == (0, 0)
    reload(rig)
    assert committed(rig) == {0: 1_000_000, 1: 2_000_000}


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(steps=st.lists(st.sampled_from(["commit", "turn", "flush"]), max_size=25), flushes=st.booleans())
def test_reload_at_any_point_of_a_rewriting_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], flushes: bool
) -> None:
    configs = {"flush_messages": "1"} if flushes else {}
    rig = new_rig(tmp_path_factory.mktemp("rig"), cleanup_policy="compact", **configs)
    for number in range(700):
        send_commit(rig, number, index=number % 50, text=LONG_TEXT, group_id=f"group {number % 2}")
    rig.flush()
    for number in range(COMMITS_TO_REWRITE - 700):
        send_commit(rig, 700 + number, index=number % 50, text=LONG_TEXT, group_id="group 0")
    acknowledged: dict[int, int] = {}
    answers = []
    for number, step in enumerate(steps):
        if step == "turn":
            rig.turn()
        elif step == "flush":
            rig.flush()
        else:
            answers.append((number % 5, 10_000 + number, send_commit(rig, 10_000 + number, index=number % 5)))
    for index, offset, answer in answers:
        if not isinstance(answer, Deferred) or answer.is_complete:
            assert error_of(answer) == 0
            acknowledged[index] = offset
    before = {group_id: committed(rig, group_id) for group_id in (GROUP, "group 0", "group 1")}
    if not flushes:
        reload(rig)
        assert {group_id: committed(rig, group_id) for group_id in before} == before
    settle(rig)
    reload(rig)
    found = committed(rig)
    assert isinstance(found, dict)
    assert all(found[index] >= offset for index, offset in acknowledged.items())
    rig.close()


# Leader epochs


def send_join(rig: Rig, group_id: str) -> object:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return rig.send(encode_request(request, 3, 77, "test"))


def test_requests_that_wait_are_answered_with_16_when_the_coordinator_moves(flushing_rig: Rig) -> None:
    rig = flushing_rig
    join = send_join(rig, "others")
    answer = send_commit(rig, 5)
    rig.coordinator.unload(0, 1, ErrorCode.NOT_COORDINATOR)
    assert error_of(answer) == ErrorCode.NOT_COORDINATOR
    assert isinstance(join, Deferred)
    _, response = decode_response(JoinGroupResponse, 3, bytes_of(join)[4:])
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert commit(rig, 6) == ErrorCode.NOT_COORDINATOR


def test_coordinator_that_comes_back_has_what_it_had(rig: Rig) -> None:
    assert commit(rig, 5) == 0
    rig.coordinator.unload(0, 1, ErrorCode.NOT_COORDINATOR)
    rig.coordinator.load({0: 2})
    assert committed(rig) == LOADING
    rig.background.run_all()
    assert committed(rig) == {0: 5}
    assert commit(rig, 6) == 0


def test_known_heartbeat_is_no_longer_answered_when_the_coordinator_has_moved(rig: Rig) -> None:
    """A member that is known by the bytes of its request is looked up again."""
    join = send_join(rig, GROUP)
    rig.advance(3_000)
    _, joined = decode_response(JoinGroupResponse, 3, bytes_of(join)[4:])  # type: ignore[arg-type]
    heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    for _ in range(2):
        assert rig.ask(heartbeat, HeartbeatResponse, 3).error_code == 0
    rig.coordinator.unload(0, 1, ErrorCode.NOT_COORDINATOR)
    assert rig.ask(heartbeat, HeartbeatResponse, 3).error_code == ErrorCode.NOT_COORDINATOR


def test_coordinator_has_as_many_partitions_as_are_asked_for(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"offsets.topic.num.partitions": "400"})
    assert rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3).error_code == 0
    assert rig.coordinator.runtime.loading_count == 0
    rig.close()


# Its end


def test_stop_sends_everybody_away(rig: Rig) -> None:
    commit(rig, 5)
    rig.coordinator.stop()
    assert rig.coordinator.shard_for(GROUP) == NOT_AVAILABLE
    assert list(rig.coordinator.shards()) == []


def test_stop_while_loading_forgets_the_load(rig: Rig) -> None:
    commit(rig, 5)
    rig.coordinator.stop()
    rig.groups.offsets_topic.maybe_start()
    rig.coordinator.stop()
    rig.background.run_all()
    assert rig.coordinator.shard_for(GROUP) == NOT_AVAILABLE


def test_deleted_topic_takes_its_offsets_along(rig: Rig) -> None:
    commit(rig, 5)
    rig.pump.call(rig.topics.delete, "orders")
    assert committed(rig) == {}
    reload(rig)
    assert committed(rig) == {}
