"""Control requests as frames: taken on the inter-broker listener, unknown on every other."""

import pytest

from ottla.broker.handlers.controlled_shutdown import ControlledShutdownHandler
from ottla.core.control import ControlAnswer, ControlledShutdown, ControlledShutdownAnswer, ControlRequest
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.exchange import Deferred
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.control_codec import answer_of, message_of, shutdown_answer, shutdown_message
from ottla.protocol.control_messages import (
    ControlledShutdownResponse,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.conftest import MakeRig
from tests.broker.control_values import image, leader_and_isr, led_by, stamp, stop, update_metadata
from tests.broker.rig import BROKER_ID, FakePeer, Rig, bytes_of
from tests.storage.log_making import batch

RESPONSES = {4: LeaderAndIsrResponse, 5: StopReplicaResponse, 6: UpdateMetadataResponse}
HERE = led_by(BROKER_ID, isr=(BROKER_ID,))
CONTROL_KEYS = [4, 5, 6, 7]


def send(rig: Rig, request: ControlRequest, peer: FakePeer | None = None) -> ControlAnswer:
    message = message_of(request)
    answer = rig.send(encode_request(message, 0, 7, "controller"), peer)
    assert isinstance(answer, Deferred)
    assert answer.holds
    rig.settle()
    return answer_of(decode_response(RESPONSES[message.API_KEY], 0, bytes_of(answer)[4:])[1])


@pytest.fixture
def rig(rig: Rig) -> Rig:
    """As in a cluster: others may send control requests."""
    rig.core.handlers.serve_brokers()
    return rig


def two_listeners(make_rig: MakeRig) -> Rig:
    rig = make_rig(
        {
            "listeners": "PLAINTEXT://:9092,INTERNAL://:9093",
            "advertised.listeners": "PLAINTEXT://broker.test:9092,INTERNAL://broker.test:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }
    )
    rig.core.handlers.serve_brokers()
    return rig


def test_partition_comes_to_life_and_ends_by_frames(rig: Rig) -> None:
    assert send(rig, leader_and_isr({0: HERE})) == ControlAnswer()
    assert send(rig, update_metadata(image({0: HERE}))) == ControlAnswer()
    assert rig.produce(batch(b"a")) == (0, 0)
    assert "orders" in rig.cache.topics
    assert send(rig, update_metadata(deleted=("orders",))) == ControlAnswer()
    assert send(rig, stop(0, deletes=True)) == ControlAnswer()
    assert not rig.log_manager.partitions()
    assert send(rig, leader_and_isr({0: HERE}, by=stamp(1))) == ControlAnswer(ErrorCode.STALE_CONTROLLER_EPOCH)


def test_errors_of_partitions_are_in_the_answer(rig: Rig) -> None:
    send(rig, leader_and_isr({0: led_by(BROKER_ID, 4)}))
    answer = send(rig, leader_and_isr({0: led_by(BROKER_ID, 3), 1: HERE}))
    assert answer.partitions == {TopicPartition("orders", 0): ErrorCode.STALE_CONTROLLER_EPOCH}


def test_broker_alone_takes_no_control_request(make_rig: MakeRig) -> None:
    rig = make_rig()
    for request in (leader_and_isr({0: HERE}), stop(0, deletes=True), update_metadata()):
        with pytest.raises(ProtocolViolation, match="not served"):
            rig.send(encode_request(message_of(request), 0, 7, "x"))
    frame = encode_request(ApiVersionsRequest(), 0, 7, "x")
    _, response = decode_response(ApiVersionsResponse, 0, bytes_of(rig.send(frame))[4:])
    assert not any(entry.api_key in CONTROL_KEYS for entry in response.api_keys)


def test_on_other_listeners_control_requests_are_unknown(make_rig: MakeRig) -> None:
    rig = two_listeners(make_rig)
    for request in (leader_and_isr({0: HERE}), stop(0, deletes=True), update_metadata()):
        with pytest.raises(ProtocolViolation, match="not served"):
            rig.send(encode_request(message_of(request), 0, 7, "x"), FakePeer("PLAINTEXT"))
    with pytest.raises(ProtocolViolation, match="not served"):
        rig.send(encode_request(shutdown_message(ControlledShutdown(2, 1)), 0, 7, "x"), FakePeer("PLAINTEXT"))
    assert send(rig, leader_and_isr({0: HERE}), FakePeer("INTERNAL")) == ControlAnswer()


def test_only_the_inter_broker_listener_advertises_them(make_rig: MakeRig) -> None:
    rig = two_listeners(make_rig)
    advertised = {}
    for listener in ("PLAINTEXT", "INTERNAL"):
        frame = encode_request(ApiVersionsRequest(), 0, 7, "x")
        _, response = decode_response(ApiVersionsResponse, 0, bytes_of(rig.send(frame, FakePeer(listener)))[4:])
        advertised[listener] = [entry.api_key for entry in response.api_keys]
    assert not any(key in advertised["PLAINTEXT"] for key in CONTROL_KEYS)
    assert all(key in advertised["INTERNAL"] for key in CONTROL_KEYS)
    assert advertised["INTERNAL"] == sorted(advertised["INTERNAL"])


def test_garbage_is_a_violation(rig: Rig) -> None:
    frame = bytearray(encode_request(message_of(leader_and_isr({0: HERE})), 0, 7, "x"))
    with pytest.raises(ProtocolViolation):
        rig.send(frame[:-5])
    assert not rig.replicas.partitions


def test_controlled_shutdown_is_for_the_controller(rig: Rig) -> None:
    frame = encode_request(shutdown_message(ControlledShutdown(2, 1)), 0, 7, "x")
    _, response = decode_response(ControlledShutdownResponse, 0, bytes_of(rig.send(frame))[4:])
    assert shutdown_answer(response) == ControlledShutdownAnswer(ErrorCode.NOT_CONTROLLER)


def test_controlled_shutdown_is_answered_with_what_is_left(rig: Rig) -> None:
    left = ControlledShutdownAnswer(ErrorCode.NONE, (TopicPartition("orders", 3),))
    asked: list[ControlledShutdown] = []

    def begin(request: ControlledShutdown, on_done) -> None:  # type: ignore[no-untyped-def]
        asked.append(request)
        on_done(left)

    rig.dispatcher._handlers[ApiKey.CONTROLLED_SHUTDOWN] = ControlledShutdownHandler(begin, lambda: True).handle
    frame = encode_request(shutdown_message(ControlledShutdown(2, 1)), 0, 7, "x")
    _, response = decode_response(ControlledShutdownResponse, 0, bytes_of(rig.send(frame))[4:])
    assert shutdown_answer(response) == left
    assert asked == [ControlledShutdown(2, 1)]
