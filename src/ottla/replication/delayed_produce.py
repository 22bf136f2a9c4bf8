"""A produce that waits until its batches keep the promise: on all in-sync replicas, or only fsynced here."""

from collections.abc import Callable, Sequence

from ottla.core.errors import ErrorCode
from ottla.core.types import Offset
from ottla.purgatory.purgatory import DelayedOperation
from ottla.replication.partition import Partition


class ProduceWait:
    """One appended batch and how far its partition must get; `error_code` is the verdict at the end."""

    __slots__ = ("error_code", "next_offset", "partition")

    def __init__(self, partition: Partition, *, next_offset: Offset) -> None:
        self.partition = partition
        self.next_offset = next_offset
        self.error_code = ErrorCode.REQUEST_TIMED_OUT


class DelayedProduce(DelayedOperation):
    """Completed when every batch of the request is settled, or by its timeout with error 7 for those that are not.

    `needs_all_replicas` is acks=all: the high watermark counts. With acks=1 it is the leader's own share, which lags
    behind the log's end only where a topic is fsynced by `flush.messages`.
    """

    __slots__ = ("_needs_all_replicas", "_on_done", "_open", "waits")

    def __init__(self, waits: Sequence[ProduceWait], *, needs_all_replicas: bool, on_done: Callable[[], None]) -> None:
        super().__init__()
        self.waits = waits
        self._open = list(waits)
        self._needs_all_replicas = needs_all_replicas
        self._on_done = on_done

    def try_complete(self) -> bool:
        self._open = [wait for wait in self._open if not self._is_settled(wait)]
        return not self._open and self.force_complete()

    def on_complete(self) -> None:
        self._on_done()

    def _is_settled(self, wait: ProduceWait) -> bool:
        partition = wait.partition
        if partition.is_offline:
            wait.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return True
        reached = partition.high_watermark if self._needs_all_replicas else partition.own_share
        if reached < wait.next_offset:
            return False
        wait.error_code = ErrorCode.NONE
        return True
