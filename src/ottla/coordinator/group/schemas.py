"""Keys and values of the records in __consumer_offsets, in Kafka's own schemas: its tools read ours, and we read its.

Owns the bytes of single records; knows nothing of batches, groups or time. What is read comes from a disk and is not
trusted: whatever does not fit is a `DamagedRecord`.
"""

from struct import Struct
from typing import NamedTuple

from ottla.coordinator.runtime.ports import DamagedRecord
from ottla.core.errors import ProtocolViolation
from ottla.core.types import NO_LEADER_EPOCH, NO_TIMESTAMP_MS, LeaderEpoch, Offset, TimestampMs
from ottla.protocol.primitives import (
    Reader,
    write_bytes,
    write_nullable_string,
    write_string,
)

# The first two bytes of a key say what kind of record it is, and of which version; a value has its own version there.
_OFFSET_KEY_VERSION_MAX = 1
_GROUP_KEY_VERSION = 2
_OFFSET_VALUE_VERSION_MAX = 4
_GROUP_VALUE_VERSION_MAX = 4

# What is written: the newest that every Kafka since 2.3 reads. Kafka 4.3 itself writes offsets in version 4, which is
# the same in the flexible form with room for the topic's id.
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_WITH_EXPIRY = 1  # the only one that has a place for it
_GROUP_VALUE_VERSION = 3

_OFFSET_VALUE_EXPIRY_VERSION = 1
_OFFSET_VALUE_EPOCH_SINCE = 3
_OFFSET_VALUE_FLEXIBLE_SINCE = 4
_GROUP_VALUE_REBALANCE_TIMEOUT_SINCE = 1
_GROUP_VALUE_TIMESTAMP_SINCE = 2
_GROUP_VALUE_INSTANCE_ID_SINCE = 3
_GROUP_VALUE_FLEXIBLE_SINCE = 4

# Four strings and bytes of length 0, a timeout: less is no member in any version.
_MEMBER_BYTES_MIN = 9

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_KEY_HEAD = Struct(">hh")  # version, length of the group id
_VALUE_HEAD = Struct(">hqih")  # version 3: version, offset, leader epoch, length of the metadata
_PLAIN_VALUE = Struct(">hqihq")  # version 3 with its tail, where there is no metadata
_VALUE_HEAD_WITHOUT_EPOCH = Struct(">hqh")
_VALUE_TAIL = Struct(">q")  # commit timestamp
_VALUE_TAIL_WITH_EXPIRY = Struct(">qq")
_MEMBER_TIMEOUTS = Struct(">ii")  # rebalance, session

_pack_length = _INT16.pack
_pack_partition = _INT32.pack
_pack_key_head = _KEY_HEAD.pack
_pack_value_head = _VALUE_HEAD.pack
_pack_value_tail = _VALUE_TAIL.pack
_pack_plain_value = _PLAIN_VALUE.pack


class OffsetKey(NamedTuple):
    """A committed offset is kept by group, topic and partition."""

    group_id: str
    topic: str
    partition: int


class OffsetValue(NamedTuple):
    """A committed offset; `expire_timestamp_ms` only where an old client asked for a retention of its own."""

    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str
    commit_timestamp_ms: TimestampMs
    expire_timestamp_ms: TimestampMs = NO_TIMESTAMP_MS


class GroupKey(NamedTuple):
    """A group's metadata is kept by its id."""

    group_id: str


class MemberValue(NamedTuple):
    """One member of a group as it was when its generation got its assignment."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupValue(NamedTuple):
    """A generation of a group; without members the group is empty."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: TimestampMs
    members: tuple[MemberValue, ...]


# Writing


def encode_offset_key(key: OffsetKey) -> bytes:
    group_id = key[0].encode()
    topic = key[1].encode()
    return b"".join(
        (_pack_key_head(1, len(group_id)), group_id, _pack_length(len(topic)), topic, _pack_partition(key[2]))
    )


def encode_offset_value(value: OffsetValue) -> bytes:
    offset, leader_epoch, metadata_text, commit_timestamp_ms, expire_timestamp_ms = value
    metadata = metadata_text.encode()
    if expire_timestamp_ms == NO_TIMESTAMP_MS:
        head = _pack_value_head(_OFFSET_VALUE_VERSION, offset, leader_epoch, len(metadata))
        return head + metadata + _pack_value_tail(commit_timestamp_ms)
    # As in Kafka, a commit with its own expiry loses its leader epoch: no version has both.
    head = _VALUE_HEAD_WITHOUT_EPOCH.pack(_OFFSET_VALUE_VERSION_WITH_EXPIRY, offset, len(metadata))
    return head + metadata + _VALUE_TAIL_WITH_EXPIRY.pack(commit_timestamp_ms, expire_timestamp_ms)


def encode_plain_offset_value(offset: Offset, leader_epoch: LeaderEpoch, commit_timestamp_ms: TimestampMs) -> bytes:
    """As `encode_offset_value`, without metadata and without an expiry."""
    return _pack_plain_value(_OFFSET_VALUE_VERSION, offset, leader_epoch, 0, commit_timestamp_ms)


