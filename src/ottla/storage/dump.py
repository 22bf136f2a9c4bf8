"""Reads the files of a log directory entry by entry and says what is wrong with them; changes nothing.

Kafka's own files and ours are the same. Entries carry the field names of Kafka's dump tool. The rules checked here are
written apart from the code that makes the files, so that one judges the other.
"""

from collections.abc import Generator, Iterator
from struct import Struct
from typing import NamedTuple, TypeAlias

from ottla.core.disk import Disk, ReadFile
from ottla.core.types import Offset
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, NAMES
from ottla.records.errors import CorruptBatch
from ottla.records.header import (
    HEADER_BYTES,
    MAGIC,
    MIN_BATCH_LENGTH,
    NO_SEQUENCE,
    BatchHeader,
    add_to_sequence,
    crc_of,
    read_header,
)
from ottla.records.read import Record, iter_records, plain_records, read_end_transaction_marker
from ottla.storage.batch_scan import scan_headers
from ottla.storage.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpoint,
    parse_number,
    read_entries,
)
from ottla.storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from ottla.storage.segment_files import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_name,
)

FieldValue: TypeAlias = int | str | bytes | list[str] | None

_OFFSET_CHECKPOINTS = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE, CLEANER_OFFSET_FILE)

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_ABORTED_ENTRY = Struct(">hqqqq")
_ABORTED_VERSION = 0
_ZERO_BLOCK_BYTES = 1024 * 1024


class UnknownFile(Exception):
    """The name is none that a log directory has."""


class DumpEntry(NamedTuple):
    """One entry of a file; `kind` is batch, record, offset, time, aborted, producer, checkpoint or epoch."""

    kind: str
    fields: dict[str, FieldValue]


class DumpProblem(NamedTuple):
    """One thing that a correct file doesn't have."""

    message: str


Dumped: TypeAlias = Iterator[DumpEntry | DumpProblem]


class _Segment(NamedTuple):
    """Where a file of a segment lies, and what its name says."""

    disk: Disk
    path: str
    directory: str
    base_offset: Offset
    suffix: str
    temporary_suffix: str  # .deleted, .cleaned, .swap, or nothing


