"""A produce that waits until its batches are acknowledged: by all in-sync replicas, or by an fsync here."""

from collections.abc import Callable, Sequence

from ottla.purgatory.purgatory import DelayedOperation
from ottla.replication.acks_wait import AcksWait


class DelayedProduce(DelayedOperation):
    """Completed when every batch of the request is settled, or by its timeout with error 7 for those that are not."""

    __slots__ = ("_on_done", "_open", "waits")

    def __init__(self, waits: Sequence[AcksWait], *, on_done: Callable[[], None]) -> None:
        super().__init__()
        self.waits = waits
        self._open = list(waits)
        self._on_done = on_done

    def try_complete(self) -> bool:
        self._open = [wait for wait in self._open if not wait.partition.maybe_settle(wait)]
        return not self._open and self.force_complete()

    def on_complete(self) -> None:
        self._on_done()
