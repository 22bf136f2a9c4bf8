"""The JSON of the nodes is that of Kafka's ZooKeeper era, and what makes no sense is refused with its path."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError, decode_uuid, encode_uuid
from ottla.coordination.store import check_path, parent_of
from ottla.core.types import TopicPartition


def test_broker_registration_is_version_5() -> None:
    broker = paths.BrokerRegistration(
        endpoints=("PLAINTEXT://127.0.0.1:9092",),
        listener_security_protocol_map={"PLAINTEXT": "PLAINTEXT"},
        timestamp_ms=1_700_000_000_000,
        host="127.0.0.1",
        port=9092,
    )
    value = paths.encode_broker(broker)
    assert json.loads(value) == {
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": ["PLAINTEXT://127.0.0.1:9092"],
        "jmx_port": -1,
        "features": {},
        "host": "127.0.0.1",
        "timestamp": "1700000000000",
        "port": 9092,
        "version": 5,
    }
    assert paths.decode_broker("/brokers/ids/1", value) == broker
    racked = broker._replace(rack="r1", host=None, port=-1)
    assert paths.decode_broker("/brokers/ids/1", paths.encode_broker(racked)) == racked


def test_topic_is_version_3_with_its_id_in_base64() -> None:
    topic = paths.TopicAssignment(bytes(range(16)), {0: (1, 2), 1: (2,)}, {0: (3,)}, {1: (2,)})
    value = paths.encode_topic(topic)
    assert value == (
        b'{"version":3,"topic_id":"AAECAwQFBgcICQoLDA0ODw","partitions":{"0":[1,2],"1":[2]},'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"1":[2]}}'
    )
    assert paths.decode_topic("/brokers/topics/t", value) == topic


def test_topic_of_the_first_version_is_read() -> None:
    topic = paths.decode_topic("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}')
    assert topic == paths.TopicAssignment(paths.NO_TOPIC_ID, {0: (1,)})


def test_partition_state() -> None:
    state = paths.PartitionState(leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=3)
    value = paths.encode_partition_state(state)
    assert value == b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}'
    assert paths.decode_partition_state("/p", value) == state


def test_controller_and_its_epoch() -> None:
    controller = paths.ControllerNode(broker_id=1, timestamp_ms=17)
    value = paths.encode_controller(controller)
    assert value == b'{"version":2,"brokerid":1,"timestamp":"17","kraftControllerEpoch":-1}'
    assert paths.decode_controller(paths.CONTROLLER, value) == controller
    assert paths.decode_integer(paths.CONTROLLER_EPOCH, paths.encode_integer(7)) == 7


def test_cluster_id() -> None:
    value = paths.encode_cluster_id("AAECAwQFBgcICQoLDA0ODw")
    assert value == b'{"version":"1","id":"AAECAwQFBgcICQoLDA0ODw"}'
    assert paths.decode_cluster_id(paths.CLUSTER_ID, value) == "AAECAwQFBgcICQoLDA0ODw"


def test_configs_and_their_changes() -> None:
    value = paths.encode_config({"retention.ms": "100"})
    assert value == b'{"version":1,"config":{"retention.ms":"100"}}'
    assert paths.decode_config("/config/topics/t", value) == {"retention.ms": "100"}
    assert paths.decode_config("/config/topics", b"") == {}
    change = paths.encode_config_change("topics/t")
    assert change == b'{"version":2,"entity_path":"topics/t"}'
    assert paths.decode_config_change("/config/changes/config_change_0000000000", change) == "topics/t"


def test_lists_of_partitions() -> None:
    moves = {TopicPartition("t", 0): (1, 2)}
    value = paths.encode_reassignment(moves)
    assert value == b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    assert paths.decode_reassignment(paths.REASSIGN_PARTITIONS, value) == moves
    chosen = (TopicPartition("t", 0), TopicPartition("u", 3))
    value = paths.encode_partition_set(chosen)
    assert value == b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":3}]}'
    assert paths.decode_partition_set(paths.PREFERRED_REPLICA_ELECTION, value) == chosen


def test_producer_id_block_and_log_dir_event() -> None:
    block = paths.ProducerIdBlock(broker_id=1, first_producer_id=0, last_producer_id=999)
    value = paths.encode_producer_id_block(block)
    assert value == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert paths.decode_producer_id_block(paths.PRODUCER_ID_BLOCK, value) == block
    assert paths.decode_log_dir_event("/l", paths.encode_log_dir_event(4)) == 4


def test_persistent_paths_have_their_parents_before_them() -> None:
    made = {"/"}
    for path in paths.PERSISTENT_PATHS:
        check_path(path)
        assert parent_of(path) in made
        made.add(path)


def test_paths_of_named_things() -> None:
    assert paths.broker_path(3) == "/brokers/ids/3"
    assert paths.partition_state_path("t", 4) == "/brokers/topics/t/partitions/4/state"
    assert paths.config_path("brokers", paths.DEFAULT_ENTITY) == "/config/brokers/<default>"
    assert paths.delete_topic_path("t") == "/admin/delete_topics/t"
    assert paths.consumer_offset_path("g", "t", 0) == "/consumers/g/offsets/t/0"
    check_path(paths.config_path("brokers", paths.DEFAULT_ENTITY))


@given(st.binary(min_size=16, max_size=16))
@settings(max_examples=50, deadline=None)
def test_uuid_is_22_characters_and_comes_back(uuid: bytes) -> None:
    text = encode_uuid(uuid)
    assert len(text) == 22
    assert "/" not in text
    assert "+" not in text
    assert decode_uuid("/p", text) == uuid


DECODERS: list[Callable[[str, bytes], Any]] = [
    paths.decode_broker,
    paths.decode_topic,
    paths.decode_partition_state,
    paths.decode_controller,
    paths.decode_integer,
    paths.decode_cluster_id,
    paths.decode_config_change,
    paths.decode_reassignment,
    paths.decode_partition_set,
    paths.decode_log_dir_event,
    paths.decode_producer_id_block,
]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"{}", b"[" * 100_000, b'{"partitions":{"x":[1]}}'],
)
def test_malformed_value_is_refused_with_its_path(decode: Callable[[str, bytes], Any], value: bytes) -> None:
    with pytest.raises(MalformedNodeError, match="node /some/path: ") as caught:
        decode("/some/path", value)
    assert caught.value.path == "/some/path"


@pytest.mark.parametrize(
    ("decode", "value", "problem"),
    [
        (paths.decode_topic, b'{"partitions":{"0":["1"]}}', "'partitions' must be a list of numbers"),
        (paths.decode_topic, b'{"topic_id":"shor","partitions":{}}', "expected 16"),
        (paths.decode_topic, b'{"topic_id":"A","partitions":{}}', "no base64 id"),
        (paths.decode_controller, b'{"brokerid":true,"timestamp":"1"}', "'brokerid' must be a number, got True"),
        (paths.decode_controller, b'{"brokerid":1,"timestamp":"--1"}', "'timestamp' must be a number"),
        (paths.decode_config, b'{"config":{"a":1}}', "'config' must be an object of text"),
    ],
)
def test_field_of_the_wrong_kind_is_named(decode: Callable[[str, bytes], Any], value: bytes, problem: str) -> None:
    with pytest.raises(MalformedNodeError, match=problem):
        decode("/p", value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
field_names = st.sampled_from(
    ["version", "partitions", "topic_id", "leader", "isr", "brokerid", "timestamp", "endpoints", "config", "id", "port"]
)


@pytest.mark.slow
@given(value=st.binary(max_size=40) | st.dictionaries(field_names, json_values).map(lambda v: json.dumps(v).encode()))
@settings(max_examples=200, deadline=None)
def test_no_value_raises_anything_but_malformed_node(value: bytes) -> None:
    for decode in [*DECODERS, paths.decode_config]:
        with suppress(MalformedNodeError):
            decode("/p", value)
