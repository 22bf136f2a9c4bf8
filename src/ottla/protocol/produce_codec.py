"""Produce for brokers, hand-packed: decodes requests and encodes responses, versions 0 to 13.

The records of a request are slices of its frame, not copied. `produce_client_codec` is the other half.
"""

from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, TypeAlias

from ottla.core.errors import ProtocolViolation
from ottla.protocol.frames import finish_frame, start_response
from ottla.protocol.node_endpoints import LeaderAndEpoch, NodeEndpoint, encode_node_endpoints
from ottla.protocol.primitives import (
    INT32,
    MAX_ELEMENTS,
    Reader,
    read_unsigned_varint,
    write_compact_count,
    write_compact_nullable_string,
    write_compact_string,
    write_count,
    write_nullable_string,
    write_string,
    write_tagged_fields,
)

_PRODUCE: Final = 0
FLEXIBLE_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 13

# The name of a topic, or its id of 16 bytes from version 13 on.
TopicKey: TypeAlias = str | bytes
PartitionRecords: TypeAlias = tuple[int, memoryview | None]


class ProduceArguments(NamedTuple):
    """A decoded request. The records are slices of the frame, and writable if it is."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[PartitionRecords]]]


class ProducedPartition(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()  # index in the batch, message
    error_message: str | None = None
    current_leader: LeaderAndEpoch | None = None


ProducedTopics: TypeAlias = Sequence[tuple[TopicKey, Sequence[ProducedPartition]]]


_unpack_acks_and_byte: Final = Struct(">hiB").unpack_from
_unpack_acks_and_count: Final = Struct(">hii").unpack_from
_unpack_int16: Final = Struct(">h").unpack_from
_unpack_int32: Final = INT32.unpack_from
_unpack_partition: Final = Struct(">ii").unpack_from
_new: Final = tuple.__new__


def decode_produce_request(frame: memoryview, position: int, version: int) -> ProduceArguments:
    """Read the body that starts at `position` of a request frame."""
    try:
        if version >= FLEXIBLE_SINCE:
            return _decode_flexible(frame, position, has_topic_ids=version >= TOPIC_IDS_SINCE)
        return _decode_plain(frame, position, has_transactional_id=version >= 3)
    except (struct_error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolViolation(f"ProduceRequest v{version}: {error}") from error


def _decode_plain(frame: memoryview, position: int, *, has_transactional_id: bool) -> ProduceArguments:
    size = len(frame)
    transactional_id = None
    if has_transactional_id:
        (length,) = _unpack_int16(frame, position)
        position += 2
        if length >= 0:
            # If the slice is too short, the next read is past the end and fails.
            transactional_id = str(frame[position : position + length], "utf-8")
            position += length
        elif length != -1:
            raise ProtocolViolation(f"ProduceRequest: transactional id of {length} bytes")
    acks, timeout_ms, topic_count = _unpack_acks_and_count(frame, position)
    position += 10
    elements_left = _proven(topic_count, 6, size - position, MAX_ELEMENTS)
    topics: list[tuple[TopicKey, list[PartitionRecords]]] = []
    for _ in range(topic_count):
        (length,) = _unpack_int16(frame, position)
        position += 2
        end = position + length
        if length < 0 or end > size:
            raise ProtocolViolation(f"ProduceRequest: topic of {length} bytes with {size - position} bytes left")
        topic = str(frame[position:end], "utf-8")
        (partition_count,) = _unpack_int32(frame, end)
        position = end + 4
        elements_left = _proven(partition_count, 8, size - position, elements_left)
        partitions: list[PartitionRecords] = []
        for _ in range(partition_count):
            partition, length = _unpack_partition(frame, position)
            position += 8
            if length >= 0:
                end = position + length
                if end > size:
                    raise ProtocolViolation(f"ProduceRequest: {length} record bytes with {size - position} bytes left")
                partitions.append((partition, frame[position:end]))
                position = end
            else:
                partitions.append((partition, None))
        topics.append((topic, partitions))
    return _new(ProduceArguments, (transactional_id, acks, timeout_ms, topics))


def _decode_flexible(frame: memoryview, position: int, *, has_topic_ids: bool) -> ProduceArguments:
    # Lengths nearly always have one byte, so the code skips the call for longer ones; and an array of one needs no
    # check of its count: its element is read, or the frame ends.
    size = len(frame)
    tags: Reader | None = None
    elements_left = MAX_ELEMENTS
    transactional_id = None
    length, position = read_unsigned_varint(frame, position) if frame[position] else (0, position + 1)
    if length:
        end = position + length - 1
        transactional_id = str(frame[position:end], "utf-8")
        position = end
    acks, timeout_ms, topic_count = _unpack_acks_and_byte(frame, position)
    position += 7
    if topic_count > 127:
        topic_count, position = read_unsigned_varint(frame, position - 1)
    topic_count -= 1
    if topic_count != 1:
        elements_left = _proven(topic_count, 3, size - position, elements_left)
    topics: list[tuple[TopicKey, list[PartitionRecords]]] = []
    topic: TopicKey
    for _ in range(topic_count):
        if has_topic_ids:
            end = position + 16
            topic = bytes(frame[position:end])
        else:
            length = frame[position]
            position += 1
            if length > 127:
                length, position = read_unsigned_varint(frame, position - 1)
            end = position + length - 1
            if not length or end > size:
                raise ProtocolViolation(
                    f"ProduceRequest: topic of {length - 1} bytes with {size - position} bytes left"
                )
            topic = str(frame[position:end], "utf-8")
        partition_count = frame[end]
        position = end + 1
        if partition_count > 127:
            partition_count, position = read_unsigned_varint(frame, end)
        partition_count -= 1
        if partition_count != 1:
            elements_left = _proven(partition_count, 6, size - position, elements_left)
        partitions: list[PartitionRecords] = []
        for _ in range(partition_count):
            (partition,) = _unpack_int32(frame, position)
            length, position = read_unsigned_varint(frame, position + 4)
            if length:
                end = position + length - 1
                if end > size:
                    raise ProtocolViolation(f"ProduceRequest: {length - 1} record bytes with {size - position} left")
                partitions.append((partition, frame[position:end]))
                position = end
            else:
                partitions.append((partition, None))
            if frame[position]:
                tags = tags or Reader(frame)
                position = tags.skip_tagged_fields_at(position)
            else:
                position += 1
        if frame[position]:
            tags = tags or Reader(frame)
            position = tags.skip_tagged_fields_at(position)
        else:
            position += 1
        topics.append((topic, partitions))
    # The tagged fields of the request come last: nothing after them needs to be found.
    return _new(ProduceArguments, (transactional_id, acks, timeout_ms, topics))


def _proven(count: int, min_element_bytes: int, bytes_left: int, elements_left: int) -> int:
    """How many elements the message may still have after these."""
    if count < 0 or count * min_element_bytes > bytes_left or count > elements_left:
        raise ProtocolViolation(f"ProduceRequest: array of {count} elements with {bytes_left} bytes left")
    return elements_left - count


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: ProducedTopics,
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """A whole response frame, its size included."""
    if len(topics) == 1 and version >= 5:
        topic, partitions = topics[0]
        if len(partitions) == 1:
            partition, error_code, base_offset, append_time_ms, start, errors, message, leader = partitions[0]
            if message is None and not errors and leader is None and not node_endpoints:
                name = topic.encode() if isinstance(topic, str) else topic
                size = len(name)
                if version == 8:
                    pack, frame_size = _single_v8(size)
                    return pack(
                        frame_size, correlation_id, 1, size, name, 1,
                        partition, error_code, base_offset, append_time_ms, start, -1, throttle_ms,
                    )  # fmt: skip
                if version < 8:
                    pack, frame_size = _single_plain(size)
                    return pack(
                        frame_size, correlation_id, 1, size, name, 1,
                        partition, error_code, base_offset, append_time_ms, start, throttle_ms,
                    )  # fmt: skip
                if version >= TOPIC_IDS_SINCE:
                    return _pack_single_by_id(
                        _SINGLE_BY_ID_BYTES, correlation_id, 2, name, 2,
                        partition, error_code, base_offset, append_time_ms, start, 1, throttle_ms,
                    )  # fmt: skip
                if version >= FLEXIBLE_SINCE and size < 127:
                    pack, frame_size = _single_flexible(size)
                    return pack(
                        frame_size, correlation_id, 2, size + 1, name, 2,
                        partition, error_code, base_offset, append_time_ms, start, 1, throttle_ms,
                    )  # fmt: skip
    out = start_response(_PRODUCE, version, correlation_id)
    if version >= FLEXIBLE_SINCE:
        _write_flexible_topics(out, version, topics)
    else:
        _write_plain_topics(out, version, topics)
    if version >= 1:
        out += INT32.pack(throttle_ms)
    if version >= FLEXIBLE_SINCE:
        tagged = [(0, encode_node_endpoints(node_endpoints))] if node_endpoints and version >= 10 else []
        write_tagged_fields(out, tagged)
    return finish_frame(out)


def single_partition_packer(version: int, topic: str, partition: int) -> Callable[[int, int, int, int], bytes] | None:
    """For a broker that answers the same partition again and again: packs (correlation id, base offset, append time,
    log start offset) into a whole frame without an error. None for versions and names that have no such form.
    """
    name = topic.encode()
    size = len(name)
    if not 5 <= version < TOPIC_IDS_SINCE or size >= 127:
        return None
    if version >= FLEXIBLE_SINCE:
        pack, frame_size = _single_flexible(size)
        name_size = size + 1

        def pack_flexible(correlation_id: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> bytes:
            return pack(
                frame_size, correlation_id, 2, name_size, name, 2,
                partition, 0, base_offset, append_time_ms, log_start_offset, 1, 0,
            )  # fmt: skip

        return pack_flexible
    if version == 8:
        pack, frame_size = _single_v8(size)
        return lambda correlation_id, base_offset, append_time_ms, log_start_offset: pack(
            frame_size, correlation_id, 1, size, name, 1,
            partition, 0, base_offset, append_time_ms, log_start_offset, -1, 0,
        )  # fmt: skip
    pack, frame_size = _single_plain(size)
    return lambda correlation_id, base_offset, append_time_ms, log_start_offset: pack(
        frame_size, correlation_id, 1, size, name, 1,
        partition, 0, base_offset, append_time_ms, log_start_offset, 0,
    )  # fmt: skip


# One topic with one partition is what most producers send: its whole frame is one struct. `x` is a zero byte: no tagged
# fields, and no error message.
_SINGLE_BY_ID: Final = Struct(">iixB16sBihqqqBxxxix")
_SINGLE_BY_ID_BYTES: Final = _SINGLE_BY_ID.size - 4
_pack_single_by_id: Final = _SINGLE_BY_ID.pack


@cache
def _single_plain(name_bytes: int) -> tuple[Callable[..., bytes], int]:
    structure = Struct(f">iiih{name_bytes}siihqqqi")
    return structure.pack, structure.size - 4


@cache
def _single_v8(name_bytes: int) -> tuple[Callable[..., bytes], int]:
    structure = Struct(f">iiih{name_bytes}siihqqqxxxxhi")
    return structure.pack, structure.size - 4


@cache
def _single_flexible(name_bytes: int) -> tuple[Callable[..., bytes], int]:
    structure = Struct(f">iixBB{name_bytes}sBihqqqBxxxix")
    return structure.pack, structure.size - 4


_pack_partition_v0: Final = Struct(">ihq").pack
_pack_partition_v2: Final = Struct(">ihqq").pack
PARTITION_V5: Final = Struct(">ihqqq")
_pack_partition_v5: Final = PARTITION_V5.pack
_pack_leader: Final = Struct(">iix").pack


def _write_plain_topics(out: bytearray, version: int, topics: ProducedTopics) -> None:
    write_count(out, len(topics))
    for topic, partitions in topics:
        assert isinstance(topic, str)
        write_string(out, topic)
        write_count(out, len(partitions))
        for partition, error_code, base_offset, append_time_ms, start, errors, message, _ in partitions:
            if version >= 5:
                out += _pack_partition_v5(partition, error_code, base_offset, append_time_ms, start)
            elif version >= 2:
                out += _pack_partition_v2(partition, error_code, base_offset, append_time_ms)
            else:
                out += _pack_partition_v0(partition, error_code, base_offset)
            if version >= 8:
                write_count(out, len(errors))
                for index, error_message in errors:
                    out += INT32.pack(index)
                    write_nullable_string(out, error_message)
                write_nullable_string(out, message)


def _write_flexible_topics(out: bytearray, version: int, topics: ProducedTopics) -> None:
    write_compact_count(out, len(topics))
    for topic, partitions in topics:
        write_topic_key(out, topic)
        write_compact_count(out, len(partitions))
        for partition, error_code, base_offset, append_time_ms, start, errors, message, leader in partitions:
            out += _pack_partition_v5(partition, error_code, base_offset, append_time_ms, start)
            if message is None and not errors and leader is None:
                out += b"\x01\x00\x00"
                continue
            write_compact_count(out, len(errors))
            for index, error_message in errors:
                out += INT32.pack(index)
                write_compact_nullable_string(out, error_message)
                out.append(0)
            write_compact_nullable_string(out, message)
            write_tagged_fields(out, [(0, _pack_leader(*leader))] if leader is not None and version >= 10 else [])
        out.append(0)


def write_topic_key(out: bytearray, topic: TopicKey) -> None:
    if isinstance(topic, str):
        write_compact_string(out, topic)
    else:
        out += topic
