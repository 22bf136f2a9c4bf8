"""Fetch for consumers and followers: encodes requests and decodes responses, versions 0 to 18.

It shares its types with `fetch_codec`, the broker's half. Records of a response are slices of its frame.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.core.types import Buffer
from ottla.protocol.fetch_codec import (
    DURABLE_OFFSET_TAG,
    FLEXIBLE_SINCE,
    TOPIC_IDS_SINCE,
    EpochEndOffset,
    FetchArguments,
    FetchedPartition,
    TopicKey,
)
from ottla.protocol.frames import finish_frame, start_request
from ottla.protocol.node_endpoints import LeaderAndEpoch, NodeEndpoint, read_node_endpoints
from ottla.protocol.primitives import (
    INT32,
    INT64,
    Reader,
    unsigned_varint_bytes,
    write_compact_count,
    write_compact_string,
    write_count,
    write_string,
    write_tagged_fields,
)

_FETCH: Final = 1
_REPLICA_STATE_SINCE: Final = 15

_pack_replica_state: Final = Struct(">iqx").pack
_pack_partition_v0: Final = Struct(">iqi").pack
_pack_partition_v5: Final = Struct(">iqqi").pack
_pack_partition_v9: Final = Struct(">iiqqi").pack
_pack_partition_v12: Final = Struct(">iiqiqix").pack
_DURABLE_OFFSET_HEAD: Final = b"\x01" + unsigned_varint_bytes(DURABLE_OFFSET_TAG) + b"\x08"  # one field of 8 bytes
_RESPONSE_PARTITION_V12: Final = Struct(">ihqqq")


class FetchAnswer(NamedTuple):
    """A decoded response."""

    correlation_id: int
    throttle_ms: int
    error_code: int
    session_id: int
    topics: list[tuple[TopicKey, list[FetchedPartition]]]
    node_endpoints: list[NodeEndpoint]


def encode_fetch_request(version: int, correlation_id: int, client_id: str | None, arguments: FetchArguments) -> bytes:
    """A whole request frame, its size included."""
    out = start_request(_FETCH, version, correlation_id, client_id)
    if version < _REPLICA_STATE_SINCE:
        out += INT32.pack(arguments.replica_id)
    out += INT32.pack(arguments.max_wait_ms)
    out += INT32.pack(arguments.min_bytes)
    if version >= 3:
        out += INT32.pack(arguments.max_bytes)
    if version >= 4:
        out.append(arguments.isolation_level)
    if version >= 7:
        out += INT32.pack(arguments.session_id)
        out += INT32.pack(arguments.session_epoch)
    if version >= FLEXIBLE_SINCE:
        _write_flexible_rest(out, version, arguments)
    else:
        _write_plain_rest(out, version, arguments)
    return finish_frame(out)


def _write_plain_rest(out: bytearray, version: int, arguments: FetchArguments) -> None:
    write_count(out, len(arguments.topics))
    for topic, partitions in arguments.topics:
        assert isinstance(topic, str)
        write_string(out, topic)
        write_count(out, len(partitions))
        for partition, current_leader_epoch, fetch_offset, _, log_start_offset, max_bytes, _ in partitions:
            if version >= 9:
                out += _pack_partition_v9(partition, current_leader_epoch, fetch_offset, log_start_offset, max_bytes)
            elif version >= 5:
                out += _pack_partition_v5(partition, fetch_offset, log_start_offset, max_bytes)
            else:
                out += _pack_partition_v0(partition, fetch_offset, max_bytes)
    if version >= 7:
        write_count(out, len(arguments.forgotten_topics))
        for topic, indexes in arguments.forgotten_topics:
            assert isinstance(topic, str)
            write_string(out, topic)
            write_count(out, len(indexes))
            _write_indexes(out, indexes)
    if version >= 11:
        write_string(out, arguments.rack_id)


def _write_flexible_rest(out: bytearray, version: int, arguments: FetchArguments) -> None:
    write_compact_count(out, len(arguments.topics))
    for topic, partitions in arguments.topics:
        _write_topic_key(out, topic)
        write_compact_count(out, len(partitions))
        for partition in partitions:
            out += _pack_partition_v12(*partition[:-1])
            if partition.durable_offset >= 0:
                out[-1:] = _DURABLE_OFFSET_HEAD
                out += INT64.pack(partition.durable_offset)
        out.append(0)
    write_compact_count(out, len(arguments.forgotten_topics))
    for topic, indexes in arguments.forgotten_topics:
        _write_topic_key(out, topic)
        write_compact_count(out, len(indexes))
        _write_indexes(out, indexes)
        out.append(0)
    write_compact_string(out, arguments.rack_id)
    is_follower = arguments.replica_id != -1 or arguments.replica_epoch != -1
    if version >= _REPLICA_STATE_SINCE and is_follower:
        write_tagged_fields(out, [(1, _pack_replica_state(arguments.replica_id, arguments.replica_epoch))])
    else:
        out.append(0)


def _write_topic_key(out: bytearray, topic: TopicKey) -> None:
    if isinstance(topic, str):
        write_compact_string(out, topic)
    else:
        out += topic


def _write_indexes(out: bytearray, indexes: Sequence[int]) -> None:
    for index in indexes:
        out += INT32.pack(index)


def decode_fetch_response(version: int, frame: Buffer) -> FetchAnswer:
    """Read a response frame, given without its size."""
    reader = Reader(frame)
    correlation_id = reader.int32()
    if version >= FLEXIBLE_SINCE:
        reader.skip_tagged_fields()
    throttle_ms = reader.int32() if version >= 1 else 0
    error_code, session_id = (reader.int16(), reader.int32()) if version >= 7 else (0, 0)
    node_endpoints: list[NodeEndpoint] = []
    if version < FLEXIBLE_SINCE:
        topics = [_read_plain_topic(reader, version) for _ in range(reader.count(6))]
        return FetchAnswer(correlation_id, throttle_ms, error_code, session_id, topics, node_endpoints)
    topics = [_read_flexible_topic(reader, version) for _ in range(reader.compact_count(3))]
    for _ in range(reader.tagged_field_count()):
        tag = reader.unsigned_varint()
        outer_end = reader.enter_tagged_field()
        if tag == 0 and version >= 16:
            node_endpoints = read_node_endpoints(reader)
        else:
            reader.position = reader.end
        reader.leave_tagged_field(outer_end)
    return FetchAnswer(correlation_id, throttle_ms, error_code, session_id, topics, node_endpoints)


def _read_plain_topic(reader: Reader, version: int) -> tuple[TopicKey, list[FetchedPartition]]:
    topic = reader.string()
    partitions = []
    for _ in range(reader.count(18)):
        partition, error_code, high_watermark = reader.int32(), reader.int16(), reader.int64()
        last_stable_offset = reader.int64() if version >= 4 else -1
        log_start_offset = reader.int64() if version >= 5 else -1
        aborted: list[tuple[int, int]] | None = None
        if version >= 4:
            count = reader.nullable_count(16)
            aborted = None if count < 0 else [(reader.int64(), reader.int64()) for _ in range(count)]
        preferred_read_replica = reader.int32() if version >= 11 else -1
        length = reader.int32()
        partitions.append(
            FetchedPartition(
                partition=partition,
                error_code=error_code,
                high_watermark=high_watermark,
                last_stable_offset=last_stable_offset,
                log_start_offset=log_start_offset,
                aborted_transactions=aborted,
                preferred_read_replica=preferred_read_replica,
                records=None if length == -1 else reader.view_of(length),
            )
        )
    return topic, partitions


def _read_flexible_topic(reader: Reader, version: int) -> tuple[TopicKey, list[FetchedPartition]]:
    topic = bytes(reader.view_of(16)) if version >= TOPIC_IDS_SINCE else reader.compact_string()
    partitions = [_read_flexible_partition(reader) for _ in range(reader.compact_count(37))]
    reader.skip_tagged_fields()
    return topic, partitions


def _read_flexible_partition(reader: Reader) -> FetchedPartition:
    partition, error_code, high_watermark, last_stable_offset, log_start_offset = reader.unpack(_RESPONSE_PARTITION_V12)
    count = reader.compact_nullable_count(17)
    aborted: list[tuple[int, int]] | None = None if count < 0 else []
    for _ in range(count):
        aborted = aborted or []
        aborted.append((reader.int64(), reader.int64()))
        reader.skip_tagged_fields()
    preferred_read_replica = reader.int32()
    length = reader.unsigned_varint() - 1
    records = None if length < 0 else reader.view_of(length)
    diverging_epoch = current_leader = None
    for _ in range(reader.tagged_field_count()):
        tag = reader.unsigned_varint()
        outer_end = reader.enter_tagged_field()
        if tag == 0:
            diverging_epoch = EpochEndOffset(reader.int32(), reader.int64())
            reader.skip_tagged_fields()
        elif tag == 1:
            current_leader = LeaderAndEpoch(reader.int32(), reader.int32())
            reader.skip_tagged_fields()
        else:
            reader.position = reader.end
        reader.leave_tagged_field(outer_end)
    return FetchedPartition(
        partition=partition,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=aborted,
        preferred_read_replica=preferred_read_replica,
        records=records,
        diverging_epoch=diverging_epoch,
        current_leader=current_leader,
    )
