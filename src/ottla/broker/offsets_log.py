"""The coordinator's view of a partition of __consumer_offsets, on this broker's replicas.

It belongs to the leader epoch in which it was opened: in a later one, what was read of the log may no longer be all.
"""

from collections.abc import Callable

from ottla.core.clock import Clock
from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import Offset
from ottla.purgatory.purgatory import DelayedOperation
from ottla.replication.acks_wait import AcksWait
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.replicas import Replicas
from ottla.storage.flush import Flusher
from ottla.storage.log_manager import LogManager

# offsets.commit.timeout.ms is the coordinator's; what is in the log is waited for as long as it takes.
_FOR_EVER_MS = 2**31 - 1
_FLUSH_TIMEOUT_MS = 60_000


class OffsetsLog:
    """One partition that this broker leads. Implements the coordinator's `PartitionLog`; event loop only."""

    __slots__ = ("_clock", "_flusher", "_leader_epoch", "_log_manager", "_partition", "_replicas")

    def __init__(
        self, partition: Partition, replicas: Replicas, log_manager: LogManager, flusher: Flusher, clock: Clock
    ) -> None:
        self._partition = partition
        self._leader_epoch = partition.state.leader_epoch
        self._replicas = replicas
        self._log_manager = log_manager
        self._flusher = flusher
        self._clock = clock

    @property
    def start_offset(self) -> Offset:
        return self._partition.log.log_start_offset

    @property
    def end_offset(self) -> Offset:
        return self._partition.log.log_end_offset

    @property
    def committed_offset(self) -> Offset:
        return self._partition.high_watermark

    def append(self, batch: bytearray) -> ErrorCode:
        info, _ = self._partition.append(
            memoryview(batch),
            acks=ACKS_ALL,
            now_ms=self._clock(),
            is_from_client=False,
            leader_epoch=self._leader_epoch,
        )
        return info.error_code

    def await_commit(self, offset: Offset, on_done: Callable[[ErrorCode], None]) -> None:
        if self._partition.durable_end_offset < offset:
            self._flusher.request(self._partition.log)  # else what a recovery found waits for the next periodic round
        wait = AcksWait(self._partition, next_offset=offset, leader_epoch=self._leader_epoch, needs_all_replicas=True)
        self._replicas.await_acks([wait], timeout_ms=_FOR_EVER_MS, on_done=lambda: on_done(wait.error_code))

    def read(self, offset: Offset, *, max_bytes: int) -> FileSlice | ErrorCode:
        partition = self._partition
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            found = partition.log.read(offset, max_bytes=max_bytes)
        except StorageError as error:
            self._replicas.on_storage_error(partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if found.slice is not None:
            return found.slice
        # A gap up to the end of the log reads as nothing at all; there is nothing behind it either.
        return found.error_code or ErrorCode.CORRUPT_MESSAGE

    def next_segment_offset(self, offset: Offset) -> Offset:
        return self._partition.log.next_segment_offset(offset)

    def roll(self) -> ErrorCode:
        partition = self._partition
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            partition.log.roll(self._clock())
        except StorageError as error:
            self._replicas.on_storage_error(partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def await_durable(self, offset: Offset, on_done: Callable[[ErrorCode], None]) -> None:
        partition = self._partition
        self._flusher.request(partition.log)
        waiting = self._replicas.waiting
        operation = _DelayedFlush(partition, offset, on_done)
        # When an fsync is done, it tries the operations that wait for the partition there.
        waiting.watch(waiting.produces, operation, [partition.topic_partition], _FLUSH_TIMEOUT_MS)

    def delete_before(self, offset: Offset) -> None:
        partition = self._partition
        if partition.is_offline or partition.state.leader_epoch != self._leader_epoch:
            return
        if self._replicas.delete_records_before(partition, offset):
            return
        now_ms = self._clock()
        try:
            removed = partition.log.delete_old_segments(now_ms, high_watermark=partition.high_watermark)
        except StorageError as error:
            self._replicas.on_storage_error(partition, error)
            return
        self._log_manager.remove_later(partition.log, removed, now_ms)


class _DelayedFlush(DelayedOperation):
    """Waits until a partition is durable up to an offset."""

    __slots__ = ("_on_done", "_offset", "_partition")

    def __init__(self, partition: Partition, offset: Offset, on_done: Callable[[ErrorCode], None]) -> None:
        super().__init__()
        self._partition = partition
        self._offset = offset
        self._on_done = on_done

    def try_complete(self) -> bool:
        is_over = self._partition.is_offline or self._partition.log.recovery_point >= self._offset
        return is_over and self.force_complete()

    def on_complete(self) -> None:
        if self._partition.is_offline:
            self._on_done(ErrorCode.KAFKA_STORAGE_ERROR)
        elif self._partition.log.recovery_point >= self._offset:
            self._on_done(ErrorCode.NONE)
        else:
            self._on_done(ErrorCode.REQUEST_TIMED_OUT)
