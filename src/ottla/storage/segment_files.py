"""How the files of a partition's folder are named: 20 digits of base offset and a suffix that says what is inside.

Two more have names of their own: the leader epochs, and the id of the topic.
"""

from collections.abc import Iterable

from ottla.core.disk import DirEntry
from ottla.core.types import Offset

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"

DELETED_SUFFIX = ".deleted"  # on its way out, removed after file.delete.delay.ms
CLEANED_SUFFIX = ".cleaned"  # being written by the cleaner, worthless until renamed
SWAP_SUFFIX = ".swap"  # finished by the cleaner, about to take the place of what it was made from

SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_DIGITS = 20


def segment_path(directory: str, base_offset: Offset, suffix: str) -> str:
    """The path of one file of the segment that starts at `base_offset`."""
    return f"{directory}/{base_offset:020d}{suffix}"


def parse_name(name: str) -> tuple[Offset, str] | None:
    """(base offset, suffix with any temporary one) of a segment's file; None for any other name."""
    digits = name[:_DIGITS]
    if len(digits) != _DIGITS or not digits.isascii() or not digits.isdigit() or name[_DIGITS : _DIGITS + 1] != ".":
        return None
    return int(digits), name[_DIGITS:]


def is_partition_folder(entries: Iterable[DirEntry]) -> bool:
    """Whether a folder holds any of Kafka's files; one that does not is not ours, whatever its name."""
    return any(not entry.is_dir and _is_kafkas(entry.name) for entry in entries)


def _is_kafkas(name: str) -> bool:
    if name in (LEADER_EPOCH_FILE, PARTITION_METADATA_FILE):
        return True
    parsed = parse_name(name)
    return parsed is not None and parsed[1].startswith((*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX))
