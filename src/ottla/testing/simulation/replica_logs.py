"""What the replicas of a partition hold, read out of live cores for the rules to compare."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.records.header import CONTROL_MASK, BatchHeader, iter_headers
from ottla.records.read import read_batch
from ottla.replication.partition import Partition
from ottla.storage.log import Log

_READ_BYTES = 1 << 30


class StoredBatch(NamedTuple):
    """One batch as it lies in the log."""

    header: BatchHeader
    data: bytes


@dataclass(frozen=True)
class ReplicaLog:
    """One replica, whole."""

    broker_id: BrokerId
    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset
    batches: tuple[StoredBatch, ...]

    @cached_property
    def values(self) -> dict[Offset, bytes]:
        """The values below the high watermark, by offset: what a consumer can read. Nulls count as empty."""
        found: dict[Offset, bytes] = {}
        for header, data in self.batches:
            if header.attributes & CONTROL_MASK:
                continue
            for record in read_batch(data)[1]:
                if self.log_start_offset <= record.offset < self.high_watermark:
                    found[record.offset] = record.value or b""
        return found


class PartitionAtEnd(NamedTuple):
    """A partition when a run has settled: its replicas on live brokers, and what the store says of it."""

    partition: TopicPartition
    leader: BrokerId
    isr: tuple[BrokerId, ...]
    replicas: tuple[ReplicaLog, ...]

    def leader_log(self) -> ReplicaLog | None:
        return next((replica for replica in self.replicas if replica.broker_id == self.leader), None)


def read_replica(partition: Partition, broker_id: BrokerId) -> ReplicaLog:
    """A copy of all that the replica holds now. Its log directory must work."""
    log = partition.log
    return ReplicaLog(
        broker_id,
        log.log_start_offset,
        partition.high_watermark,
        log.log_end_offset,
        tuple(_stored_batches(log)),
    )


def _stored_batches(log: Log) -> Iterator[StoredBatch]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=_READ_BYTES)
        if read.error_code != ErrorCode.NONE or read.slice is None:
            raise ValueError(f"{log.name}: offset {offset} cannot be read: {read.error_code.name}")
        data = _bytes_of(read.slice)
        for position, header in iter_headers(data):
            yield StoredBatch(header, data[position : position + header.size_bytes])
            offset = header.next_offset


def _bytes_of(part: FileSlice) -> bytes:
    return part.file.pread(part.length, part.position)
