"""The heads of produce requests, which producers repeat: all that comes before the records, but for the correlation id.

Decoding a head and looking up what it names costs as much as the append of a small batch. A producer that sends to one
partition sends the same head each time, so the bytes themselves are the key to what they meant last time.
"""

import sys
from collections.abc import Callable
from struct import Struct

from ottla.broker.produce_preparation import INLINE_MAX_BYTES
from ottla.broker.request_memo import RequestMemo
from ottla.core.errors import ProtocolViolation
from ottla.protocol.primitives import read_unsigned_varint
from ottla.protocol.produce_codec import FLEXIBLE_SINCE, single_partition_packer
from ottla.replication.partition import Partition
from ottla.storage.log_config import LogConfig

HEAD_POSITION = 8  # after api key, version and correlation id
HEAD_BYTES_MAX = 504

_NO_TAGS = b"\0\0\0"  # of the partition, the topic and the request

_unpack_length = Struct(">i").unpack_from


class KnownHead:
    """What a head means, as long as the partition is online and its config is the same object.

    Whether the partition may be appended to is not in here: it decides that anew for each batch.
    """

    __slots__ = (
        "acks",
        "checks_maximum",
        "config",
        "inline_max_bytes",
        "pack",
        "partition",
        "timeout_ms",
    )

    def __init__(
        self, partition: Partition, *, acks: int, timeout_ms: int, pack: Callable[[int, int, int, int], bytes]
    ) -> None:
        self.partition = partition
        self.config: LogConfig = partition.log.config
        walks_records = self.config.walks_records
        self.inline_max_bytes = INLINE_MAX_BYTES if walks_records else sys.maxsize
        self.checks_maximum = not walks_records  # where that is wrong the records are walked all the same
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.pack = pack


def learn_head(
    memo: RequestMemo[KnownHead],
    version: int,
    frame: memoryview,
    records: memoryview,
    partition: Partition,
    *,
    acks: int,
    timeout_ms: int,
) -> int:
    """Remember the head of a request with one partition; returns where it ends, 0 if it can't be remembered."""
    topic, number = partition.topic_partition
    end = _end_of_head(version, frame, records)
    pack = single_partition_packer(version, topic, number)
    if pack is None or end <= HEAD_POSITION:
        return 0
    try:
        found = records_after(version, frame, end)
    except (IndexError, ProtocolViolation):
        return 0
    if found is None or len(found) != len(records):
        return 0  # bytes after the request, or a length that is written longer than it has to be
    known = KnownHead(partition, acks=acks, timeout_ms=timeout_ms, pack=pack)
    return end if memo.learn(version, bytes(frame[HEAD_POSITION:end]), known) else 0


def records_after(version: int, frame: memoryview, head_end: int) -> memoryview | None:
    """The records of a request with one partition whose head ends there; None if the rest is not just that."""
    size = len(frame)
    if version >= FLEXIBLE_SINCE:
        length = frame[head_end]
        if length < 0x80:
            start = head_end + 1
        else:
            length, start = read_unsigned_varint(frame, head_end)
        end = size - 3
        if length and start + length - 1 == end and not (frame[end] or frame[end + 1] or frame[end + 2]):
            return frame[start:end]
        return None
    (length,) = _unpack_length(frame, head_end)
    start = head_end + 4
    return frame[start:] if length >= 0 and start + length == size else None


def _end_of_head(version: int, frame: memoryview, records: memoryview) -> int:
    """Where the length of the records stands; 0 when something else than no tags follows them."""
    size = len(frame)
    if version < FLEXIBLE_SINCE:
        return size - len(records) - 4
    if frame[size - 3 :] != _NO_TAGS:
        return 0
    length_bytes = max(((len(records) + 1).bit_length() + 6) // 7, 1)
    return size - 3 - len(records) - length_bytes
