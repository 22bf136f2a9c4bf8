"""Group commit: when which log is fsynced, so that one fsync serves every append that came before it began.

The promise of each flush mode. A replica counts for the high watermark up to `min(log_end_offset, recovery_point +
flush.messages - 1)`. With `flush.messages=1` nothing is acknowledged (acks 1 and all) or visible before it is fsynced;
with N a loss of power takes at most N - 1 such messages from this replica. Without the key the operating system writes
back when it likes: what was acknowledged survives a killed process, and a loss of power only on other replicas.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ottla.core.clock import Background, Clock
from ottla.core.errors import StorageError
from ottla.core.types import TimestampMs
from ottla.storage.log import Log
from ottla.storage.log_flush import FlushJob


class Flusher:
    """Owned by the event loop; fsyncs run on the background's threads.

    A log has at most one fsync running, all logs together `concurrent_max`. A log whose fsync failed is handed to
    `on_failed` and never flushed again: the kernel may have dropped the pages, and a second fsync would lie.
    """

    __slots__ = (
        "_background",
        "_call_soon",
        "_clock",
        "_concurrent_max",
        "_failed",
        "_forgotten",
        "_is_scheduled",
        "_is_stopped",
        "_on_failed",
        "_on_flushed",
        "_running",
        "_waiting",
    )

    def __init__(
        self,
        background: Background,
        *,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        on_flushed: Callable[[Log], None],
        on_failed: Callable[[Log, StorageError], None],
        concurrent_max: int = 4,
    ) -> None:
        self._background = background
        self._clock = clock
        self._call_soon = call_soon
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._concurrent_max = concurrent_max
        self._waiting: dict[Log, None] = {}  # in the order they came
        self._running: set[Log] = set()
        self._failed: set[Log] = set()
        self._forgotten: dict[Log, Callable[[], None]] = {}  # who waits for the end of its last fsync
        self._is_scheduled = False
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        """No fsync runs or waits."""
        return not (self._running or self._waiting)

    def request(self, log: Log) -> None:
        """Have everything that is in the log now, and what comes until the fsync begins, made durable.

        It begins at the end of this turn of the loop: the appends of all connections that were ready go into one.
        """
        if log in self._waiting or log in self._failed:
            return
        self._waiting[log] = None
        if not self._is_scheduled and log not in self._running:
            self._is_scheduled = True
            self._call_soon(self._start_scheduled)

    def request_due(self, logs: Iterable[Log], now_ms: TimestampMs) -> None:
        """The periodic round: logs whose `flush.ms` is over, those with a finished segment that is not synced (so that
        recovery reads little), and those that recovery left with more unflushed than `flush.messages` allows."""
        for log in logs:
            unflushed = log.unflushed_messages
            if log.has_unsynced_segments or (
                unflushed
                and (now_ms - log.last_flush_ms >= log.config.flush_ms or unflushed >= log.config.flush_messages)
            ):
                self.request(log)

    def forget(self, log: Log, on_forgotten: Callable[[], None]) -> None:
        """The log is deleted: nothing of it is flushed any more. Calls back when an fsync that runs has ended.

        It writes by the name of the folder: a partition that is created again before would get the old leader epochs.
        """
        self._waiting.pop(log, None)
        self._failed.discard(log)
        if log in self._running:
            self._forgotten[log] = on_forgotten
        else:
            on_forgotten()

    def stop(self) -> None:
        """No fsync begins any more: the logs are about to be closed on another thread, which fsyncs each itself."""
        self._is_stopped = True

    def _start_scheduled(self) -> None:
        self._is_scheduled = False
        self._start_waiting()

    def _start_waiting(self) -> None:
        if self._is_stopped:
            return
        running = self._running
        for log in list(self._waiting):
            if len(running) >= self._concurrent_max:
                return
            if log not in running:
                del self._waiting[log]
                self._start(log)

    def _start(self, log: Log) -> None:
        try:
            job = log.start_flush()
        except StorageError as error:
            self._fail(log, error)
            return
        if job is None:
            return
        self._running.add(log)

        def on_done(_: Any, error: BaseException | None) -> None:
            self._finish(log, job, error)

        self._background.submit(job.run, on_done)

    def _finish(self, log: Log, job: FlushJob, error: BaseException | None) -> None:
        self._running.discard(log)
        if error is not None and not isinstance(error, StorageError):
            raise error
        on_forgotten = self._forgotten.pop(log, None)
        if on_forgotten is not None:
            self._start_waiting()
            on_forgotten()
        elif error is None:
            log.finish_flush(job, now_ms=self._clock())
            # What was appended meanwhile begins its fsync before the callback of this one: the disk never idles.
            self._start_waiting()
            self._on_flushed(log)
        else:
            log.fail_flush(job)
            self._fail(log, error)
            self._start_waiting()

    def _fail(self, log: Log, error: StorageError) -> None:
        self._failed.add(log)
        self._waiting.pop(log, None)
        self._on_failed(log, error)
