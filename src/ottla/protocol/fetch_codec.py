"""Fetch for brokers, hand-packed: decodes requests and encodes responses, versions 0 to 18.

It never reads the records of a response, only their size. `fetch_client_codec` is the other half.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.core.disk import FileSlice
from ottla.core.errors import ProtocolViolation
from ottla.core.types import Buffer
from ottla.protocol.node_endpoints import LeaderAndEpoch, NodeEndpoint, encode_node_endpoints
from ottla.protocol.primitives import (
    INT32,
    MAX_ELEMENTS,
    Reader,
    read_unsigned_varint,
    unsigned_varint_bytes,
    write_compact_count,
    write_compact_string,
    write_count,
    write_string,
    write_tagged_fields,
)

FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13

# Our own tagged field of a partition in a request, far from Kafka's: up to where a follower's copy is durable.
DURABLE_OFFSET_TAG: Final = 10_001

# Records in memory below this size are copied into the frame: one buffer to send instead of three.
JOIN_BELOW_BYTES: Final = 64 * 1024

# The name of a topic, or its id of 16 bytes from version 13 on.
TopicKey: TypeAlias = str | bytes


class FetchPartition(NamedTuple):
    """The request for one partition; in the order of the wire from version 12 on."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    durable_offset: int = -1  # a follower's, where it lags behind what it fetched; -1: not said


class FetchArguments(NamedTuple):
    """A decoded request; -1 and "" for fields that its version doesn't have."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[TopicKey, list[FetchPartition]]]
    forgotten_topics: list[tuple[TopicKey, list[int]]]
    rack_id: str


class EpochEndOffset(NamedTuple):
    """Where a follower's log diverges from ours (KIP-595)."""

    epoch: int
    end_offset: int


