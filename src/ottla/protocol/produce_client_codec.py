"""Produce for clients: encodes requests and decodes responses, versions 0 to 13.

It shares its types with `produce_codec`, the broker's half.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.core.types import Buffer
from ottla.protocol.frames import start_request
from ottla.protocol.node_endpoints import LeaderAndEpoch, NodeEndpoint, read_node_endpoints
from ottla.protocol.primitives import (
    INT32,
    Reader,
    unsigned_varint_bytes,
    write_compact_count,
    write_compact_nullable_string,
    write_count,
    write_nullable_string,
    write_string,
)
from ottla.protocol.produce_codec import (
    FLEXIBLE_SINCE,
    PARTITION_V5,
    TOPIC_IDS_SINCE,
    ProducedPartition,
    TopicKey,
    write_topic_key,
)

_PRODUCE: Final = 0

# Records below this size are copied into the frame of a request; larger ones become a part of their own.
_JOIN_BELOW_BYTES: Final = 16 * 1024

_pack_acks: Final = Struct(">hi").pack


class ProduceAnswer(NamedTuple):
    """A decoded response."""

    correlation_id: int
    throttle_ms: int
    topics: list[tuple[TopicKey, list[ProducedPartition]]]
    node_endpoints: list[NodeEndpoint]


def encode_produce_request(
    version: int,
    correlation_id: int,
    client_id: str | None,
    *,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[TopicKey, Sequence[tuple[int, Buffer | None]]]],
) -> list[Buffer]:
    """A whole request frame in parts, its size included; large record batches are not copied."""
    is_flexible = version >= FLEXIBLE_SINCE
    out = head = start_request(_PRODUCE, version, correlation_id, client_id)
    parts: list[Buffer] = [head]
    count = write_compact_count if is_flexible else write_count
    if version >= 3:
        (write_compact_nullable_string if is_flexible else write_nullable_string)(out, transactional_id)
    out += _pack_acks(acks, timeout_ms)
    count(out, len(topics))
    for topic, partitions in topics:
        if is_flexible:
            write_topic_key(out, topic)
        else:
            assert isinstance(topic, str)
            write_string(out, topic)
        count(out, len(partitions))
        for partition, records in partitions:
            out += INT32.pack(partition)
            size = -1 if records is None else len(records)
            out += unsigned_varint_bytes(size + 1) if is_flexible else INT32.pack(size)
            if records is not None and size < _JOIN_BELOW_BYTES:
                out += records
            elif records is not None:
                out = bytearray()
                parts += (records, out)
            if is_flexible:
                out.append(0)
        if is_flexible:
            out.append(0)
    if is_flexible:
        out.append(0)
    INT32.pack_into(head, 0, sum(map(len, parts)) - 4)
    return parts if out else parts[:-1]


def decode_produce_response(version: int, frame: Buffer) -> ProduceAnswer:
    """Read a response frame, given without its size."""
    reader = Reader(frame)
    correlation_id = reader.int32()
    if version < FLEXIBLE_SINCE:
        topics = [_read_plain_topic(reader, version) for _ in range(reader.count(6))]
        return ProduceAnswer(correlation_id, reader.int32() if version >= 1 else 0, topics, [])
    reader.skip_tagged_fields()
    topics = [_read_flexible_topic(reader, version) for _ in range(reader.compact_count(3))]
    throttle_ms = reader.int32()
    node_endpoints: list[NodeEndpoint] = []
    for _ in range(reader.tagged_field_count()):
        tag = reader.unsigned_varint()
        outer_end = reader.enter_tagged_field()
        if tag == 0 and version >= 10:
            node_endpoints = read_node_endpoints(reader)
        else:
            reader.position = reader.end
        reader.leave_tagged_field(outer_end)
    return ProduceAnswer(correlation_id, throttle_ms, topics, node_endpoints)


def _read_plain_topic(reader: Reader, version: int) -> tuple[TopicKey, list[ProducedPartition]]:
    topic = reader.string()
    partitions = []
    for _ in range(reader.count(14)):
        partition, error_code, base_offset = reader.int32(), reader.int16(), reader.int64()
        append_time_ms = reader.int64() if version >= 2 else -1
        start = reader.int64() if version >= 5 else -1
        errors: list[tuple[int, str | None]] = []
        message = None
        if version >= 8:
            errors = [(reader.int32(), reader.nullable_string()) for _ in range(reader.count(6))]
            message = reader.nullable_string()
        partitions.append(ProducedPartition(partition, error_code, base_offset, append_time_ms, start, errors, message))
    return topic, partitions


def _read_flexible_topic(reader: Reader, version: int) -> tuple[TopicKey, list[ProducedPartition]]:
    topic = bytes(reader.view_of(16)) if version >= TOPIC_IDS_SINCE else reader.compact_string()
    partitions = []
    for _ in range(reader.compact_count(33)):
        partition, error_code, base_offset, append_time_ms, start = reader.unpack(PARTITION_V5)
        errors: list[tuple[int, str | None]] = []
        for _ in range(reader.compact_count(6)):
            errors.append((reader.int32(), reader.compact_nullable_string()))
            reader.skip_tagged_fields()
        message = reader.compact_nullable_string()
        leader = None
        for _ in range(reader.tagged_field_count()):
            tag = reader.unsigned_varint()
            outer_end = reader.enter_tagged_field()
            if tag == 0 and version >= 10:
                leader = LeaderAndEpoch(reader.int32(), reader.int32())
                reader.skip_tagged_fields()
            else:
                reader.position = reader.end
            reader.leave_tagged_field(outer_end)
        partitions.append(
            ProducedPartition(partition, error_code, base_offset, append_time_ms, start, errors, message, leader)
        )
    reader.skip_tagged_fields()
    return topic, partitions
