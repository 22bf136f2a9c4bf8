"""What the controller and brokers say to each other: read as it was written, and hostile bytes refused."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.cluster import BrokerEndpoint, BrokerInfo, PartitionState, TopicImage
from ottla.core.control import (
    ControlAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    ControlRequest,
    ControlStamp,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    StoppedReplica,
    StopReplicas,
    UpdateMetadata,
)
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import TopicPartition
from ottla.protocol.apis import FLEXIBLE_SINCE, ApiKey, request_class, response_class
from ottla.protocol.codec import decode, decode_response, encode, encode_request, encode_response
from ottla.protocol.control_codec import (
    answer_of,
    message_of,
    request_of,
    response_of,
    shutdown_answer,
    shutdown_message,
    shutdown_of,
    shutdown_response,
)
from ottla.protocol.control_messages import LeaderAndIsrResponse, PartitionError
from ottla.protocol.frames import parse_request_header

CONTROL_KEYS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)

ids = st.integers(-1, 2**31 - 1)
epochs = st.integers(-1, 2**63 - 1)
names = st.text(max_size=20)
brokers = st.lists(ids, max_size=4).map(tuple)
states = st.builds(PartitionState, ids, ids, brokers, brokers, ids, st.none() | brokers, st.just(()))
configs = st.dictionaries(names, names, max_size=3)
topic_ids = st.binary(min_size=16, max_size=16)
stamps = st.builds(ControlStamp, ids, ids, epochs, st.integers(0, 2**63 - 1))
topic_partitions = st.builds(TopicPartition, names, ids)
error_codes = st.sampled_from(ErrorCode)

leader_and_isrs = st.builds(
    LeaderAndIsr,
    stamps,
    st.lists(
        st.builds(
            LeaderAndIsrTopic,
            names,
            topic_ids,
            configs,
            st.lists(st.builds(LeaderAndIsrPartition, ids, states, st.booleans()), max_size=3).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    st.booleans(),
)
stops = st.builds(
    StopReplicas,
    stamps,
    st.lists(st.builds(StoppedReplica, topic_partitions, ids, st.booleans()), max_size=3).map(tuple),
)
endpoints = st.lists(st.builds(BrokerEndpoint, names, names, ids), max_size=2).map(tuple)
updates = st.builds(
    UpdateMetadata,
    stamps,
    st.lists(st.builds(BrokerInfo, ids, endpoints, st.none() | names, epochs), max_size=3).map(tuple),
    st.lists(
        st.builds(TopicImage, names, topic_ids, configs, st.dictionaries(ids, states, max_size=3)), max_size=3
    ).map(tuple),
    st.lists(names, max_size=3).map(tuple),
    st.booleans(),
)
requests = st.one_of(leader_and_isrs, stops, updates)


@given(requests)
def test_request_of_the_controller_is_read_as_it_was_written(request: ControlRequest) -> None:
    message = message_of(request)
    frame = memoryview(encode_request(message, 0, 7, "broker-1"))[4:]
    header = parse_request_header(frame)
    assert header[:4] == (message.API_KEY, 0, 7, "broker-1")
    assert request_of(decode(type(message), 0, frame[header.body_position :])) == request


@given(st.builds(ControlAnswer, error_codes, st.dictionaries(topic_partitions, error_codes, max_size=4)))
def test_answer_of_a_broker_is_read_as_it_was_written(answer: ControlAnswer) -> None:
    for api_key in (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA):
        message = response_of(api_key, answer)
        correlation_id, read = decode_response(type(message), 0, encode_response(message, 0, 9)[4:])
        assert correlation_id == 9
        assert api_key == read.API_KEY
        assert answer_of(read) == answer


@given(ids, epochs, error_codes, st.lists(topic_partitions, max_size=4).map(tuple))
def test_controlled_shutdown_is_read_as_it_was_written(
    broker_id: int, epoch: int, error_code: ErrorCode, remaining: tuple[TopicPartition, ...]
) -> None:
    request = ControlledShutdown(broker_id, epoch)
    message = shutdown_message(request)
    assert shutdown_of(decode(type(message), 0, encode(message, 0))) == request
    answer = ControlledShutdownAnswer(error_code, remaining)
    response = shutdown_response(answer)
    assert shutdown_answer(decode(type(response), 0, encode(response, 0))) == answer


def test_their_classes_are_found_by_key_and_flexible() -> None:
    for key in CONTROL_KEYS:
        for message_class in (request_class(key), response_class(key)):
            assert key == message_class.API_KEY
            assert message_class.VERSIONS == (0, 0)
            assert message_class.FLEXIBLE_SINCE == FLEXIBLE_SINCE[key] == 0


def test_error_code_that_kafka_does_not_have_is_a_violation() -> None:
    for response in (
        LeaderAndIsrResponse(error_code=999),
        LeaderAndIsrResponse(partitions=[PartitionError(error_code=999)]),
    ):
        with pytest.raises(ProtocolViolation, match="999"):
            answer_of(response)


@given(requests, st.integers(0, 2**32))
def test_mutated_request_is_read_or_refused_and_nothing_else(request: ControlRequest, seed: int) -> None:
    rng = random.Random(seed)
    message = message_of(request)
    body = bytearray(encode(message, 0))
    for _ in range(rng.randrange(1, 4)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    if rng.random() < 0.3:
        del body[rng.randrange(len(body)) :]
    try:
        request_of(decode(type(message), 0, bytes(body)))
    except ProtocolViolation:
        pass


@given(st.sampled_from(CONTROL_KEYS), st.binary(max_size=80))
def test_garbage_is_read_or_refused_and_nothing_else(key: ApiKey, body: bytes) -> None:
    for message_class in (request_class(key), response_class(key)):
        try:
            decode(message_class, 0, body)
        except ProtocolViolation:
            pass


@given(requests)
def test_every_truncation_is_refused(request: ControlRequest) -> None:
    message = message_of(request)
    body = encode(message, 0)
    for size in range(len(body)):
        with pytest.raises(ProtocolViolation):
            decode(type(message), 0, body[:size])