def dump_file(disk: Disk, path: str, *, with_records: bool = False, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Dumped:
    """The entries and the problems of one file, as its name says what it is; UnknownFile for a foreign name.

    `with_records` also decompresses and reads the records of each batch. Failures of the disk are OSErrors.
    """
    directory, _, name = path.rpartition("/")
    if name == LEADER_EPOCH_FILE:
        return _dump_leader_epochs(disk.read(path), path)
    if name in _OFFSET_CHECKPOINTS:
        return _dump_offset_checkpoint(disk.read(path), path)
    parsed = parse_name(name)
    if parsed is None:
        raise UnknownFile(f"{path}: neither a file of a segment nor a checkpoint, by its name")
    base_offset, suffixes = parsed
    suffix, dot, temporary = suffixes[1:].partition(".")
    segment = _Segment(disk, path, directory or ".", base_offset, f".{suffix}", dot + temporary)
    if segment.suffix == LOG_SUFFIX:
        return _dump_log(segment, with_records=with_records, max_bytes=max_bytes)
    if segment.suffix == OFFSET_INDEX_SUFFIX:
        return _dump_offset_index(segment)
    if segment.suffix == TIME_INDEX_SUFFIX:
        return _dump_time_index(segment)
    if segment.suffix == TRANSACTION_INDEX_SUFFIX:
        return _dump_transaction_index(segment)
    if segment.suffix == SNAPSHOT_SUFFIX:
        return _dump_snapshot(disk.read(path), path)
    raise UnknownFile(f"{path}: no file of a segment ends with {suffixes}")


def log_base_offset(path: str) -> Offset | None:
    """The offset that a log file starts at by its name; None for any other file."""
    parsed = parse_name(path.rpartition("/")[2])
    return parsed[0] if parsed is not None and parsed[1].startswith(LOG_SUFFIX) else None


# The log


def _dump_log(segment: _Segment, *, with_records: bool, max_bytes: int) -> Dumped:
    """Batch after batch; a broken checksum is named and passed, a broken length ends the walk."""
    file = segment.disk.open_read(segment.path)
    end = _size_of(segment.disk, segment.directory, segment.path)
    next_offset = segment.base_offset
    leader_epoch = -1
    position = 0
    while position < end:
        try:
            header = read_header(file.pread(HEADER_BYTES, position))
        except CorruptBatch as error:
            if not _is_zero_from(file, position):
                yield DumpProblem(f"position {position}: {error}")
            return
        if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH or header.size_bytes > end - position:
            # A preallocated file ends in zeros that were never written.
            if not _is_zero_from(file, position):
                yield DumpProblem(
                    f"position {position}: no batch of magic {MAGIC} with {header.size_bytes} bytes"
                    f" (magic {header.magic}, {end - position} bytes left)"
                )
            return
        batch = file.pread(header.size_bytes, position)
        is_valid = crc_of(batch, 0, len(batch)) == header.crc
        yield DumpEntry("batch", _batch_fields(header, position=position, is_valid=is_valid))
        if not is_valid:
            yield DumpProblem(f"position {position}: the checksum of the batch is not {header.crc}")
        for message in _faults_of_header(header, next_offset=next_offset, leader_epoch=leader_epoch):
            yield DumpProblem(f"position {position}: {message}")
        if with_records and is_valid:
            yield from _dump_records(header, batch, position=position, max_bytes=max_bytes)
        next_offset = max(next_offset, header.next_offset)
        leader_epoch = max(leader_epoch, header.leader_epoch)
        position += header.size_bytes


def _batch_fields(header: BatchHeader, *, position: int, is_valid: bool) -> dict[str, FieldValue]:
    codec = header.compression
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": position,
        _time_field(header): header.max_timestamp_ms,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": NAMES[codec] if codec < len(NAMES) else str(codec),
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _time_field(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _faults_of_header(header: BatchHeader, *, next_offset: Offset, leader_epoch: int) -> Iterator[str]:
    if header.base_offset < next_offset:
        yield f"base offset {header.base_offset}, at least {next_offset} expected"
    if header.last_offset_delta < 0:
        yield f"last offset {header.last_offset} before base offset {header.base_offset}"
    elif not 0 <= header.record_count <= header.last_offset_delta + 1:
        # The cleaner takes records out of a batch and leaves its range of offsets.
        yield f"{header.record_count} records in {header.last_offset_delta + 1} offsets"
    if 0 <= header.leader_epoch < leader_epoch:
        yield f"leader epoch {header.leader_epoch} after {leader_epoch}"


def _dump_records(header: BatchHeader, batch: bytes, *, position: int, max_bytes: int) -> Dumped:
    try:
        for record in iter_records(header, plain_records(batch, 0, header=header, max_bytes=max_bytes)):
            yield DumpEntry("record", _record_fields(header, record))
    except CorruptBatch as error:
        yield DumpProblem(f"position {position}: {error}")


def _record_fields(header: BatchHeader, record: Record) -> dict[str, FieldValue]:
    key = record.key
    value = record.value
    sequence = header.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = add_to_sequence(sequence, record.offset - header.base_offset)
    fields: dict[str, FieldValue] = {
        "offset": record.offset,
        _time_field(header): record.timestamp_ms,
        "keySize": len(key) if key is not None else -1,
        "valueSize": len(value) if value is not None else -1,
        "sequence": sequence,
        "headerKeys": [header_key for header_key, _ in record.headers],
    }
    if header.is_control:
        marker = read_end_transaction_marker(record)
        if marker is not None:
            fields["endTxnMarker"] = "COMMIT" if marker.is_commit else "ABORT"
            fields["coordinatorEpoch"] = marker.coordinator_epoch
            return fields
    fields["key"] = key
    fields["payload"] = value
    return fields


# Its indexes


def _dump_offset_index(segment: _Segment) -> Dumped:
    """An entry says: the batch that ends with this offset begins at this position."""
    entries = yield from _index_entries(segment, _OFFSET_ENTRY)
    log = yield from _log_beside(segment)
    previous_offset, previous_position = -1, -1
    for relative_offset, position in entries:
        offset = segment.base_offset + relative_offset
        yield DumpEntry("offset", {"offset": offset, "position": position})
        if relative_offset <= previous_offset or position <= previous_position:
            yield DumpProblem(f"offset {offset} at {position} does not grow over the entry before it")
        previous_offset, previous_position = relative_offset, position
        if log is not None:
            try:
                header = read_header(log[0].pread(HEADER_BYTES, position) if position >= 0 else b"")
            except CorruptBatch:
                yield DumpProblem(f"offset {offset}: no batch at {position}, the log has {log[1]} bytes")
                continue
            if header.magic != MAGIC or header.last_offset != offset:
                yield DumpProblem(f"offset {offset}: at {position} the log has {header.last_offset} as last offset")


def _dump_time_index(segment: _Segment) -> Dumped:
    """An entry says: up to this offset, no record is later; the batch with this offset has this timestamp."""
    entries = yield from _index_entries(segment, _TIME_ENTRY)
    log = yield from _log_beside(segment)
    headers = scan_headers(log[0], start=0, end=log[1]) if log is not None else None
    header: BatchHeader | None = None
    previous_timestamp_ms, previous_offset = -1, -1
    for timestamp_ms, relative_offset in entries:
        offset = segment.base_offset + relative_offset
        yield DumpEntry("time", {"timestamp": timestamp_ms, "offset": offset})
        if timestamp_ms <= previous_timestamp_ms or relative_offset < previous_offset:
            yield DumpProblem(f"timestamp {timestamp_ms} at offset {offset} does not grow over the entry before it")
        previous_timestamp_ms, previous_offset = timestamp_ms, relative_offset
        if headers is None:
            continue
        # Offsets grow on both sides, so one walk over the log serves all entries.
        try:
            while header is None or header.last_offset < offset:
                _, header = next(headers)
        except StopIteration:
            yield DumpProblem(f"timestamp {timestamp_ms}: the log ends before offset {offset}")
            headers = None
        except CorruptBatch as error:
            yield DumpProblem(f"timestamp {timestamp_ms}: not compared, the log is broken before {offset}: {error}")
            headers = None
        else:
            if header.base_offset > offset or header.max_timestamp_ms != timestamp_ms:
                yield DumpProblem(
                    f"timestamp {timestamp_ms} at offset {offset}: the log has {header.max_timestamp_ms}"
                    f" in the batch from {header.base_offset} to {header.last_offset}"
                )


def _dump_transaction_index(segment: _Segment) -> Dumped:
    entries = yield from _index_entries(segment, _ABORTED_ENTRY)
    previous_last_offset = -1
    for version, producer_id, first_offset, last_offset, last_stable_offset in entries:
        yield DumpEntry(
            "aborted",
            {
                "version": version,
                "producerId": producer_id,
                "firstOffset": first_offset,
                "lastOffset": last_offset,
                "lastStableOffset": last_stable_offset,
            },
        )
        if version != _ABORTED_VERSION:
            yield DumpProblem(f"transaction of producer {producer_id}: version {version}, {_ABORTED_VERSION} expected")
        if first_offset > last_offset or last_offset < segment.base_offset:
            yield DumpProblem(f"transaction of producer {producer_id}: offsets {first_offset} to {last_offset}")
        if last_offset <= previous_last_offset:
            yield DumpProblem(f"transaction end {last_offset} does not grow over the entry before it")
        previous_last_offset = last_offset


def _index_entries(segment: _Segment, entry: Struct) -> Generator[DumpEntry | DumpProblem, None, list[tuple[int, ...]]]:
    """All entries without the zeros that a preallocated file ends in."""
    data = segment.disk.read(segment.path)
    whole = len(data) - len(data) % entry.size
    written = len(data.rstrip(b"\x00"))
    if whole != len(data) and written > whole:
        yield DumpProblem(f"{len(data)} bytes are not a whole number of {entry.size}-byte entries")
    count = min(whole // entry.size, -(-written // entry.size))
    return list(entry.iter_unpack(data[: count * entry.size]))


def _log_beside(segment: _Segment) -> Generator[DumpEntry | DumpProblem, None, tuple[ReadFile, int] | None]:
    """The log file that an index belongs to, and its size."""
    path = segment.path[: -len(segment.suffix + segment.temporary_suffix)] + LOG_SUFFIX + segment.temporary_suffix
    if not segment.disk.exists(path):
        yield DumpProblem(f"{path} is not there to compare with")
        return None
    return segment.disk.open_read(path), _size_of(segment.disk, segment.directory, path)


# The other files


def _dump_snapshot(data: bytes, path: str) -> Dumped:
    try:
        producers = list(decode_snapshot(data, path=path))
    except CorruptSnapshot as error:
        yield DumpProblem(str(error))
        return
    for producer in producers:
        first_sequence = NO_SEQUENCE
        if producer.last_sequence != NO_SEQUENCE:
            first_sequence = add_to_sequence(producer.last_sequence, -producer.offset_delta)
        transaction_offset = producer.current_txn_first_offset
        yield DumpEntry(
            "producer",
            {
                "producerId": producer.producer_id,
                "producerEpoch": producer.producer_epoch,
                "coordinatorEpoch": producer.coordinator_epoch,
                "currentTxnFirstOffset": transaction_offset if transaction_offset >= 0 else None,
                "lastTimestamp": producer.timestamp_ms,
                "firstSequence": first_sequence,
                "lastSequence": producer.last_sequence,
                "lastOffset": producer.last_offset,
                "offsetDelta": producer.offset_delta,
                "timestamp": producer.timestamp_ms,
            },
        )


def _dump_leader_epochs(data: bytes, path: str) -> Dumped:
    previous_epoch, previous_offset = -1, -1
    try:
        for epoch_text, offset_text in read_entries(data, path=path, fields=2):
            epoch = parse_number(epoch_text, path=path)
            start_offset = parse_number(offset_text, path=path)
            yield DumpEntry("epoch", {"leaderEpoch": epoch, "startOffset": start_offset})
            if epoch <= previous_epoch or start_offset < previous_offset:
                yield DumpProblem(f"epoch {epoch} at {start_offset} does not grow over the entry before it")
            previous_epoch, previous_offset = epoch, start_offset
    except MalformedCheckpoint as error:
        yield DumpProblem(str(error))


def _dump_offset_checkpoint(data: bytes, path: str) -> Dumped:
    seen = set()
    try:
        for topic, partition_text, offset_text in read_entries(data, path=path, fields=3):
            partition = parse_number(partition_text, path=path)
            offset = parse_number(offset_text, path=path)
            yield DumpEntry("checkpoint", {"topic": topic, "partition": partition, "offset": offset})
            if (topic, partition) in seen:
                yield DumpProblem(f"{topic}-{partition} is named twice")
            seen.add((topic, partition))
    except MalformedCheckpoint as error:
        yield DumpProblem(str(error))


def _size_of(disk: Disk, directory: str, path: str) -> int:
    name = path.rpartition("/")[2]
    return next(entry.size_bytes for entry in disk.list(directory) if entry.name == name)


def _is_zero_from(file: ReadFile, position: int) -> bool:
    while block := file.pread(_ZERO_BLOCK_BYTES, position):
        if block.count(0) != len(block):
            return False
        position += len(block)
    return True
