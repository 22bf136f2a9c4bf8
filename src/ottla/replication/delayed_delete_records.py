"""A delete-records that waits until every live replica has moved the start of its log."""

from collections.abc import Callable, Sequence

from ottla.core.errors import ErrorCode
from ottla.core.types import Offset
from ottla.purgatory.purgatory import DelayedOperation
from ottla.replication.partition import Partition


class DeleteRecordsWait:
    """One partition and the low watermark that it must reach; `error_code` is the verdict at the end."""

    __slots__ = ("error_code", "offset", "partition")

    def __init__(self, partition: Partition, *, offset: Offset) -> None:
        self.partition = partition
        self.offset = offset
        self.error_code = ErrorCode.REQUEST_TIMED_OUT


class DelayedDeleteRecords(DelayedOperation):
    """Completed when the low watermark of every partition is there, or by its timeout with error 7 for the others."""

    __slots__ = ("_on_done", "_open")

    def __init__(self, waits: Sequence[DeleteRecordsWait], on_done: Callable[[], None]) -> None:
        super().__init__()
        self._open = list(waits)
        self._on_done = on_done

    def try_complete(self) -> bool:
        self._open = [wait for wait in self._open if not _is_settled(wait)]
        return not self._open and self.force_complete()

    def on_complete(self) -> None:
        self._on_done()


def _is_settled(wait: DeleteRecordsWait) -> bool:
    partition = wait.partition
    if partition.is_offline:
        wait.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return True
    if not partition.is_led_here:
        wait.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return True
    if partition.low_watermark < wait.offset:
        return False
    wait.error_code = ErrorCode.NONE
    return True