class FetchedPartition(NamedTuple):
    """The answer for one partition. Records of None are null on the wire, b"" means none now."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None  # producer id, first offset
    preferred_read_replica: int = -1
    records: Buffer | FileSlice | list[FileSlice] | None = None
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderAndEpoch | None = None


FetchedTopics: TypeAlias = Sequence[tuple[TopicKey, Sequence[FetchedPartition]]]

_new: Final = tuple.__new__
_unpack_int16: Final = Struct(">h").unpack_from
_unpack_int32: Final = INT32.unpack_from
_unpack_settings_v0: Final = Struct(">iii").unpack_from
_unpack_settings_v3: Final = Struct(">iiii").unpack_from
_unpack_settings_v4: Final = Struct(">iiiib").unpack_from
_unpack_settings_v7: Final = Struct(">iiiibii").unpack_from
_unpack_settings_v12: Final = Struct(">iiibiiB").unpack_from
_PARTITION_V0: Final = Struct(">iqi")
_PARTITION_V5: Final = Struct(">iqqi")
_PARTITION_V9: Final = Struct(">iiqqi")
_unpack_partition_v12: Final = Struct(">iiqiqi").unpack_from
_PARTITION_V12_BYTES: Final = 32
_NOT_SAID: Final = (-1,)  # no durable offset


def decode_fetch_request(frame: memoryview, position: int, version: int) -> FetchArguments:
    """Read the body that starts at `position` of a request frame."""
    try:
        if version >= FLEXIBLE_SINCE:
            return _decode_flexible(frame, position, version)
        return _decode_plain(frame, position, version)
    except (struct_error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolViolation(f"FetchRequest v{version}: {error}") from error


def _decode_plain(frame: memoryview, position: int, version: int) -> FetchArguments:
    size = len(frame)
    settings: tuple[Any, ...]
    if version >= 7:
        settings = _unpack_settings_v7(frame, position)
        position += 25
    elif version >= 4:
        settings = (*_unpack_settings_v4(frame, position), 0, -1)
        position += 17
    elif version == 3:
        settings = (*_unpack_settings_v3(frame, position), 0, 0, -1)
        position += 16
    else:
        settings = (*_unpack_settings_v0(frame, position), 0x7FFFFFFF, 0, 0, -1)
        position += 12
    replica_id, *settings_after_replica = settings
    structure = _PARTITION_V9 if version >= 9 else _PARTITION_V5 if version >= 5 else _PARTITION_V0
    partition_bytes = structure.size
    (topic_count,) = _unpack_int32(frame, position)
    position += 4
    elements_left = _proven(topic_count, 6, size - position, MAX_ELEMENTS)
    topics: list[tuple[TopicKey, list[FetchPartition]]] = []
    for _ in range(topic_count):
        topic, position = _plain_string(frame, position)
        (count,) = _unpack_int32(frame, position)
        position += 4
        elements_left = _proven(count, partition_bytes, size - position, elements_left)
        end = position + count * partition_bytes
        rows = structure.iter_unpack(frame[position:end])
        position = end
        # The older versions lack the epochs or the log start: -1 instead.
        if version >= 9:
            partitions = [
                _new(FetchPartition, (index, epoch, at, -1, start, most, -1)) for index, epoch, at, start, most in rows
            ]
        elif version >= 5:
            partitions = [_new(FetchPartition, (index, -1, at, -1, start, most, -1)) for index, at, start, most in rows]
        else:
            partitions = [_new(FetchPartition, (index, -1, at, -1, -1, most, -1)) for index, at, most in rows]
        topics.append((topic, partitions))
    forgotten: list[tuple[TopicKey, list[int]]] = []
    if version >= 7:
        (topic_count,) = _unpack_int32(frame, position)
        position += 4
        elements_left = _proven(topic_count, 6, size - position, elements_left)
        for _ in range(topic_count):
            topic, position = _plain_string(frame, position)
            (count,) = _unpack_int32(frame, position)
            position += 4
            elements_left = _proven(count, 4, size - position, elements_left)
            end = position + count * 4
            forgotten.append((topic, [index for (index,) in INT32.iter_unpack(frame[position:end])]))
            position = end
    rack_id = _plain_string(frame, position)[0] if version >= 11 else ""
    return _new(FetchArguments, (replica_id, -1, *settings_after_replica, topics, forgotten, rack_id))


def _decode_flexible(frame: memoryview, position: int, version: int) -> FetchArguments:
    # Counts nearly always have one byte, so the code skips the call for longer ones; and an array of one needs no
    # check of its count: its element is read, or the frame ends.
    size = len(frame)
    has_topic_ids = version >= TOPIC_IDS_SINCE
    tags: Reader | None = None
    elements_left = MAX_ELEMENTS
    replica_id = replica_epoch = -1
    if version < 15:
        (replica_id,) = _unpack_int32(frame, position)
        position += 4
    *settings, topic_count = _unpack_settings_v12(frame, position)
    position += 22
    if topic_count > 127:
        topic_count, position = read_unsigned_varint(frame, position - 1)
    topic_count -= 1
    if topic_count != 1:
        elements_left = _proven(topic_count, 3, size - position, elements_left)
    topics: list[tuple[TopicKey, list[FetchPartition]]] = []
    topic: TopicKey
    for _ in range(topic_count):
        topic, position = _topic_id(frame, position) if has_topic_ids else _compact_string(frame, position)
        count = frame[position]
        position += 1
        if count > 127:
            count, position = read_unsigned_varint(frame, position - 1)
        count -= 1
        if count != 1:
            elements_left = _proven(count, _PARTITION_V12_BYTES + 1, size - position, elements_left)
        partitions: list[FetchPartition] = []
        for _ in range(count):
            fields = _unpack_partition_v12(frame, position)
            position += _PARTITION_V12_BYTES
            if frame[position]:
                tags = tags or Reader(frame)
                durable_offset = _read_durable_offset(tags, position)
                position = tags.position
                partitions.append(_new(FetchPartition, (*fields, durable_offset)))
            else:
                position += 1
                partitions.append(_new(FetchPartition, fields + _NOT_SAID))
        if frame[position]:
            tags = tags or Reader(frame)
            position = tags.skip_tagged_fields_at(position)
        else:
            position += 1
        topics.append((topic, partitions))
    forgotten: list[tuple[TopicKey, list[int]]] = []
    topic_count, position = read_unsigned_varint(frame, position)
    topic_count -= 1
    if topic_count:
        elements_left = _proven(topic_count, 3, size - position, elements_left)
    for _ in range(topic_count):
        topic, position = _topic_id(frame, position) if has_topic_ids else _compact_string(frame, position)
        count, position = read_unsigned_varint(frame, position)
        count -= 1
        elements_left = _proven(count, 4, size - position, elements_left)
        end = position + count * 4
        forgotten.append((topic, [index for (index,) in INT32.iter_unpack(frame[position:end])]))
        tags = tags or Reader(frame)
        position = tags.skip_tagged_fields_at(end)
    rack_id, position = _compact_string(frame, position)
    if frame[position]:
        replica = _read_replica_state(tags or Reader(frame), position)
        if replica is not None and version >= 15:
            replica_id, replica_epoch = replica
    return _new(FetchArguments, (replica_id, replica_epoch, *settings, topics, forgotten, rack_id))


def _read_replica_state(reader: Reader, position: int) -> tuple[int, int] | None:
    """From the tagged fields at the end: the follower's id and epoch, from version 15 on."""
    reader.position = position
    replica = None
    for _ in range(reader.tagged_field_count()):
        tag = reader.unsigned_varint()
        outer_end = reader.enter_tagged_field()
        if tag == 1:
            replica = (reader.int32(), reader.int64())
            reader.skip_tagged_fields()
        else:
            reader.position = reader.end
        reader.leave_tagged_field(outer_end)
    return replica