def encode_group_key(key: GroupKey) -> bytes:
    group_id = key.group_id.encode()
    return _pack_key_head(_GROUP_KEY_VERSION, len(group_id)) + group_id


def encode_group_value(value: GroupValue) -> bytes:
    out = bytearray(_pack_length(_GROUP_VALUE_VERSION))
    write_string(out, value.protocol_type)
    out += _INT32.pack(value.generation)
    write_nullable_string(out, value.protocol)
    write_nullable_string(out, value.leader)
    out += _pack_value_tail(value.state_timestamp_ms)
    out += _INT32.pack(len(value.members))
    for member in value.members:
        write_string(out, member.member_id)
        write_nullable_string(out, member.group_instance_id)
        write_string(out, member.client_id)
        write_string(out, member.client_host)
        out += _MEMBER_TIMEOUTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms)
        write_bytes(out, member.subscription)
        write_bytes(out, member.assignment)
    return bytes(out)


# Reading


def decode_key(data: bytes) -> OffsetKey | GroupKey | None:
    """What a record is about; None for a kind of record that a newer Kafka has and we don't."""
    reader = Reader(data)
    try:
        version = reader.int16()
        if version == _GROUP_KEY_VERSION:
            key: OffsetKey | GroupKey = GroupKey(reader.string())
        elif 0 <= version <= _OFFSET_KEY_VERSION_MAX:
            key = OffsetKey(reader.string(), reader.string(), reader.int32())
        elif version < 0:
            raise reader.violation(f"key of version {version}")
        else:
            return None
        _expect_end(reader)
    except ProtocolViolation as error:
        raise DamagedRecord(f"key of {len(data)} bytes: {error}") from error
    return key


def decode_offset_value(data: bytes) -> OffsetValue:
    reader = Reader(data)
    try:
        version = _version(reader, _OFFSET_VALUE_VERSION_MAX)
        is_flexible = version >= _OFFSET_VALUE_FLEXIBLE_SINCE
        offset = reader.int64()
        leader_epoch = reader.int32() if version >= _OFFSET_VALUE_EPOCH_SINCE else NO_LEADER_EPOCH
        metadata = reader.compact_string() if is_flexible else reader.string()
        commit_timestamp_ms = reader.int64()
        expire_timestamp_ms = reader.int64() if version == _OFFSET_VALUE_EXPIRY_VERSION else NO_TIMESTAMP_MS
        if is_flexible:
            reader.skip_tagged_fields()  # the topic's id: a topic that is deleted takes its offsets along here anyway
        _expect_end(reader)
    except ProtocolViolation as error:
        raise DamagedRecord(f"committed offset of {len(data)} bytes: {error}") from error
    return OffsetValue(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms)


def decode_group_value(data: bytes) -> GroupValue:
    reader = Reader(data)
    try:
        version = _version(reader, _GROUP_VALUE_VERSION_MAX)
        is_flexible = version >= _GROUP_VALUE_FLEXIBLE_SINCE
        string = reader.compact_string if is_flexible else reader.string
        nullable_string = reader.compact_nullable_string if is_flexible else reader.nullable_string
        protocol_type = string()
        generation = reader.int32()
        protocol = nullable_string()
        leader = nullable_string()
        state_timestamp_ms = reader.int64() if version >= _GROUP_VALUE_TIMESTAMP_SINCE else NO_TIMESTAMP_MS
        count = reader.compact_count(_MEMBER_BYTES_MIN) if is_flexible else reader.count(_MEMBER_BYTES_MIN)
        members = tuple(_read_member(reader, version) for _ in range(count))
        if is_flexible:
            reader.skip_tagged_fields()
        _expect_end(reader)
    except ProtocolViolation as error:
        raise DamagedRecord(f"group metadata of {len(data)} bytes: {error}") from error
    return GroupValue(protocol_type, generation, protocol, leader, state_timestamp_ms, members)


def _read_member(reader: Reader, version: int) -> MemberValue:
    is_flexible = version >= _GROUP_VALUE_FLEXIBLE_SINCE
    string = reader.compact_string if is_flexible else reader.string
    blob = reader.compact_blob if is_flexible else reader.blob
    member_id = string()
    group_instance_id: str | None = None
    if version >= _GROUP_VALUE_INSTANCE_ID_SINCE:
        group_instance_id = reader.compact_nullable_string() if is_flexible else reader.nullable_string()
    client_id = string()
    client_host = string()
    rebalance_timeout_ms = reader.int32() if version >= _GROUP_VALUE_REBALANCE_TIMEOUT_SINCE else None
    session_timeout_ms = reader.int32()
    subscription = blob()
    assignment = blob()
    if is_flexible:
        reader.skip_tagged_fields()
    return MemberValue(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        # Version 0 is from a time when the session timeout was both.
        session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _version(reader: Reader, version_max: int) -> int:
    version = reader.int16()
    if not 0 <= version <= version_max:
        raise reader.violation(f"value of version {version}, 0 to {version_max} are known")
    return version


def _expect_end(reader: Reader) -> None:
    if reader.remaining:
        raise reader.violation(f"{reader.remaining} bytes too many")
