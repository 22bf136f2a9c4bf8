"""What an earlier process left half done in a partition's folder, finished or undone before the log is loaded.

`.deleted` was on its way out and goes. `.cleaned` was being written and goes. `.swap` is complete and takes the place
of the segments it was made from, unless a `.cleaned` shows that the same operation had not finished with all of them.
"""

from ottla.core.disk import DirEntry, Disk
from ottla.core.types import Offset
from ottla.records.errors import CorruptBatch
from ottla.storage.batch_scan import scan_checked
from ottla.storage.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    parse_name,
)

_TEMPORARY_SUFFIX = ".tmp"  # of an atomic write that was never renamed


def has_leftovers(entries: list[DirEntry]) -> bool:
    """Whether there is anything to do."""
    suffixes = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, _TEMPORARY_SUFFIX)
    return any(entry.name.endswith(suffixes) for entry in entries)


def finish_leftovers(disk: Disk, directory: str, entries: list[DirEntry]) -> tuple[int, int]:
    """Bring the folder in order; returns how many files were removed and how many swaps were finished."""
    swapped: dict[Offset, list[str]] = {}
    cleaned_offsets = []
    to_remove = []
    for entry in entries:
        name = entry.name
        parsed = parse_name(name)
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, _TEMPORARY_SUFFIX)):
            to_remove.append(name)
            if parsed is not None and name.endswith(CLEANED_SUFFIX):
                cleaned_offsets.append(parsed[0])
        elif parsed is not None and name.endswith(SWAP_SUFFIX):
            swapped.setdefault(parsed[0], []).append(name)
    # A cleaned file next to swaps: the crash came while they were being made, from the lowest offset's end on.
    undone_from = min(cleaned_offsets, default=None)
    finished: dict[Offset, list[str]] = {}
    for base_offset, names in swapped.items():
        end_offset = None
        if undone_from is None or base_offset < undone_from:
            end_offset = _end_of_swap(disk, directory, names, base_offset)
        if end_offset is None:
            to_remove += names
            continue
        finished[base_offset] = names
        to_remove += _replaced_by_swap(entries, base_offset, end_offset)
    for name in dict.fromkeys(to_remove):
        disk.remove(f"{directory}/{name}")
    for names in finished.values():
        # The log comes last: an index without its log is removed at the next start, a log without indexes is not lost.
        for name in sorted(names, key=lambda name: name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    if finished:
        disk.fsync_dir(directory)
    return len(to_remove), len(finished)


def _end_of_swap(disk: Disk, directory: str, names: list[str], base_offset: Offset) -> Offset | None:
    """The offset after a swapped segment's last batch; None when it is no sound segment, so the originals stay."""
    name = next((name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)), None)
    if name is None:
        return base_offset  # its log was renamed before the crash: only the indexes are left to be
    path = f"{directory}/{name}"
    size_bytes = next(entry.size_bytes for entry in disk.list(directory) if entry.name == name)
    end_offset = base_offset
    try:
        for _, header in scan_checked(disk.open_read(path), start=0, end=size_bytes):
            end_offset = header.next_offset
    except CorruptBatch:
        return None
    return end_offset


def _replaced_by_swap(entries: list[DirEntry], base_offset: Offset, end_offset: Offset) -> list[str]:
    """The files of the segments that a swapped one was made from."""
    replaced = []
    for entry in entries:
        parsed = parse_name(entry.name)
        if parsed is not None and parsed[1] in SEGMENT_SUFFIXES and base_offset <= parsed[0] < end_offset:
            replaced.append(entry.name)
    return replaced