def _read_durable_offset(reader: Reader, position: int) -> int:
    """From the tagged fields of a partition; Kafka's are for a KRaft leader: a directory id and a high watermark."""
    reader.position = position
    durable_offset = -1
    for _ in range(reader.tagged_field_count()):
        tag = reader.unsigned_varint()
        outer_end = reader.enter_tagged_field()
        if tag == DURABLE_OFFSET_TAG:
            durable_offset = reader.int64()
        else:
            reader.position = reader.end
        reader.leave_tagged_field(outer_end)
    return durable_offset


def _plain_string(frame: memoryview, position: int) -> tuple[str, int]:
    (length,) = _unpack_int16(frame, position)
    position += 2
    end = position + length
    if length < 0 or end > len(frame):
        raise ProtocolViolation(f"FetchRequest: string of {length} bytes with {len(frame) - position} bytes left")
    return str(frame[position:end], "utf-8"), end


def _topic_id(frame: memoryview, position: int) -> tuple[bytes, int]:
    # If the slice is too short, the next read is past the end and fails.
    return bytes(frame[position : position + 16]), position + 16


def _compact_string(frame: memoryview, position: int) -> tuple[str, int]:
    length, position = read_unsigned_varint(frame, position)
    end = position + length - 1
    if not length or end > len(frame):
        raise ProtocolViolation(f"FetchRequest: string of {length - 1} bytes with {len(frame) - position} bytes left")
    return str(frame[position:end], "utf-8"), end


def _proven(count: int, min_element_bytes: int, bytes_left: int, elements_left: int) -> int:
    """How many elements the message may still have after these."""
    if count < 0 or count * min_element_bytes > bytes_left or count > elements_left:
        raise ProtocolViolation(f"FetchRequest: array of {count} elements with {bytes_left} bytes left")
    return elements_left - count


_pack_start_v0: Final = Struct(">ii").pack  # size, correlation id
_pack_start_v1: Final = Struct(">iii").pack  # and throttle time
_pack_start_v7: Final = Struct(">iiihi").pack  # and error code, session id
_pack_start_v12: Final = Struct(">iixihi").pack  # and, after the correlation id, no tagged fields
_pack_v0: Final = Struct(">ihqi").pack
_pack_fixed_v4: Final = Struct(">ihqq").pack
_pack_fixed_v5: Final = Struct(">ihqqq").pack
_pack_v12: Final = Struct(">ihqqqBi").pack
_NO_ABORTED: Final = b"\xff\xff\xff\xff"
_pack_two_int64: Final = Struct(">qq").pack
_pack_two_int32: Final = Struct(">ii").pack
_pack_int32: Final = INT32.pack
_pack_diverging_epoch: Final = Struct(">iqx").pack
_pack_leader: Final = Struct(">iix").pack


