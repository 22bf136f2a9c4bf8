"""A partition's log: segments in one folder, appended at the end, read anywhere, flushed, cut at both ends.

Durability is a `FlushJob`'s work; when to flush, to delete or to close is decided by the log manager.
"""

from ottla.core.errors import StorageError
from ottla.core.types import Offset, TimestampMs
from ottla.records.errors import CorruptBatch
from ottla.storage.append_log import AppendLog
from ottla.storage.log_flush import FlushJob
from ottla.storage.log_results import LogFigures
from ottla.storage.retention import count_deletable


class Log(AppendLog):
    """One partition's log, made by `log_loading.load_log`; owned by the log manager, used by one replica."""

    __slots__ = ()

    def figures(self) -> LogFigures:
        """For metrics: all at once, and cheap, since it is asked of thousands of logs in a row."""
        segments = self._segments
        size_bytes = segments.size_bytes
        end_offset = self.log_end_offset
        return (
            end_offset,
            self.log_start_offset,
            size_bytes,
            len(segments.segments),
            end_offset - self.loaded_end_offset,
            size_bytes - segments.bytes_not_appended,
        )

    # Flushing

    def start_flush(self) -> FlushJob | None:
        """What has to be fsynced for all that is in the log now; None when that is nothing.

        `run()` the job on a thread, then hand it to `finish_flush` or `fail_flush` here on the loop.
        """
        segments = self._segments
        leader_epochs = self.leader_epochs
        is_behind = self.log_end_offset > self.recovery_point
        if not (is_behind or segments.unsynced or segments.names_changed or leader_epochs.is_dirty):
            return None
        try:
            files = segments.files_to_sync(with_active=is_behind)
        except OSError as error:
            raise StorageError(f"{self.name}: flush up to {self.log_end_offset} failed: {error}") from error
        job = FlushJob(
            self._open_files.disk,
            self.directory,
            offset=self.log_end_offset,
            files=files,
            leader_epochs=leader_epochs.copy() if leader_epochs.is_dirty else None,
            names_changed=segments.names_changed,
            rolled=tuple(segments.unsynced),
            generation=self._generation,
        )
        leader_epochs.is_dirty = False
        segments.names_changed = False
        self._flush_job = job
        return job

    def finish_flush(self, job: FlushJob, *, now_ms: TimestampMs) -> None:
        """The job has run: what it covered is durable."""
        self._flush_job = None
        self.last_flush_ms = now_ms
        if job.generation == self._generation:
            self._segments.note_synced(job.rolled)
            self.recovery_point = max(self.recovery_point, job.offset)

    def fail_flush(self, job: FlushJob) -> None:
        """The job has failed, or never ran: nothing became durable, and a later flush begins where it began."""
        self._flush_job = None
        if job.has_names:
            self._segments.names_changed = True
        if job.has_leader_epochs:
            self.leader_epochs.is_dirty = True

    def replay_producers(self, offset: Offset) -> None:
        """Bring the producers' state, which stands for the log below `offset`, to the log's end."""
        if offset >= self.log_end_offset:
            return
        for header in self._segments.headers_from(offset):
            if header.producer_id >= 0:
                self._note_producer(header, header.last_offset)

    # Cutting

    def truncate_to(self, offset: Offset, *, now_ms: TimestampMs) -> list[str]:
        """Drop every batch that ends at or after `offset`; returns the files to be removed later.

        A batch is dropped as a whole: where `offset` lies within one, the log then ends at its beginning.
        """
        if offset >= self.log_end_offset:
            return []
        if offset < self._segments.first_base_offset:
            return self.truncate_fully_and_start_at(offset, now_ms=now_ms)
        self._generation += 1
        self._has_changed = True
        try:
            self.log_end_offset, removed = self._segments.truncate_to(offset)
            self._after_truncation(now_ms)
        except (OSError, CorruptBatch) as error:
            raise StorageError(f"{self.name}: truncation to {offset} failed: {error}") from error
        return removed

    def truncate_fully_and_start_at(self, offset: Offset, *, now_ms: TimestampMs) -> list[str]:
        """Drop everything and go on at `offset`; returns the files to be removed later."""
        self._generation += 1
        self._has_changed = True
        try:
            removed = self._segments.restart_at(offset, now_ms)
            self.log_start_offset = self.log_end_offset = offset
            self._after_truncation(now_ms)
        except OSError as error:
            raise StorageError(f"{self.name}: new start at {offset} failed: {error}") from error
        return removed

    def _after_truncation(self, now_ms: TimestampMs) -> None:
        end_offset = self.log_end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        replay_from = self.producer_state.truncate_and_reload(
            log_start_offset=self._segments.first_base_offset, log_end_offset=end_offset, now_ms=now_ms
        )
        self.replay_producers(replay_from)

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Records below `offset` are no longer there (delete-records); their segments go with the next clean-up."""
        if not self.log_start_offset < offset <= self.log_end_offset:
            return False
        self.log_start_offset = offset
        self._has_changed = True
        self.leader_epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(self, now_ms: TimestampMs, *, high_watermark: Offset | None = None) -> list[str]:
        """Drop what retention says; returns the files to be removed after `file.delete.delay.ms`.

        When even the active segment has expired, a new one begins first, so the log keeps its end offset.
        """
        segments = self._segments
        try:
            count = count_deletable(
                segments.segments,
                self.config,
                now_ms=now_ms,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                high_watermark=self.log_end_offset if high_watermark is None else high_watermark,
            )
            if not count:
                return []
            if count == len(segments):
                self._roll(self.log_end_offset, now_ms)
            self.advance_log_start_offset(segments.segments[count].base_offset)
            removed = segments.drop_first(count)
            self.producer_state.delete_snapshots_before(self.log_start_offset)
        except OSError as error:
            raise StorageError(f"{self.name}: clean-up of old segments failed: {error}") from error
        self._has_changed = True
        return removed

    def segment_paths(self) -> list[str]:
        """The files of all segments."""
        return [path for segment in self._segments.segments for path in segment.paths]

    def close(self, *, now_ms: TimestampMs) -> None:
        """Make everything durable, for a start that needs no recovery. Blocks; the log is not used afterwards.

        A log that was not touched since it was loaded costs nothing.
        """
        segments = self._segments
        if not self._has_changed and not self.unflushed_messages:
            return
        self._settle_flush(now_ms)
        try:
            segments.active.finish_indexes()
            self.producer_state.take_final_snapshot(self.log_end_offset)
        except OSError as error:
            raise StorageError(f"{self.name}: close failed: {error}") from error
        if segments.active.size_bytes:
            segments.unsynced.append(segments.active)
        job = self.start_flush()
        if job is not None:
            job.run()
            self.finish_flush(job, now_ms=now_ms)
        for segment in segments.segments:
            segment.stop_appending()
        self._has_changed = False

    def _settle_flush(self, now_ms: TimestampMs) -> None:
        """A flush that was begun while the broker stopped: nobody told the log what became of it."""
        job = self._flush_job
        if job is None:
            return
        if job.error is not None:
            raise job.error  # a second fsync would succeed and save nothing
        if job.has_run:
            self.finish_flush(job, now_ms=now_ms)
        else:
            self.fail_flush(job)
