"""How far one log is durable: its recovery point, and the flush that moves it.

A `FlushJob` is made on the event loop, run on a thread while appends go on, and handed back on the loop. When to flush
is decided by the `Flusher`.
"""

from ottla.core.disk import Disk
from ottla.core.errors import StorageError
from ottla.core.types import Offset, TimestampMs
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segment_list import SegmentList, UnsyncedFiles


class FlushJob:
    """What has to be fsynced so that everything below `offset` survives a loss of power.

    Holds the open files it needs, so neither the cache of open files nor a deletion can take them away.
    """

    __slots__ = ("_directory", "_disk", "error", "has_run", "leader_epochs", "offset", "truncations", "unsynced")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        offset: Offset,
        unsynced: UnsyncedFiles,
        leader_epochs: LeaderEpochs | None,
        truncations: int,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self.offset = offset
        self.unsynced = unsynced
        self.leader_epochs = leader_epochs  # a copy, where they have changed
        self.truncations = truncations
        # For a stop, which may come between the thread's work and the loop's hearing of it, or before either.
        self.has_run = False
        self.error: StorageError | None = None

    def run(self) -> None:
        """Blocks; for any thread. StorageError: nothing may be taken for durable, now or after a second try."""
        try:
            for file in self.unsynced.files:
                file.fsync()
            if self.leader_epochs is not None:
                self.leader_epochs.write()
            if self.unsynced.with_dir:
                self._disk.fsync_dir(self._directory)
        except OSError as error:
            self.error = StorageError(f"{error.filename or self._directory}: fsync failed: {error}")
            raise self.error from error
        self.has_run = True


class LogFlush:
    """Owned by its log, whose segments and leader epochs it makes durable; one job at a time."""

    __slots__ = ("_disk", "_job", "_leader_epochs", "_segments", "_truncations", "last_flush_ms", "recovery_point")

    def __init__(
        self,
        disk: Disk,
        segments: SegmentList,
        leader_epochs: LeaderEpochs,
        *,
        recovery_point: Offset,
        now_ms: TimestampMs,
    ) -> None:
        self._disk = disk
        self._segments = segments
        self._leader_epochs = leader_epochs
        self._job: FlushJob | None = None  # begun, and neither finished nor failed
        self._truncations = 0  # a flush that began before one proves nothing about the log after it
        self.recovery_point = recovery_point  # everything below it is durable
        self.last_flush_ms = now_ms

    def start(self, log_end_offset: Offset) -> FlushJob | None:
        """What makes the log durable up to its end; None when it is. OSError: a file can't be opened."""
        segments = self._segments
        leader_epochs = self._leader_epochs
        is_behind = log_end_offset > self.recovery_point
        if not (is_behind or segments.needs_sync or leader_epochs.is_dirty):
            return None
        job = self._job = FlushJob(
            self._disk,
            segments.directory,
            offset=log_end_offset,
            unsynced=segments.begin_sync(with_active=is_behind),
            leader_epochs=leader_epochs.copy() if leader_epochs.is_dirty else None,
            truncations=self._truncations,
        )
        leader_epochs.is_dirty = False
        return job

    def finish(self, job: FlushJob, *, now_ms: TimestampMs) -> None:
        """The job has run: what it covered is durable."""
        self._job = None
        self.last_flush_ms = now_ms
        if job.truncations == self._truncations:
            self._segments.end_sync(job.unsynced)
            self.recovery_point = max(self.recovery_point, job.offset)

    def fail(self, job: FlushJob) -> None:
        """The job has failed, or never ran: nothing became durable, and a later flush begins where it began."""
        self._job = None
        self._segments.fail_sync(job.unsynced)
        if job.leader_epochs is not None:
            self._leader_epochs.is_dirty = True

    def settle(self, *, now_ms: TimestampMs) -> None:
        """End a job that began while the broker stopped: its outcome was never reported."""
        job = self._job
        if job is None:
            return
        if job.error is not None:
            raise job.error  # a second fsync would succeed and save nothing
        if job.has_run:
            self.finish(job, now_ms=now_ms)
        else:
            self.fail(job)

    def note_truncation(self) -> None:
        """The log is about to be truncated: what a running job covers may not be in it any more."""
        self._truncations += 1

    def lower_recovery_point(self, log_end_offset: Offset) -> None:
        """The log was truncated: what is appended behind its new end is not durable."""
        self.recovery_point = min(self.recovery_point, log_end_offset)
