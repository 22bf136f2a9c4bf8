"""How the files of a partition's folder are named: 20 digits of base offset and a suffix that says what is inside."""

from ottla.core.types import Offset

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
