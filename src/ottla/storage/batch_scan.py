"""Walks over the batches of a log file: by headers alone (finding positions, rebuilding indexes) or with checksums.

Memory stays bounded whatever the file or its broken lengths say. Broken bytes end a walk with `CorruptBatch`.
"""

from collections.abc import Iterator

from google_crc32c import extend

from ottla.core.disk import ReadFile
from ottla.core.types import Offset
from ottla.records.errors import CorruptBatch
from ottla.records.header import (
    CHECKSUMMED_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    crc_of,
    read_header,
)

_HEADER_BLOCK_BYTES = 8 * 1024
_CHECK_BLOCK_BYTES = 1024 * 1024


def scan_headers(
    file: ReadFile, *, start: int, end: int, block_bytes: int = _HEADER_BLOCK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from `start` to `end`, which must both be batch boundaries.

    Small batches are read a block of them at a time; of large ones only the header.
    """
    block = b""
    block_start = start
    position = start
    wanted_bytes = HEADER_BYTES
    while position < end:
        at = position - block_start
        if at + HEADER_BYTES > len(block):
            block = file.pread(min(wanted_bytes, end - position), position)
            block_start = position
            at = 0
        header = read_header(block, at)
        wanted_bytes = HEADER_BYTES if header.batch_length > block_bytes // 2 else block_bytes
        next_position = check_lengths(header, position, end)
        yield position, header
        position = next_position


def scan_checked(file: ReadFile, *, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like `scan_headers`, with the checksum of every batch verified before it is given out."""
    block = b""
    block_start = start
    position = start
    while position < end:
        at = position - block_start
        if at + HEADER_BYTES > len(block):
            block = file.pread(min(_CHECK_BLOCK_BYTES, end - position), position)
            block_start = position
            at = 0
        header = read_header(block, at)
        next_position = check_lengths(header, position, end)
        size_bytes = next_position - position
        if at + size_bytes > len(block) and size_bytes <= _CHECK_BLOCK_BYTES:
            block = file.pread(min(_CHECK_BLOCK_BYTES, end - position), position)
            block_start = position
            at = 0
        if size_bytes <= _CHECK_BLOCK_BYTES:
            if at + size_bytes > len(block):
                raise CorruptBatch(f"batch at {position}: {size_bytes} bytes expected, {len(block) - at} could be read")
            crc = crc_of(block, at, size_bytes)
        else:
            crc = _crc_in_steps(file, position, size_bytes)
        if crc != header.crc:
            raise CorruptBatch(f"batch at {position}: checksum {crc:#010x}, {header.crc:#010x} expected")
        yield position, header
        position = next_position


def find_batch(file: ReadFile, *, start: int, end: int, offset: Offset) -> tuple[int, BatchHeader] | None:
    """The first batch from `start` on that ends at or after `offset`."""
    for position, header in scan_headers(file, start=start, end=end):
        if header.base_offset + header.last_offset_delta >= offset:
            return position, header
    return None


def check_lengths(header: BatchHeader, position: int, end: int) -> int:
    """Refuse what can't be a batch; the position behind it otherwise."""
    if header.magic != MAGIC:
        raise CorruptBatch(f"batch at {position}: magic {header.magic}, {MAGIC} expected")
    if header.batch_length < MIN_BATCH_LENGTH or header.last_offset_delta < 0 or header.base_offset < 0:
        raise CorruptBatch(
            f"batch at {position}: length {header.batch_length}, base offset {header.base_offset},"
            f" last offset delta {header.last_offset_delta}"
        )
    next_position = position + LOG_OVERHEAD_BYTES + header.batch_length
    if next_position > end:
        raise CorruptBatch(
            f"batch at {position}: {next_position - position} bytes expected, {end - position} are there"
        )
    return next_position


def _crc_in_steps(file: ReadFile, position: int, size_bytes: int) -> int:
    crc = 0
    at = position + CHECKSUMMED_POSITION
    end = position + size_bytes
    while at < end:
        data = file.pread(min(_CHECK_BLOCK_BYTES, end - at), at)
        if not data:
            raise CorruptBatch(f"batch at {position}: {size_bytes} bytes expected, {at - position} could be read")
        crc = extend(crc, data)
        at += len(data)
    return crc
