"""The byte format of `<offset>.snapshot`: what is known of each producer at that offset of a partition.

Kafka's version 1: a version, a CRC-32C over all that follows it, a count, and entries of 46 bytes.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

import google_crc32c

from ottla.core.types import Offset, ProducerEpoch, ProducerId, TimestampMs

_VERSION = 1
_HEADER = Struct(">hIi")  # version, crc, count
_CRC_END = 6
_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    """A snapshot that can't be trusted: it is removed, and the state is rebuilt from an older one and the log."""


class SnapshotEntry(NamedTuple):
    """One producer; `last_sequence` and `last_offset` are -1 when no batch of its epoch is remembered."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp_ms: TimestampMs
    coordinator_epoch: int
    current_txn_first_offset: Offset


def encode_snapshot(entries: Sequence[SnapshotEntry]) -> bytes:
    """The whole file."""
    data = bytearray(_HEADER.size + _ENTRY.size * len(entries))
    _HEADER.pack_into(data, 0, _VERSION, 0, len(entries))
    position = _HEADER.size
    for entry in entries:
        _ENTRY.pack_into(data, position, *entry)
        position += _ENTRY.size
    crc = google_crc32c.value(bytes(data[_CRC_END:]))
    _HEADER.pack_into(data, 0, _VERSION, crc, len(entries))
    return bytes(data)


def decode_snapshot(data: bytes, *, path: str) -> Iterable[SnapshotEntry]:
    """The entries of a file; CorruptSnapshot when it is not exactly one that was written whole."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{path}: {len(data)} bytes, the header alone has {_HEADER.size}")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"{path}: version {version}, expected {_VERSION}")
    if crc != google_crc32c.value(data[_CRC_END:]):
        raise CorruptSnapshot(f"{path}: checksum does not match its contents")
    if count < 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{path}: {count} entries do not fill its {len(data)} bytes")
    return map(SnapshotEntry._make, _ENTRY.iter_unpack(data[_HEADER.size :]))
