"""Batches and logs for the tests of storage."""

from ottla.core.disk import Disk
from ottla.records.build import build_batch
from ottla.records.header import BatchHeader, iter_headers
from ottla.records.read import Record, read_batch
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_loading import load_log
from ottla.storage.log_results import AppendInfo
from ottla.storage.open_files import OpenFiles

DIRECTORY = "/data/orders-0"
NOW_MS = 1_700_000_000_000


def batch(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    key: bytes | None = b"k",
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    codec: int = 0,
) -> memoryview:
    return memoryview(
        build_batch(
            [(timestamp_ms, key, value, ()) for value in values],
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            codec=codec,
        )
    )


def open_log(
    disk: Disk,
    config: LogConfig | None = None,
    *,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    was_clean: bool = True,
    now_ms: int = NOW_MS,
    files_max: int = 100,
    open_files: OpenFiles | None = None,
    directory: str = DIRECTORY,
) -> Log:
    return load_log(
        OpenFiles(disk, files_max=files_max) if open_files is None else open_files,
        directory,
        config or LogConfig(),
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        was_clean=was_clean,
        now_ms=now_ms,
    )


def append(log: Log, *values: bytes, now_ms: int = NOW_MS, leader_epoch: int = 0, timestamp_ms: int = -2) -> AppendInfo:
    info = log.append_as_leader(
        batch(*values, timestamp_ms=now_ms if timestamp_ms == -2 else timestamp_ms),
        leader_epoch=leader_epoch,
        now_ms=now_ms,
    )
    assert info.error_code == 0, info.error_message
    return info


def flush(log: Log, now_ms: int = NOW_MS) -> None:
    job = log.start_flush()
    if job is not None:
        job.run()
        log.finish_flush(job, now_ms=now_ms)


def read_bytes(log: Log, offset: int, *, max_bytes: int = 1 << 30, max_offset: int | None = None) -> bytes:
    result = log.read(offset, max_bytes=max_bytes, max_offset=max_offset)
    assert result.error_code == 0, result
    if result.slice is None:
        return b""
    return result.slice.file.pread(result.slice.length, result.slice.position)


def read_all(log: Log, offset: int | None = None, *, max_bytes: int = 1 << 30) -> list[Record]:
    """Every record from `offset` on, fetched as a consumer would."""
    next_offset = log.log_start_offset if offset is None else offset
    records: list[Record] = []
    while True:
        data = read_bytes(log, next_offset, max_bytes=max_bytes)
        if not data:
            return records
        for position, header in iter_headers(data, allow_partial_tail=True):
            _, found = read_batch(data, position)
            records += [record for record in found if record.offset >= next_offset]
            next_offset = header.next_offset


def headers_of(log: Log) -> list[BatchHeader]:
    """The headers of all batches, as a consumer gets them."""
    headers: list[BatchHeader] = []
    next_offset = log.log_start_offset
    while data := read_bytes(log, next_offset):
        headers += [header for _, header in iter_headers(data)]
        next_offset = headers[-1].next_offset
    return headers


def values_of(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def names(disk: Disk, directory: str = DIRECTORY) -> set[str]:
    return {entry.name for entry in disk.list(directory)}
