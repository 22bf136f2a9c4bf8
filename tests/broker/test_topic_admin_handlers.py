"""CreatePartitions, DescribeCluster, DescribeTopicPartitions and DescribeLogDirs over the wire."""

from errno import EIO

import pytest

from ottla.controller.new_topics import NewTopic
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.testing.simulated_disk import SimulatedDisk
from tests.broker.conftest import MakeRig
from tests.broker.rig import BROKER_ID, Rig, bytes_of
from tests.storage.log_making import batch


def more(name: str, count: int, *, on: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assignments = None if on is None else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in on]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def grow(
    rig: Rig, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return rig.ask(request, CreatePartitionsResponse, version).results


def partition_count(rig: Rig, name: str = "orders") -> int:
    answer = rig.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), MetadataResponse, 9)
    return len(answer.topics[0].partitions)


@pytest.mark.parametrize("version", range(4))
def test_added_partitions_can_be_used_when_their_answer_is_there(rig: Rig, version: int) -> None:
    rig.create_topic("orders", 2)
    rig.produce(batch(b"a"), index=1)
    assert partition_count(rig) == 2
    (result,) = grow(rig, more("orders", 4), version=version)
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert partition_count(rig) == 4
    for index in (2, 3):
        assert rig.produce(batch(b"a"), index=index) == (0, 0)
    assert rig.produce(batch(b"b"), index=1) == (0, 1), "what was there goes on"
    assert rig.log_manager.topic_id_of(rig.partition(index=3).topic_partition) == rig.cache.topics["orders"].topic_id


