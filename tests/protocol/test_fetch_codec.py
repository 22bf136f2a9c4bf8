"""The hand-packed Fetch codec: kio judges versions 4 to 18 and aiokafka the older ones, byte by byte."""

import pytest
from aiokafka.protocol import fetch as aiokafka_fetch
from kio.static.constants import EntityType

from ottla.core.disk import FileSlice
from ottla.core.errors import ProtocolViolation
from ottla.protocol.codec import decode, encode
from ottla.protocol.fetch_client_codec import FetchAnswer, decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import (
    JOIN_BELOW_BYTES,
    EpochEndOffset,
    FetchArguments,
    FetchedPartition,
    FetchPartition,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.protocol.frames import parse_request_header, start_request, start_response
from ottla.protocol.messages import fetch
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.node_endpoints import LeaderAndEpoch, NodeEndpoint

from . import foreign

VERSIONS = range(4, 19)
FETCH = 1


class BytesFile:
    """A file of the disk port whose contents are here."""

    fd = -1

    def __init__(self, contents: bytes) -> None:
        self.contents = contents

    def pread(self, length: int, position: int) -> bytes:
        return self.contents[position : position + length]


def framed(head: bytearray, body: bytes) -> bytes:
    return (len(head) - 4 + len(body)).to_bytes(4, "big") + bytes(head[4:]) + body


def sent(parts) -> bytes:
    return b"".join(
        part.file.pread(part.length, part.position) if isinstance(part, FileSlice) else part for part in parts
    )


def request_arguments(message: FetchRequest, version: int) -> FetchArguments:
    def key(topic):
        return topic.topic_id if version >= 13 else topic.topic

    return FetchArguments(
        replica_id=message.replica_state.replica_id if version >= 15 else message.replica_id,
        replica_epoch=message.replica_state.replica_epoch,
        max_wait_ms=message.max_wait_ms,
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        isolation_level=message.isolation_level,
        session_id=message.session_id,
        session_epoch=message.session_epoch,
        topics=[
            (
                key(topic),
                [
                    FetchPartition(
                        one.partition,
                        one.current_leader_epoch,
                        one.fetch_offset,
                        one.last_fetched_epoch,
                        one.log_start_offset,
                        one.partition_max_bytes,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in message.topics
        ],
        forgotten_topics=[(key(topic), topic.partitions) for topic in message.forgotten_topics_data],
        rack_id=message.rack_id,
    )


def without_unused_tags(message: FetchRequest) -> FetchRequest:
    """Tagged fields that only KRaft has a use for are skipped by us, so they can't come back."""
    message.cluster_id = None
    for topic in message.topics:
        for partition in topic.partitions:
            fresh = fetch.FetchPartition()
            partition.replica_directory_id = fresh.replica_directory_id
            partition.high_watermark = fresh.high_watermark
    return message


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_read_and_written_as_kio_has_them(version):
    for entity in foreign.samples(foreign.kio_class("fetch", version, EntityType.request), 40):
        body = foreign.encode(entity)
        message = decode(FetchRequest, version, body)
        message.isolation_level &= 0x7F
        arguments = request_arguments(message, version)
        view = memoryview(framed(start_request(FETCH, version, 5, "me"), encode(message, version)))[4:]
        assert decode_fetch_request(view, parse_request_header(view).body_position, version) == arguments

        plain = encode(without_unused_tags(message), version)
        frame = framed(start_request(FETCH, version, 5, "me"), plain)
        assert encode_fetch_request(version, 5, "me", arguments) == frame


def response_answer(message: FetchResponse, version: int, correlation_id: int) -> FetchAnswer:
    def fetched(one):
        diverging = (one.diverging_epoch.epoch, one.diverging_epoch.end_offset)
        leader = (one.current_leader.leader_id, one.current_leader.leader_epoch)
        aborted = one.aborted_transactions
        return FetchedPartition(
            partition=one.partition_index,
            error_code=one.error_code,
            high_watermark=one.high_watermark,
            last_stable_offset=one.last_stable_offset,
            log_start_offset=one.log_start_offset,
            aborted_transactions=None if aborted is None else [(it.producer_id, it.first_offset) for it in aborted],
            preferred_read_replica=one.preferred_read_replica,
            records=one.records,
            diverging_epoch=None if diverging == (-1, -1) else EpochEndOffset(*diverging),
            current_leader=None if leader == (-1, -1) else LeaderAndEpoch(*leader),
        )

    topics = [
        (topic.topic_id if version >= 13 else topic.topic, [fetched(one) for one in topic.partitions])
        for topic in message.responses
    ]
    endpoints = [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints]
    return FetchAnswer(
        correlation_id, message.throttle_time_ms, message.error_code, message.session_id, topics, endpoints
    )


def encode_answer(version: int, answer: FetchAnswer):
    return encode_fetch_response(
        version,
        answer.correlation_id,
        answer.throttle_ms,
        answer.error_code,
        answer.session_id,
        answer.topics,
        answer.node_endpoints,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_are_read_and_written_as_kio_has_them(version):
    for entity in foreign.samples(foreign.kio_class("fetch", version, EntityType.response), 40):
        message = decode(FetchResponse, version, foreign.encode(entity))
        for topic in message.responses:
            for partition in topic.partitions:
                partition.snapshot_id = fetch.SnapshotId()  # KRaft's own, left out by us
        frame = framed(start_response(FETCH, version, -7), encode(message, version))
        answer = response_answer(message, version, -7)
        parts = encode_answer(version, answer)
        assert sent(parts) == frame
        assert len(parts) == 1
        assert decode_fetch_response(version, frame[4:]) == answer


@pytest.mark.parametrize("version", VERSIONS)
def test_response_from_files_has_the_same_bytes_as_one_from_memory(version):
    file = BytesFile(bytes(range(256)) * 4)
    slices = [FileSlice(file, 10, 300), FileSlice(file, 0, 0), FileSlice(file, 5, 1)]
    topic = b"i" * 16 if version >= 13 else "topic"
    in_memory = sent(slices)

    def answer(first, second):
        partitions = [
            FetchedPartition(0, 0, 100, records=first),
            FetchedPartition(1, 1, 5, records=b""),
            FetchedPartition(2, 0, 100, aborted_transactions=[(1, 2)] * 200, records=second),
        ]
        return encode_fetch_response(version, 1, 0, 0, 9, [(topic, partitions), (topic, partitions)])

    whole = b"".join(answer(in_memory[:300], in_memory))
    parts = answer(slices[0], slices)
    assert sent(parts) == whole
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert not any(isinstance(part, FileSlice) and part.length == 0 for part in parts)


def test_single_partition_response_is_head_slice_and_tail():
    records = FileSlice(BytesFile(b"r" * 1000), 0, 1000)
    for version, tail in ((11, []), (12, [b"\0\0\0"])):
        head, middle, *rest = encode_fetch_response(
            version, 1, 0, 0, 0, [("t", [FetchedPartition(0, 0, 5, records=records)])]
        )
        assert middle is records
        assert rest == tail
        assert int.from_bytes(head[:4], "big") == len(head) - 4 + 1000 + len(b"".join(tail))


@pytest.mark.parametrize("make", [bytes, bytearray, lambda size: memoryview(bytes(size))])
def test_large_records_in_memory_stay_a_part_of_their_own(make):
    records = make(JOIN_BELOW_BYTES)
    parts = encode_fetch_response(12, 1, 0, 0, 0, [("t", [FetchedPartition(0, 0, 5, records=records)])])
    assert parts[1] is records
    assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_versions_are_read_and_written_as_aiokafka_has_them(version):
    topics = [("a", [(0, 55, 1000), (1, 66, 2000)]), ("b", [(5, 0, 1)])]
    settings = {"replica_id": -1, "max_wait_time": 500, "min_bytes": 1, "topics": topics}
    if version == 3:
        settings["max_bytes"] = 4096
    frame = memoryview(getattr(aiokafka_fetch, f"FetchRequest_v{version}")(**settings).encode())
    wanted = [(name, [FetchPartition(at[0], -1, at[1], -1, -1, at[2]) for at in rows]) for name, rows in topics]
    arguments = FetchArguments(-1, -1, 500, 1, 4096 if version == 3 else 0x7FFFFFFF, 0, 0, -1, wanted, [], "")
    assert decode_fetch_request(frame, 0, version) == arguments
    assert encode_fetch_request(version, 1, None, arguments)[14:] == bytes(frame)

    fetched = [("a", [FetchedPartition(0, 1, 99, records=b"records")])]
    answer = sent(encode_fetch_response(version, 1, 77, 0, 0, fetched))
    read = getattr(aiokafka_fetch, f"FetchResponse_v{version}").decode(answer[8:])
    assert read.topics == [("a", [(0, 1, 99, b"records")])]
    assert decode_fetch_response(version, answer[4:]).topics == fetched


@pytest.mark.parametrize("version", range(19))
def test_every_truncation_of_a_request_is_refused(version):
    topic = b"i" * 16 if version >= 13 else "topic"
    wanted = [(topic, [FetchPartition(0, 1, 2, 3, 4, 5)] * 2)]
    arguments = FetchArguments(3, 4, 500, 1, 4096, 1, 6, 7, wanted, [(topic, [1, 2])], "rack")
    view = memoryview(encode_fetch_request(version, 1, "c", arguments))[4:]
    position = parse_request_header(view).body_position
    for end in range(position, len(view)):
        with pytest.raises(ProtocolViolation):
            decode_fetch_request(view[:end], position, version)


@pytest.mark.parametrize("version", range(12, 19))
def test_durable_offset_of_a_follower_is_a_tagged_field_of_its_own(version):
    topic = b"i" * 16 if version >= 13 else "topic"
    said = FetchPartition(0, 1, 200, 3, 4, 5, durable_offset=150)
    wanted = [(topic, [said, FetchPartition(1, 1, 2, 3, 4, 5), said._replace(partition=2, durable_offset=0)])]
    arguments = FetchArguments(3, 4 if version >= 15 else -1, 500, 1, 4096, 0, 6, 7, wanted, [], "")
    view = memoryview(encode_fetch_request(version, 1, "c", arguments))[4:]
    position = parse_request_header(view).body_position
    assert decode_fetch_request(view, position, version) == arguments
    # Who doesn't know the field skips it.
    message = decode(FetchRequest, version, bytes(view[position:]))
    assert [one.fetch_offset for one in message.topics[0].partitions] == [200, 2, 200]
    for end in range(position, len(view)):
        with pytest.raises(ProtocolViolation):
            decode_fetch_request(view[:end], position, version)


def test_durable_offset_does_not_reach_brokers_of_older_versions():
    wanted = [("topic", [FetchPartition(0, 1, 200, -1, 4, 5, durable_offset=150)])]
    arguments = FetchArguments(3, -1, 500, 1, 4096, 0, 6, 7, wanted, [], "")
    view = memoryview(encode_fetch_request(11, 1, "c", arguments))[4:]
    read = decode_fetch_request(view, parse_request_header(view).body_position, 11)
    assert read.topics[0][1][0].durable_offset == -1
