"""The hand-packed Produce codec: kio judges versions 3 to 13 and aiokafka the older ones, byte by byte."""

import pytest
from aiokafka.protocol import produce as aiokafka_produce
from kio.static.constants import EntityType

from ottla.core.errors import ProtocolViolation
from ottla.protocol.codec import decode
from ottla.protocol.frames import parse_request_header, start_request, start_response
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.protocol.node_endpoints import LeaderAndEpoch, NodeEndpoint
from ottla.protocol.produce_client_codec import ProduceAnswer, decode_produce_response, encode_produce_request
from ottla.protocol.produce_codec import (
    ProduceArguments,
    ProducedPartition,
    decode_produce_request,
    encode_produce_response,
)

from . import foreign

VERSIONS = range(3, 14)
PRODUCE = 0


def framed(head: bytearray, body: bytes) -> bytes:
    return (len(head) - 4 + len(body)).to_bytes(4, "big") + bytes(head[4:]) + body


def request_arguments(message: ProduceRequest, version: int) -> ProduceArguments:
    topics = [
        (
            topic.topic_id if version >= 13 else topic.name,
            [(partition.index, partition.records) for partition in topic.partition_data],
        )
        for topic in message.topic_data
    ]
    return ProduceArguments(message.transactional_id, message.acks, message.timeout_ms, topics)


def response_topics(message: ProduceResponse, version: int) -> list[tuple[str | bytes, list[ProducedPartition]]]:
    def produced(partition):
        leader = (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
        return ProducedPartition(
            partition.index,
            partition.error_code,
            partition.base_offset,
            partition.log_append_time_ms,
            partition.log_start_offset,
            [(error.batch_index, error.batch_index_error_message) for error in partition.record_errors],
            partition.error_message,
            None if leader == (-1, -1) else LeaderAndEpoch(*leader),
        )

    return [
        (
            topic.topic_id if version >= 13 else topic.name,
            [produced(partition) for partition in topic.partition_responses],
        )
        for topic in message.responses
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_read_and_written_as_kio_has_them(version):
    for entity in foreign.samples(foreign.kio_class("produce", version, EntityType.request), 40):
        body = foreign.encode(entity)
        arguments = request_arguments(decode(ProduceRequest, version, body), version)
        frame = framed(start_request(PRODUCE, version, 5, "me"), body)

        parts = encode_produce_request(
            version,
            5,
            "me",
            transactional_id=arguments.transactional_id,
            acks=arguments.acks,
            timeout_ms=arguments.timeout_ms,
            topics=arguments.topics,
        )
        assert b"".join(parts) == frame

        view = memoryview(bytearray(frame))[4:]
        assert decode_produce_request(view, parse_request_header(view).body_position, version) == arguments


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_are_read_and_written_as_kio_has_them(version):
    for entity in foreign.samples(foreign.kio_class("produce", version, EntityType.response), 60):
        body = foreign.encode(entity)
        message = decode(ProduceResponse, version, body)
        topics = response_topics(message, version)
        endpoints = [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints]
        frame = framed(start_response(PRODUCE, version, -7), body)

        assert encode_produce_response(version, -7, topics, message.throttle_time_ms, endpoints) == frame
        assert decode_produce_response(version, frame[4:]) == ProduceAnswer(
            -7, message.throttle_time_ms, topics, endpoints
        )


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("name_length", [1, 126, 127, 249])
def test_single_partition_response_is_the_same_as_one_among_many(version, name_length):
    topic = b"t" * 16 if version >= 13 else "t" * name_length
    partition = ProducedPartition(3, 0, 1 << 40, 1 << 41 if version >= 2 else -1, 7 if version >= 5 else -1, [])
    frame = encode_produce_response(version, 9, [(topic, [partition])], 11)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    throttle_ms = 11 if version >= 1 else 0
    assert decode_produce_response(version, frame[4:]) == ProduceAnswer(9, throttle_ms, [(topic, [partition])], [])
    two = encode_produce_response(version, 9, [(topic, [partition]), (topic, [partition])], 11)
    assert len(two) > len(frame)
    assert decode_produce_response(version, two[4:]).topics == [(topic, [partition])] * 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_are_read_and_written_as_aiokafka_has_them(version):
    request = getattr(aiokafka_produce, f"ProduceRequest_v{version}")(
        required_acks=-1, timeout=30_000, topics=[("a", [(0, b"one"), (1, b"")]), ("bb", [(7, b"x" * 300)])]
    )
    frame = memoryview(bytearray(request.encode()))
    assert decode_produce_request(frame, 0, version) == ProduceArguments(
        None, -1, 30_000, [("a", [(0, b"one"), (1, b"")]), ("bb", [(7, b"x" * 300)])]
    )
    parts = encode_produce_request(
        version,
        1,
        None,
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topics=[("a", [(0, b"one"), (1, b"")]), ("bb", [(7, b"x" * 300)])],
    )
    assert b"".join(parts)[14:] == bytes(frame)

    answer = encode_produce_response(version, 1, [("a", [ProducedPartition(0, 3, 44, 55)])], 66)
    read = getattr(aiokafka_produce, f"ProduceResponse_v{version}").decode(answer[8:])
    assert read.topics == [("a", [(0, 3, 44, 55)[: 4 if version == 2 else 3]])]
    assert version == 0 or read.throttle_time_ms == 66


def test_records_are_writable_slices_of_the_frame():
    parts = encode_produce_request(
        9, 1, "c", transactional_id=None, acks=1, timeout_ms=5, topics=[("t", [(0, b"records")])]
    )
    frame = bytearray(b"".join(parts))
    view = memoryview(frame)[4:]
    arguments = decode_produce_request(view, parse_request_header(view).body_position, 9)
    records = arguments.topics[0][1][0][1]
    records[0:1] = b"R"
    assert b"Records" in frame


def test_large_records_of_a_request_are_not_copied():
    records = bytes(1 << 20)
    for version in (8, 9):
        parts = encode_produce_request(
            version, 1, "c", transactional_id=None, acks=1, timeout_ms=5, topics=[("t", [(0, records)])]
        )
        assert parts[1] is records
        assert all(len(part) for part in parts)


@pytest.mark.parametrize("version", range(14))
def test_every_truncation_of_a_request_is_refused(version):
    topic = b"i" * 16 if version >= 13 else "topic"
    parts = encode_produce_request(
        version,
        1,
        "c",
        transactional_id="x" if version >= 3 else None,
        acks=1,
        timeout_ms=5,
        topics=[(topic, [(0, b"abc"), (1, None)])],
    )
    view = memoryview(bytearray(b"".join(parts)))[4:]
    position = parse_request_header(view).body_position
    last = len(view) - (1 if version >= 9 else 0)  # what ends a flexible request is never looked at
    for end in range(position, last):
        with pytest.raises(ProtocolViolation):
            decode_produce_request(view[:end], position, version)
