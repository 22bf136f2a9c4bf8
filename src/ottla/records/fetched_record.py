"""Records as a consumer returns them: with topic and partition; a field is decoded when it is read.

`split_records` cuts one batch of a fetch into records: a C call with the kernel, Python without it. It knows nothing of
positions, control batches or aborted transactions: its caller skips those.
"""

from typing import TYPE_CHECKING, Any, cast

from ottla.core.types import NO_LEADER_EPOCH, Buffer, LeaderEpoch, Offset, TimestampMs
from ottla.records.compression import DECOMPRESSED_BYTES_MAX
from ottla.records.errors import CorruptBatch
from ottla.records.header import BatchHeader, crc_of
from ottla.records.kernel import IS_COMPILED, kernel
from ottla.records.read import plain_records, read_records, whole_batch_header

CREATE_TIME = 0
LOG_APPEND_TIME = 1
OFFSET_MAX: Offset = 2**63 - 1
_INT64_MAX = 2**63 - 1
_TWO_TO_64 = 2**64


class PythonFetchedRecord:
    """One record. A deserializer may set `key`, `value` and `headers`; the other fields are constant."""

    __slots__ = (
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp_ms",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: Offset,
        timestamp_ms: TimestampMs,
        key: Any,
        value: Any,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        timestamp_type: int = CREATE_TIME,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_type = timestamp_type
        self.leader_epoch = leader_epoch

    def __repr__(self) -> str:
        return (
            f"FetchedRecord({self.topic!r}, {self.partition}, {self.offset}, {self.timestamp_ms}, "
            f"{self.key!r}, {self.value!r}, {self.headers!r}, {self.timestamp_type}, {self.leader_epoch})"
        )


if TYPE_CHECKING:
    FetchedRecord = PythonFetchedRecord
elif IS_COMPILED:
    FetchedRecord = kernel.FetchedRecord
else:
    FetchedRecord = PythonFetchedRecord


def split_records(
    batch: Buffer,
    position: int = 0,
    *,
    topic: str,
    partition: int,
    from_offset: Offset = 0,
    check_crc: bool = True,
    max_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> list[FetchedRecord]:
    """The records of the batch at `position` from `from_offset` on; CorruptBatch when anything doesn't fit.

    It copies the batch's bytes once, so the buffer can be reused; a record keeps only its own batch alive.
    """
    header = whole_batch_header(batch, position)
    if check_crc:
        crc = crc_of(batch, position, header.size_bytes)
        if crc != header.crc:
            raise CorruptBatch(
                f"batch of offset {header.base_offset}: checksum {crc:#010x}, header says {header.crc:#010x}"
            )
    body = plain_records(batch, position, header=header, max_bytes=max_bytes)
    if not IS_COMPILED:
        return split_in_python(header, body, topic=topic, partition=partition, from_offset=from_offset)
    records = kernel.split_records(
        body,
        topic,
        partition,
        header.leader_epoch,
        header.base_offset,
        header.base_timestamp_ms,
        header.max_timestamp_ms if header.is_log_append_time else None,
        header.last_offset_delta,
        header.record_count,
        from_offset,
        OFFSET_MAX,
    )
    return cast(list[FetchedRecord], records)


def split_in_python(
    header: BatchHeader, body: bytes, *, topic: str, partition: int, from_offset: Offset
) -> list[PythonFetchedRecord]:
    """The same in Python, for machines without the kernel."""
    timestamp_type = LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME
    leader_epoch = header.leader_epoch
    records = []
    for offset, timestamp_ms, key, value, headers in read_records(header, body):
        if offset >= from_offset:
            if not -_INT64_MAX <= timestamp_ms <= _INT64_MAX:
                timestamp_ms = wrapped_to_int64(timestamp_ms)
            records.append(
                PythonFetchedRecord(
                    topic, partition, offset, timestamp_ms, key, value, headers, timestamp_type, leader_epoch
                )
            )
    return records


def wrapped_to_int64(number: int) -> int:
    """Base and delta of a timestamp have 64 bits each, and so has their sum: it wraps around, as in Java."""
    return (number + _INT64_MAX + 1) % _TWO_TO_64 - _INT64_MAX - 1
