"""Kafka's text checkpoint files: one offset for each partition of a log directory, and the lines of an epoch file.

Line 1 is the version (0), line 2 the number of entries, then one entry a line; written atomically. A file that does
not read back exactly as it was written raises `MalformedCheckpoint`, and its reader rebuilds safely, never from 0:

- recovery point: every log of the directory is recovered from its first segment (all bytes are checked again);
- log start offset: each log starts at the base offset of its first segment, so that nothing kept is hidden;
- high watermark: each partition starts at its log start offset and learns the rest from its replicas;
- cleaner offset: cleaning starts again at the log start offset;
- leader epochs: the log is recovered from its first segment, whose batches carry their epochs.
"""

from collections.abc import Iterable, Mapping

from ottla.core.disk import Disk
from ottla.core.types import Offset, TopicPartition

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"

_VERSION = 0


class MalformedCheckpoint(Exception):
    """A checkpoint file that can't be trusted; the caller rebuilds what it held."""


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """The offsets of a checkpoint file; empty when there is no such file."""
    if not disk.exists(path):
        return {}
    offsets: dict[TopicPartition, Offset] = {}
    for fields in read_entries(disk.read(path), path=path, fields=3):
        partition = parse_number(fields[1], path=path)
        offset = parse_number(fields[2], path=path)
        topic_partition = TopicPartition(fields[0], partition)
        if not fields[0] or topic_partition in offsets:
            raise MalformedCheckpoint(f"{path}: {topic_partition} is named twice or has no topic")
        offsets[topic_partition] = offset
    return offsets


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Replace a checkpoint file as a whole."""
    entries = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    disk.write_atomically(path, encode_entries(entries))


def encode_entries(entries: Iterable[str]) -> bytes:
    """The bytes of a checkpoint file with these lines."""
    lines = list(entries)
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def read_entries(data: bytes, *, path: str, fields: int) -> list[list[str]]:
    """The entries of a checkpoint file, each split into exactly `fields` fields."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint(f"{path}: not UTF-8 text at byte {error.start}") from None
    lines = text.split("\n")
    if lines[-1] != "" or len(lines) < 3:
        raise MalformedCheckpoint(f"{path}: cut off after {len(data)} bytes")
    version = parse_number(lines[0], path=path)
    if version != _VERSION:
        raise MalformedCheckpoint(f"{path}: version {version}, expected {_VERSION}")
    expected = parse_number(lines[1], path=path)
    entries = [line.split(" ") for line in lines[2:-1]]
    if len(entries) != expected:
        raise MalformedCheckpoint(f"{path}: {len(entries)} entries, its second line says {expected}")
    for entry in entries:
        if len(entry) != fields:
            raise MalformedCheckpoint(f"{path}: entry {' '.join(entry)!r} has {len(entry)} fields, expected {fields}")
    return entries


def parse_number(text: str, *, path: str) -> int:
    """A non-negative decimal number; nothing else that Python's `int` would take."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise MalformedCheckpoint(f"{path}: {text!r} is not a number")