def encode_fetch_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topics: FetchedTopics,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Buffer | FileSlice]:
    """A whole response frame in parts, to be sent in order; the first one starts with the frame's size.

    With one partition on disk this is [head, slice], and [head, slice, tail] in a flexible version.
    """
    is_flexible = version >= FLEXIBLE_SINCE
    out = head = bytearray(_pack_start(version, correlation_id, throttle_ms, error_code, session_id))
    parts: list[Buffer | FileSlice] = [head]
    size = -4
    write_any_count = write_compact_count if is_flexible else write_count
    write_any_count(out, len(topics))
    for topic, partitions in topics:
        if not isinstance(topic, str):
            out += topic
        elif is_flexible:
            write_compact_string(out, topic)
        else:
            write_string(out, topic)
        write_any_count(out, len(partitions))
        for partition in partitions:
            records = partition.records
            if type(records) is FileSlice:
                length = records.length
            elif type(records) is list:
                length = sum(one.length for one in records)
            else:
                length = -1 if records is None else len(records)
            out += _partition_head(version, partition, length)
            if length > 0:
                if type(records) is FileSlice:
                    parts.append(records)
                elif type(records) is list:
                    parts += [one for one in records if one.length]
                elif length < JOIN_BELOW_BYTES:
                    out += records  # type: ignore[arg-type]
                    length = 0
                else:
                    parts.append(records)  # type: ignore[arg-type]
                if length:
                    size += len(out) + length
                    out = bytearray()
                    parts.append(out)
            if is_flexible:
                if partition.diverging_epoch is None and partition.current_leader is None:
                    out.append(0)
                else:
                    _write_partition_tags(out, partition)
        if is_flexible:
            out.append(0)
    if is_flexible:
        if node_endpoints and version >= 16:
            write_tagged_fields(out, [(0, encode_node_endpoints(node_endpoints))])
        else:
            out.append(0)
    elif not out:
        parts.pop()
    INT32.pack_into(head, 0, size + len(out))
    return parts


def _pack_start(version: int, correlation_id: int, throttle_ms: int, error_code: int, session_id: int) -> bytes:
    if version >= FLEXIBLE_SINCE:
        return _pack_start_v12(0, correlation_id, throttle_ms, error_code, session_id)
    if version >= 7:
        return _pack_start_v7(0, correlation_id, throttle_ms, error_code, session_id)
    if version >= 1:
        return _pack_start_v1(0, correlation_id, throttle_ms)
    return _pack_start_v0(0, correlation_id)


def _partition_head(version: int, fetched: FetchedPartition, records_bytes: int) -> bytes:
    """The fields of a partition before its records."""
    partition, error_code, high_watermark, last_stable_offset, log_start_offset, aborted, replica, _, _, _ = fetched
    if version >= FLEXIBLE_SINCE:
        length = unsigned_varint_bytes(records_bytes + 1)
        if aborted:
            fixed = _pack_fixed_v5(partition, error_code, high_watermark, last_stable_offset, log_start_offset)
            return b"".join((fixed, _aborted_flexible(aborted), _pack_int32(replica), length))
        none = 0 if aborted is None else 1
        return _pack_v12(
            partition, error_code, high_watermark, last_stable_offset, log_start_offset, none, replica
        ) + length  # fmt: skip
    if version < 4:
        return _pack_v0(partition, error_code, high_watermark, records_bytes)
    tail = _pack_two_int32(replica, records_bytes) if version >= 11 else _pack_int32(records_bytes)
    if version >= 5:
        fixed = _pack_fixed_v5(partition, error_code, high_watermark, last_stable_offset, log_start_offset)
    else:
        fixed = _pack_fixed_v4(partition, error_code, high_watermark, last_stable_offset)
    if aborted is None:
        return fixed + _NO_ABORTED + tail
    pairs = [_pack_two_int64(producer_id, first_offset) for producer_id, first_offset in aborted]
    return b"".join((fixed, _pack_int32(len(aborted)), *pairs, tail))


def _aborted_flexible(aborted: Sequence[tuple[int, int]]) -> bytearray:
    out = bytearray()
    write_compact_count(out, len(aborted))
    for producer_id, first_offset in aborted:
        out += _pack_two_int64(producer_id, first_offset)
        out.append(0)
    return out


def _write_partition_tags(out: bytearray, partition: FetchedPartition) -> None:
    tagged: list[tuple[int, Buffer]] = []
    if partition.diverging_epoch is not None:
        tagged.append((0, _pack_diverging_epoch(*partition.diverging_epoch)))
    if partition.current_leader is not None:
        tagged.append((1, _pack_leader(*partition.current_leader)))
    write_tagged_fields(out, tagged)
