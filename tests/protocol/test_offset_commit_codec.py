"""The fast reading of OffsetCommit says what the general codec says, or nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ProtocolViolation
from ottla.protocol.codec import decode, encode_request, encode_response
from ottla.protocol.frames import parse_request_header
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.offset_commit_codec import (
    FIRST_VERSION,
    LAST_VERSION,
    SINGLE_ENDS,
    SINGLE_TAIL_BYTES,
    CommitTopics,
    end_of_head,
    end_of_single,
    pack_response,
    read_topics,
    unpack_single_offset,
)

_int32 = st.integers(-(2**31), 2**31 - 1)
_names = st.one_of(st.text(max_size=20), st.text(min_size=120, max_size=135))
_partitions = st.builds(
    OffsetCommitRequestPartition,
    partition_index=_int32,
    committed_offset=st.integers(-(2**63), 2**63 - 1),
    committed_leader_epoch=_int32,
    committed_metadata=st.none() | _names,
)
_topics = st.builds(OffsetCommitRequestTopic, name=_names, partitions=st.lists(_partitions, max_size=4))
_requests = st.builds(
    OffsetCommitRequest,
    group_id=_names,
    generation_id_or_member_epoch=_int32,
    member_id=_names,
    group_instance_id=st.none() | _names,
    topics=st.lists(_topics, max_size=3),
)
_versions = st.integers(FIRST_VERSION, LAST_VERSION)


def frame_of(request: OffsetCommitRequest, version: int, client_id: str | None) -> memoryview:
    return memoryview(encode_request(request, version, 7, client_id))[4:]


def topics_of(request: OffsetCommitRequest) -> CommitTopics:
    return [
        (
            topic.name,
            [
                (
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def is_short(*texts: str | None) -> bool:
    return all(len((text or "").encode()) < 127 for text in texts)


@settings(deadline=None, max_examples=150)
@given(_requests, _versions, st.none() | st.text(max_size=10))
def test_requests_of_the_usual_shape_are_read_whole(
    request: OffsetCommitRequest, version: int, client_id: str | None
) -> None:
    frame = frame_of(request, version, client_id)
    head_end = end_of_head(frame)
    assert (head_end > 0) == is_short(request.group_id, request.member_id, request.group_instance_id)
    if head_end:
        without_topics = OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
        )
        assert head_end == len(frame_of(without_topics, version, client_id)) - 2
        is_usual = all(
            is_short(topic.name, *(partition.committed_metadata for partition in topic.partitions))
            for topic in request.topics
        )
        assert read_topics(frame, head_end) == (topics_of(request) if is_usual else None)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(_requests, _versions, st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4), st.data())
def test_damaged_requests_are_read_as_the_codec_reads_them_or_not_at_all(
    request: OffsetCommitRequest, version: int, flips: list[tuple[int, int]], data: st.DataObject
) -> None:
    damaged = bytearray(frame_of(request, version, "client"))
    for position, value in flips:
        damaged[8 + position % (len(damaged) - 8)] = value
    frame = memoryview(damaged)[: data.draw(st.integers(10, len(damaged)))]
    head_end = end_of_head(frame)
    topics = read_topics(frame, head_end) if head_end else None
    if topics is None:
        return
    try:
        decoded = decode(OffsetCommitRequest, version, frame[parse_request_header(frame).body_position :])
    except ProtocolViolation:
        # Damage in the head. Such bytes are never remembered, so nobody asks for what comes after them.
        assert decode_fails_before(frame, head_end, version)
    else:
        assert topics == topics_of(decoded)


def decode_fails_before(frame: memoryview, head_end: int, version: int) -> bool:
    """With no topics behind it, the head alone can't be read either."""
    try:
        body = bytes(frame[:head_end]) + b"\x01\x00"
        decode(OffsetCommitRequest, version, body[parse_request_header(memoryview(body)).body_position :])
    except ProtocolViolation:
        return True
    return False


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(st.text(max_size=30), st.lists(st.tuples(_int32, st.integers(-1, 133)), max_size=5)), max_size=4
    ),
    _versions,
    _int32,
)
def test_answers_are_packed_as_the_codec_packs_them(
    results: list[tuple[str, list[tuple[int, int]]]], version: int, correlation_id: int
) -> None:
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=error_code)
                    for index, error_code in partitions
                ],
            )
            for name, partitions in results
        ]
    )
    assert pack_response(correlation_id, results) == encode_response(response, version, correlation_id)


@settings(deadline=None, max_examples=100)
@given(_requests, _versions, st.none() | st.text(max_size=10))
def test_offset_of_a_single_partition_is_found_from_both_ends(
    request: OffsetCommitRequest, version: int, client_id: str | None
) -> None:
    del request.topics[1:]
    for topic in request.topics:
        del topic.partitions[1:]
        for partition in topic.partitions:
            partition.committed_metadata = None if version == FIRST_VERSION else ""
    frame = frame_of(request, version, client_id)
    head_end = end_of_head(frame)
    if not head_end or not request.topics or not request.topics[0].partitions or not is_short(request.topics[0].name):
        return
    assert bytes(frame).endswith(SINGLE_ENDS)
    assert len(frame) == end_of_single(head_end, request.topics[0].name)
    partition = request.topics[0].partitions[0]
    offset_at = len(frame) - SINGLE_TAIL_BYTES
    assert unpack_single_offset(frame, offset_at) == (partition.committed_offset, partition.committed_leader_epoch)


def test_commits_with_metadata_are_longer_than_those_of_the_single_shape() -> None:
    partition = OffsetCommitRequestPartition(committed_metadata="note")
    request = OffsetCommitRequest(topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])])
    frame = frame_of(request, 8, None)
    assert not bytes(frame).endswith(SINGLE_ENDS)
    assert len(frame) > end_of_single(end_of_head(frame), "orders")