def test_each_topic_of_a_request_has_its_own_verdict(rig: Rig) -> None:
    for name in "abcdef":
        rig.create_topic(name, 2)
    results = grow(
        rig,
        more("a", 3),
        more("b", 2),
        more("c", 1),
        more("none", 9),
        more("d", 3, on=[[7]]),
        more("e", 3, on=[[1], [1]]),
        more("f", 3, on=[[1]]),
        more("twice", 3),
        more("twice", 4),
    )
    assert [(result.name, result.error_code) for result in results] == [
        ("a", 0),
        ("b", ErrorCode.INVALID_PARTITIONS),
        ("c", ErrorCode.INVALID_PARTITIONS),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("d", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("e", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("f", 0),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    assert all(result.error_message for result in results if result.error_code)
    assert [len(rig.cache.topics[name].partitions) for name in "abcdef"] == [3, 2, 2, 2, 2, 3]


def test_request_without_topics_or_with_doubles_only_is_answered(rig: Rig) -> None:
    assert grow(rig) == []
    assert [result.error_code for result in grow(rig, more("a", 2), more("a", 2))] == [ErrorCode.INVALID_REQUEST]


def test_validation_alone_adds_nothing(rig: Rig) -> None:
    rig.create_topic("orders", 1)
    results = grow(rig, more("orders", 3), more("none", 3), validate_only=True)
    assert [result.error_code for result in results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert partition_count(rig) == 1
    assert len(rig.log_manager.partitions()) == 1


def test_partitions_that_were_written_before_a_crash_are_made_by_the_next_start(rig: Rig) -> None:
    image = rig.create_topic("orders", 2)
    rig.produce(batch(b"a"), index=0)
    states = dict.fromkeys(range(4), image.partitions[0])
    # As the next start finds it: the store knows four partitions, the disk two.
    rig.cache.remove_topic("orders")
    rig.local_topics.apply_loaded(image._replace(partitions=states), {})
    assert partition_count(rig) == 4
    assert rig.produce(batch(b"a"), index=3) == (0, 0)
    assert rig.produce(batch(b"b"), index=0) == (0, 1)


def test_time_that_is_over_is_told_and_the_change_goes_on(rig: Rig) -> None:
    rig.create_topic("old")
    new = CreatableTopic(name="a", num_partitions=1, replication_factor=1)
    requests: list[tuple[ApiMessage, int]] = [
        (CreateTopicsRequest(topics=[new], timeout_ms=50), 7),
        (CreatePartitionsRequest(topics=[more("old", 2)], timeout_ms=50), 3),
        (DeleteTopicsRequest(topic_names=["old"], timeout_ms=50), 5),
    ]
    answers = [rig.send(encode_request(request, version, 77, "test")) for request, version in requests]
    rig.advance(100)
    created = decode_response(CreateTopicsResponse, 7, bytes_of(answers[0])[4:])[1]
    grown = decode_response(CreatePartitionsResponse, 3, bytes_of(answers[1])[4:])[1]
    deleted = decode_response(DeleteTopicsResponse, 5, bytes_of(answers[2])[4:])[1]
    for result in (created.topics[0], grown.results[0], deleted.responses[0]):
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert result.error_message
    rig.pump.run_until(lambda: set(rig.cache.topics) == {"a"})


def test_client_that_left_is_not_waited_for(rig: Rig) -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)], timeout_ms=50
    )
    answer = rig.send(encode_request(request, 7, 77, "test"))
    assert isinstance(answer, Deferred)
    answer.abandon()
    assert rig.replicas.waiting.topic_changes.delayed == 0
    rig.pump.run_until(lambda: "a" in rig.cache.topics)


def test_those_who_asked_hear_of_a_deleted_topic(rig: Rig) -> None:
    heard: list[tuple[str, bool]] = []
    rig.local_topics.on_topic_deleted.append(lambda name: heard.append((name, name in rig.cache.topics)))
    rig.create_topic("orders")
    rig.create_topic("other")
    rig.pump.call(rig.topics.delete, "orders")
    assert heard == [("orders", False)]


def test_topic_that_is_deleted_before_its_names_are_durable_stays_away(rig: Rig) -> None:
    rig.create_topic("other")
    heard: list[object] = []
    rig.topics.create(NewTopic("orders", 1, 1), heard.append)
    rig.pump.run_until(lambda: "orders" in rig.topics.state.topics)
    rig.topics.delete("orders", heard.append)
    assert not heard
    rig.pump.run_until(lambda: len(heard) == 2)
    assert "orders" not in rig.cache.topics
    assert [str(partition) for partition in rig.log_manager.partitions()] == ["other-0"]


# DescribeCluster


@pytest.mark.parametrize("version", range(2))
def test_cluster_is_described(rig: Rig, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = rig.ask(request, DescribeClusterResponse, version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "cluster-a", BROKER_ID)
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (BROKER_ID, "broker.test", 9092, "rack-a")
    assert answer.cluster_authorized_operations > 0
    plain = rig.ask(DescribeClusterRequest(), DescribeClusterResponse, version)
    assert plain.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("endpoint_type", "error_code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE), (7, 115), (-1, 115)],
)
def test_other_endpoints_than_brokers_are_refused(rig: Rig, endpoint_type: int, error_code: int) -> None:
    answer = rig.ask(DescribeClusterRequest(endpoint_type=endpoint_type), DescribeClusterResponse, 1)
    assert answer.error_code == error_code
    assert answer.error_message
    assert answer.brokers == []


# DescribeTopicPartitions


def describe(
    rig: Rig, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return rig.ask(request, DescribeTopicPartitionsResponse, 0)


def listed(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in answer.topics]


def cursor_of(answer: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = answer.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_topics_are_described_in_the_order_of_their_names(rig: Rig) -> None:
    for name in ("b", "c", "a"):
        rig.create_topic(name, 2)
    assert listed(describe(rig)) == [("a", [0, 1]), ("b", [0, 1]), ("c", [0, 1])]
    answer = describe(rig, "c", "none", "a", "c", "a/b")
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", 0),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", 0),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert answer.next_cursor is None
    topic = answer.topics[0]
    assert topic.topic_id == rig.cache.topics["a"].topic_id
    assert topic.topic_authorized_operations > 0
    partition = topic.partitions[1]
    assert (partition.leader_id, partition.leader_epoch) == (BROKER_ID, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([BROKER_ID], [BROKER_ID], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize("is_named", [False, True])
def test_pages_together_are_the_whole(rig: Rig, limit: int, is_named: bool) -> None:
    for name, partitions in (("a", 3), ("b", 1), ("c", 4)):
        rig.create_topic(name, partitions)
    names = ["c", "b", "a"] if is_named else []
    found: list[tuple[str | None, int]] = []
    cursor = None
    for _ in range(20):
        answer = describe(rig, *names, limit=limit, cursor=cursor)
        page = [(name, index) for name, indexes in listed(answer) for index in indexes]
        assert 0 < len(page) <= limit
        found += page
        cursor = cursor_of(answer)
        if cursor is None:
            break
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1), ("c", 2), ("c", 3)]


def test_page_is_bounded_by_the_broker_too(make_rig: MakeRig) -> None:
    rig = make_rig({"max.request.partition.size.limit": "2"})
    rig.create_topic("a", 3)
    answer = describe(rig, limit=100)
    assert listed(answer) == [("a", [0, 1])]
    assert cursor_of(answer) == ("a", 2)
    assert listed(describe(rig, limit=0)) == [("a", [0])], "a page has one partition at least"


def test_cursor_that_can_not_be_is_refused(rig: Rig) -> None:
    rig.create_topic("a", 3)
    for cursor in (("a", -1), ("b", 0)):
        answer = describe(rig, "a", cursor=cursor)
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]
    assert listed(describe(rig, cursor=("a", 9))) == [("a", [])]
    assert listed(describe(rig, cursor=("b", 1))) == []


def test_descriptions_follow_what_happens_to_a_topic(rig: Rig) -> None:
    rig.create_topic("a", 1)
    assert listed(describe(rig)) == [("a", [0])]
    assert partition_count(rig, "a") == 1
    grow(rig, more("a", 2))
    assert listed(describe(rig)) == [("a", [0, 1])]
    assert partition_count(rig, "a") == 2
    first = rig.cache.topics["a"].topic_id
    rig.pump.call(rig.topics.delete, "a")
    assert listed(describe(rig)) == []
    rig.create_topic("a", 1)
    (topic,) = describe(rig).topics
    assert topic.topic_id not in (first, bytes(16))
    rig.cache.put_brokers([])
    (topic,) = describe(rig).topics
    assert topic.partitions[0].offline_replicas == [BROKER_ID]


# DescribeLogDirs


def log_dirs(rig: Rig, version: int = 4, **topics: list[int]) -> DescribeLogDirsResponse:
    wanted = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
    answer = rig.send(encode_request(DescribeLogDirsRequest(topics=wanted or None), version, 77, "test"))
    rig.background.run_all()
    return decode_response(DescribeLogDirsResponse, version, bytes_of(answer)[4:])[1]


@pytest.mark.parametrize("version", range(1, 5))
def test_log_dirs_are_told_with_their_partitions(rig: Rig, version: int) -> None:
    rig.create_topic("orders", 2)
    rig.create_topic("payments")
    records = batch(b"a" * 100)
    size_bytes = len(records)
    rig.produce(records, index=1)
    answer = log_dirs(rig, version)
    assert answer.error_code == 0
    (result,) = answer.results
    assert (result.log_dir, result.error_code) == ("/data", 0)
    sizes = {
        topic.name: [(entry.partition_index, entry.partition_size, entry.offset_lag) for entry in topic.partitions]
        for topic in result.topics
    }
    assert sizes == {"orders": [(0, 0, 0), (1, size_bytes, 0)], "payments": [(0, 0, 0)]}
    assert not any(entry.is_future_key for topic in result.topics for entry in topic.partitions)
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes
    else:
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_only_the_partitions_that_were_asked_for_are_told(rig: Rig) -> None:
    rig.create_topic("orders", 3)
    rig.create_topic("payments")
    (result,) = log_dirs(rig, orders=[2, 0, 9], none=[0]).results
    assert [(topic.name, [entry.partition_index for entry in topic.partitions]) for topic in result.topics] == [
        ("orders", [0, 2])
    ]


def test_dir_that_failed_is_told_with_its_error(make_rig: MakeRig) -> None:
    disk = SimulatedDisk()
    rig = make_rig(disk=disk, directories=("/one", "/two"))
    rig.create_topic("orders", 2)
    disk.fail_next("*", EIO, path_prefix="/two", times=1000)
    rig.log_manager.fail_dir("/two", "broken")
    online, offline = log_dirs(rig).results
    assert (online.log_dir, online.error_code) == ("/one", 0)
    assert [entry.partition_index for topic in online.topics for entry in topic.partitions] == [0]
    assert (offline.log_dir, offline.error_code) == ("/two", ErrorCode.KAFKA_STORAGE_ERROR)
    assert offline.topics == []


def test_space_that_can_not_be_told_is_unknown(rig: Rig) -> None:
    rig.disk.fail_next("volume_space", EIO)
    (result,) = log_dirs(rig).results
    assert (result.error_code, result.total_bytes, result.usable_bytes) == (0, -1, -1)


def test_all_dirs_offline_are_answered_at_once(rig: Rig) -> None:
    rig.log_manager.fail_dir("/data", "broken")
    assert [result.error_code for result in log_dirs(rig).results] == [ErrorCode.KAFKA_STORAGE_ERROR]
