"""Metadata: brokers, topics by name and id, topics made on the way."""

import pytest

from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.new_topics import NewTopic
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.protocol.codec import encode_request
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.broker.conftest import MakeRig
from tests.broker.rig import FakePeer, Rig


def ask(rig: Rig, *names: str | None, version: int = 12, **options: bool) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return rig.ask(MetadataRequest(topics=topics, **options), MetadataResponse, version)


def told(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


def by_id(rig: Rig, topic_id: bytes) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
    return rig.ask(request, MetadataResponse, 12).topics[0]


@pytest.mark.parametrize("version", range(13))
def test_topic_is_told_with_its_partitions_in_every_version(rig: Rig, version: int) -> None:
    image = rig.create_topic("orders", 3)
    response = ask(rig, "orders", version=version)
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [(1, "broker.test", 9092)]
    (topic,) = response.topics
    assert (topic.error_code, topic.name) == (0, "orders")
    assert [(one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes) for one in topic.partitions] == [
        (index, 1, [1], [1]) for index in range(3)
    ]
    if version >= 1:
        assert (response.controller_id, response.brokers[0].rack) == (1, "rack-a")
    if version >= 2:
        assert response.cluster_id == "cluster-a"
    if version >= 10:
        assert topic.topic_id == image.topic_id


def test_all_topics_are_null_or_an_empty_list_in_version_0(rig: Rig) -> None:
    rig.create_topic("a")
    rig.create_topic("b")
    for version in (1, 12):
        assert told(rig.ask(MetadataRequest(topics=None), MetadataResponse, version)) == {"a": 0, "b": 0}
        assert told(ask(rig, version=version)) == {}
    assert told(ask(rig, version=0)) == {"a": 0, "b": 0}


def test_topic_is_found_by_its_id(rig: Rig) -> None:
    image = rig.create_topic()
    assert (found := by_id(rig, image.topic_id)).error_code == 0
    assert found.name == "orders"
    missing = by_id(rig, b"\x07" * 16)
    assert (missing.error_code, missing.name, missing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, b"\x07" * 16)
    assert by_id(rig, bytes(16)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_version_12_are_an_invalid_request(rig: Rig, version: int) -> None:
    image = rig.create_topic()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders", topic_id=image.topic_id)])
    assert told(rig.ask(request, MetadataResponse, version)) == {"orders": ErrorCode.INVALID_REQUEST}


def test_unknown_and_illegal_names_are_told_apart(make_rig: MakeRig) -> None:
    rig = make_rig({"auto.create.topics.enable": "false"})
    assert told(ask(rig, "unknown", "..", "a b", "x" * 250)) == {
        "unknown": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "..": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "x" * 250: ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert rig.topics.state.topics == {}


@pytest.mark.parametrize("version", [0, 3, 4, 12])
def test_unknown_topic_is_made_and_told_when_it_is_there(make_rig: MakeRig, version: int) -> None:
    rig = make_rig({"auto.create.topics.enable": "true", "num.partitions": "2"})
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    answer = rig.send(encode_request(request, version, 1, "test"))
    assert isinstance(answer, Deferred)
    assert not answer.is_complete
    rig.pump.run_until(lambda: answer.is_complete)
    assert len(rig.cache.topics["new"].partitions) == 2
    assert rig.produce(b"")[0] != 0


def test_names_that_can_not_be_made_are_answered_beside_those_that_are(make_rig: MakeRig) -> None:
    rig = make_rig({"auto.create.topics.enable": "true"})
    response = ask(rig, "new", "..", "__consumer_offsets", "new", version=4, allow_auto_topic_creation=True)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("new", 0),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("new", 0),
    ]


def test_reason_that_no_second_try_mends_is_told(make_rig: MakeRig) -> None:
    rig = make_rig({"auto.create.topics.enable": "true"})
    rig.create_topic("a.b")
    assert told(ask(rig, "a_b", allow_auto_topic_creation=True)) == {"a_b": ErrorCode.INVALID_TOPIC_EXCEPTION}
    rig = make_rig({"auto.create.topics.enable": "true", "default.replication.factor": "3"})
    assert told(ask(rig, "new", allow_auto_topic_creation=True)) == {"new": ErrorCode.INVALID_REPLICATION_FACTOR}


def test_client_that_wants_no_topics_made_gets_none(make_rig: MakeRig) -> None:
    rig = make_rig({"auto.create.topics.enable": "true"})
    assert told(ask(rig, "new", allow_auto_topic_creation=False)) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_two_clients_that_ask_for_the_same_new_topic_both_get_it(make_rig: MakeRig) -> None:
    rig = make_rig({"auto.create.topics.enable": "true"})
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    answers = [rig.send(encode_request(request, 12, number, "test")) for number in (1, 2)]
    first, second = answers
    assert isinstance(first, Deferred)
    assert isinstance(second, Deferred)
    rig.pump.run_until(lambda: first.is_complete and second.is_complete)
    assert isinstance(first.answer, bytes)
    assert isinstance(second.answer, bytes)
    assert first.answer[8:] == second.answer[8:]


def test_failing_store_is_retriable_for_the_client(make_rig: MakeRig) -> None:
    rig = make_rig({"auto.create.topics.enable": "true"})
    rig.pump.store.close()
    assert told(ask(rig, "new", allow_auto_topic_creation=True)) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_operations_are_told_only_when_asked_for(rig: Rig) -> None:
    rig.create_topic()
    response = ask(rig, "orders", version=8)
    assert response.cluster_authorized_operations == response.topics[0].topic_authorized_operations == -(2**31)
    response = ask(
        rig,
        "orders",
        version=8,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    # Kafka's numbers of operations: read 3, write 4, create 5, delete 6, alter 7, describe 8, cluster action 9,
    # describe configs 10, alter configs 11, idempotent write 12.
    assert bits(response.topics[0].topic_authorized_operations) == {3, 4, 5, 6, 7, 8, 10, 11}
    assert bits(response.cluster_authorized_operations) == {5, 7, 8, 9, 10, 11, 12}


def bits(number: int) -> set[int]:
    return {bit for bit in range(31) if number >> bit & 1}


def test_partition_without_a_leader_and_with_a_dead_replica(rig: Rig) -> None:
    partitions = {0: PartitionState(-1, 3, (), (1, 9)), 1: PartitionState(1, 4, (1,), (1, 9))}
    rig.cache.put_topic(TopicImage("orders", b"\x01" * 16, {}, partitions))
    found = ask(rig, "orders").topics[0].partitions
    assert [(one.error_code, one.leader_id, one.leader_epoch, one.offline_replicas) for one in found] == [
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, 3, [9]),
        (0, 1, 4, [9]),
    ]


def test_internal_topics_are_marked(rig: Rig) -> None:
    rig.pump.call(rig.topics.create, NewTopic("__consumer_offsets", 1, 1))
    assert ask(rig, "__consumer_offsets").topics[0].is_internal


def test_client_of_another_listener_is_told_no_endpoint_that_it_can_not_reach(rig: Rig) -> None:
    rig.peer = FakePeer("INSIDE")
    assert ask(rig).brokers == []


def test_cache_forgets_a_topic_by_name_and_by_id() -> None:
    cache = MetadataCache("c")
    for name in ("a", "b"):  # from nodes of a Kafka that gave no ids
        cache.put_topic(TopicImage(name, bytes(16), {}, {}))
    cache.put_topic(TopicImage("c", b"\x01" * 16, {}, {}))
    assert cache.name_of(b"\x01" * 16) == "c"
    for name in ("a", "b", "c", "c"):
        cache.remove_topic(name)
    assert cache.topics == {}
    assert cache.name_of(b"\x01" * 16) is None


def test_topic_without_an_id_is_not_found_by_the_empty_id() -> None:
    cache = MetadataCache("c")
    cache.put_topic(TopicImage("a", bytes(16), {}, {}))
    assert cache.name_of(bytes(16)) is None


def test_topic_that_is_put_again_under_another_id_loses_the_old_one() -> None:
    cache = MetadataCache("c")
    cache.put_topic(TopicImage("a", b"\x01" * 16, {}, {}))
    cache.put_topic(TopicImage("a", b"\x02" * 16, {}, {}))
    assert (cache.name_of(b"\x01" * 16), cache.name_of(b"\x02" * 16)) == (None, "a")
