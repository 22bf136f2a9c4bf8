"""Packs the requests that the raw load generator sends: Produce v9, Fetch v12, OffsetCommit v8, Heartbeat v4.

No broker code is used.
"""

import random
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c

BATCH_OVERHEAD_BYTES = 61


class PackedRequest(NamedTuple):
    """Request frames of one length, and where the loader patches them."""

    frame: bytes  # with `requests` > 1 so many, one after the other: one for each connection
    head_bytes: int
    partition_at: int  # 0: not patched
    offset_at: int  # 0: it has none
    payload_bytes: int
    offset_step: int = 0
    error_at: int = 0  # where the only error code of an answer is; 0: a Produce or a Fetch
    requests: int = 1


class Batch(NamedTuple):
    data: bytes
    record_count: int


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _signed_varint(value: int) -> bytes:
    return unsigned_varint(value << 1 ^ value >> 63)


def _record(offset_delta: int, value: bytes) -> bytes:
    body = b"\0" + _signed_varint(0) + _signed_varint(offset_delta) + _signed_varint(-1)
    body += _signed_varint(len(value)) + value + _signed_varint(0)
    return _signed_varint(len(body)) + body


def _last_record(offset_delta: int, *, encoded_bytes: int, source: bytes) -> bytes:
    for value_bytes in range(max(0, encoded_bytes - 20), encoded_bytes):
        record = _record(offset_delta, source[:value_bytes])
        if len(record) == encoded_bytes:
            return record
    raise ValueError(f"no record is {encoded_bytes} bytes long: a varint grows there; take another batch size")


def pack_batch(records: list[bytes], *, now_ms: int) -> Batch:
    """A record batch v2, not compressed, of a producer without an id."""
    last_offset_delta = len(records) - 1
    checked = struct.pack(">hiqqqhii", 0, last_offset_delta, now_ms, now_ms, -1, -1, -1, len(records)) + b"".join(
        records
    )
    crc = google_crc32c.value(checked)
    return Batch(struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc) + checked, len(records))


def batch_of_size(batch_bytes: int, *, value_bytes: int) -> Batch:
    """A batch that is exactly `batch_bytes` long; its last record is longer than the others by what is left over."""
    # Random bytes: nothing on the way may profit from repetition.
    source = random.Random(7).randbytes(2 * value_bytes + 64)
    records: list[bytes] = []
    left = batch_bytes - BATCH_OVERHEAD_BYTES
    while True:
        record = _record(len(records), source[:value_bytes])
        if left < 2 * len(record):
            break
        records.append(record)
        left -= len(record)
    records.append(_last_record(len(records), encoded_bytes=left, source=source))
    batch = pack_batch(records, now_ms=int(time.time() * 1000))
    assert len(batch.data) == batch_bytes
    return batch


def one_record_batch(*, value_bytes: int) -> Batch:
    return pack_batch([_record(0, random.Random(7).randbytes(value_bytes))], now_ms=int(time.time() * 1000))


def _compact_string(text: str) -> bytes:
    data = text.encode()
    # The loader knows answers whose name has a one-byte length.
    assert len(data) < 127
    return unsigned_varint(len(data) + 1) + data


def _header(api_key: int, api_version: int) -> bytes:
    client_id = b"ottla-bench"
    return struct.pack(">hhih", api_key, api_version, 0, len(client_id)) + client_id + b"\0"


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def produce_request(topic: str, batch: Batch, *, acks: int = 1, timeout_ms: int = 30_000) -> PackedRequest:
    head = _header(0, 9) + b"\0" + struct.pack(">hi", acks, timeout_ms) + b"\2" + _compact_string(topic) + b"\2"
    partition_at = 4 + len(head)
    head += struct.pack(">i", 0) + unsigned_varint(len(batch.data) + 1)
    frame = _framed(head + batch.data + b"\0\0\0")
    return PackedRequest(frame, 4 + len(head), partition_at, 0, len(batch.data))


def fetch_request(topic: str, batch: Batch, *, max_bytes: int) -> PackedRequest:
    """Fetch `max_bytes` from a partition that holds only copies of `batch`, a whole number of times."""
    assert max_bytes % len(batch.data) == 0
    head = (
        _header(1, 12)
        + struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1)
        + b"\2"
        + _compact_string(topic)
        + b"\2"
    )
    partition_at = 4 + len(head)
    head += struct.pack(">ii", 0, -1)
    offset_at = 4 + len(head)
    head += struct.pack(">qiqi", 0, -1, -1, max_bytes) + b"\0\0" + b"\1" + b"\1" + b"\0"
    records = max_bytes // len(batch.data) * batch.record_count
    return PackedRequest(_framed(head), 4 + len(head), partition_at, offset_at, max_bytes, records)


class GroupMember(NamedTuple):
    """A group's member, and the partition that it commits for."""

    group_id: str
    generation: int
    member_id: str
    partition: int


def commit_requests(topic: str, members: Sequence[GroupMember]) -> PackedRequest:
    """OffsetCommit v8 of one partition, a frame for each member; the offset grows with each request."""
    frames: list[bytes] = []
    tail = b""
    for group_id, generation, member_id, partition in members:
        head = _header(8, 8) + _compact_string(group_id) + struct.pack(">i", generation) + _compact_string(member_id)
        head += b"\0" + b"\2" + _compact_string(topic) + b"\2"
        tail = struct.pack(">iqi", partition, 0, 0) + _compact_string("") + b"\0\0\0"
        frames.append(_framed(head + tail))
    frame_bytes = _common_length(frames)
    offset_at = frame_bytes - len(tail) + 4
    # size, correlation id, tags, throttle time, topics, name, partitions, index
    error_at = 4 + 4 + 1 + 4 + 1 + len(_compact_string(topic)) + 1 + 4
    return PackedRequest(b"".join(frames), frame_bytes, 0, offset_at, 1, 1, error_at, len(frames))


def heartbeat_requests(members: Sequence[GroupMember]) -> PackedRequest:
    """Heartbeat v4, a frame for each member."""
    frames = [
        _framed(
            _header(12, 4)
            + _compact_string(member.group_id)
            + struct.pack(">i", member.generation)
            + _compact_string(member.member_id)
            + b"\0\0"
        )
        for member in members
    ]
    error_at = 4 + 4 + 1 + 4  # size, correlation id, tags, throttle time
    return PackedRequest(b"".join(frames), _common_length(frames), 0, 0, 1, 0, error_at, len(frames))


def _common_length(frames: Sequence[bytes]) -> int:
    length = len(frames[0])
    assert all(len(frame) == length for frame in frames), "the names must be of one length"
    return length
