"""The segments of one log in their order: which one an offset is in, when a new one begins, how old ones go.

Mechanical: what may be appended, read or deleted is decided by the log. Failures of the disk are `OSError`.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ottla.core.disk import AppendFile, FileSlice
from ottla.core.types import Offset, TimestampMs
from ottla.records.header import BatchHeader
from ottla.storage.log_config import LogConfig
from ottla.storage.log_results import NOTHING, LogRead
from ottla.storage.open_files import OpenFiles
from ottla.storage.segment import Segment


class UnsyncedFiles(NamedTuple):
    """What one flush has to make durable."""

    files: list[AppendFile]
    rolled: tuple[Segment, ...]  # wholly durable after it, with their indexes
    with_dir: bool  # the folder too


class SegmentList:
    """At least one segment, the last of which is the active one. Owned by its log."""

    __slots__ = (
        "_base_offsets",
        "_needs_dir_sync",
        "_not_appended_bytes",
        "_open_files",
        "_rolled_bytes",
        "_unsynced",
        "active",
        "config",
        "directory",
        "segments",
    )

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        *,
        open_files: OpenFiles,
        segments: list[Segment],
        unsynced: list[Segment],
        needs_dir_sync: bool,
    ) -> None:
        self.directory = directory
        self.config = config
        self.segments = segments
        self.active = segments[-1]
        self._open_files = open_files
        self._base_offsets = [segment.base_offset for segment in segments]
        self._unsynced = unsynced  # rolled segments that no flush has covered wholly
        self._needs_dir_sync = needs_dir_sync  # files were made or renamed since the last fsync of the folder
        self._rolled_bytes = sum(segment.size_bytes for segment in segments[:-1])
        # Loaded, less what was dropped since: the rest of the size was appended, and no append has to count.
        self._not_appended_bytes = self.size_bytes

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def size_bytes(self) -> int:
        return self._rolled_bytes + self.active.size_bytes

    @property
    def appended_bytes(self) -> int:
        """Since the log was loaded, also what was dropped again."""
        return self.size_bytes - self._not_appended_bytes

    @property
    def first_base_offset(self) -> Offset:
        return self._base_offsets[0]

    def set_config(self, config: LogConfig) -> None:
        self.config = config
        self.active.set_config(config)

    # The end that grows

    def must_roll(
        self, *, size_bytes: int, last_offset: Offset, timestamp_ms: TimestampMs, now_ms: TimestampMs
    ) -> bool:
        """Whether a batch has to go to a new segment: by size, time, full indexes, or an offset too far away."""
        active = self.active
        active_bytes = active.size_bytes
        if not active_bytes:
            return not active.holds_relative_offset(last_offset)
        config = self.config
        if active_bytes + size_bytes > config.segment_bytes or not active.holds_relative_offset(last_offset):
            return True
        offset_index = active.offset_index
        time_index = active.time_index
        return (
            offset_index.entry_count >= offset_index.entries_max
            or time_index.entry_count >= time_index.entries_max
            or active.waited_for_roll_ms(now_ms=now_ms, batch_timestamp_ms=timestamp_ms) > active.roll_after_ms
        )

    def roll(self, base_offset: Offset, now_ms: TimestampMs) -> None:
        """Begin a new segment; the one that was active is complete, and waits for a flush."""
        rolled = self.active
        rolled.finish_indexes()
        segment = self._new_segment(base_offset, now_ms)
        rolled.forget_tail()
        self._unsynced.append(rolled)
        self._rolled_bytes += rolled.size_bytes
        self._add(segment)

    def _new_segment(self, base_offset: Offset, now_ms: TimestampMs) -> Segment:
        segment = Segment(
            self.directory, base_offset, open_files=self._open_files, config=self.config, created_ms=now_ms
        )
        self._needs_dir_sync = True
        segment.create_files()
        return segment

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    # Reading

    def base_offset_of(self, offset: Offset) -> Offset:
        """Of the segment that holds `offset`; the offset itself when it lies before all of them."""
        index = bisect_right(self._base_offsets, offset) - 1
        return self._base_offsets[index] if index >= 0 else offset

    def base_offset_above(self, offset: Offset) -> Offset | None:
        """Of the first segment that begins after `offset`; None when there is none."""
        index = bisect_right(self._base_offsets, offset)
        return self._base_offsets[index] if index < len(self._base_offsets) else None

    def read(
        self, offset: Offset, *, max_bytes: int, max_offset: Offset, log_end_offset: Offset, at_least_one: bool
    ) -> LogRead:
        """From the batch that holds `offset` up to `max_offset`, within one segment. CorruptBatch: a broken log."""
        segments = self.segments
        index = max(bisect_right(self._base_offsets, offset) - 1, 0)
        while True:
            segment = segments[index]
            position, first_bytes = segment.locate(offset)
            if first_bytes:
                break
            index += 1  # only a gap lies between the offset and the segment's end
            if index == len(segments):
                return NOTHING
        if index + 1 < len(segments):
            is_wholly_below = max_offset >= self._base_offsets[index + 1]
        else:
            is_wholly_below = max_offset == log_end_offset
        end = segment.size_bytes if is_wholly_below else segment.position_of(max_offset)
        length = end - position
        if length <= 0:
            return NOTHING
        file = self._open_files.read_file(segment.log_path)
        if length > max_bytes:
            if first_bytes <= max_bytes:
                length = max_bytes
            elif at_least_one:
                length = min(first_bytes, length)
            else:
                return NOTHING
        return LogRead(FileSlice(file, position, length))

    def from_offset(self, offset: Offset) -> list[Segment]:
        """The segment that holds `offset` and all later ones."""
        return self.segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def headers_from(self, offset: Offset) -> Iterator[BatchHeader]:
        """The headers of all batches that end at or after `offset`."""
        for segment in self.from_offset(offset):
            for _, header in segment.headers(segment.position_of(offset)):
                yield header

    # Flushing

    @property
    def has_unsynced(self) -> bool:
        """Whether a segment was rolled since the last flush."""
        return bool(self._unsynced)

    @property
    def needs_sync(self) -> bool:
        """Whether anything but the end of the active segment has to become durable."""
        return bool(self._unsynced) or self._needs_dir_sync

    def begin_sync(self, *, with_active: bool) -> UnsyncedFiles:
        """The open files behind all that is not known to be durable; then `end_sync` or `fail_sync`."""
        paths: list[str] = []
        for segment in self._unsynced:
            paths += segment.paths[:3]
            if segment.transaction_index.size_bytes:
                paths.append(segment.transaction_index.path)
        if with_active:
            paths.append(self.active.log_path)
        files = [self._open_files.append_file(path) for path in paths]
        unsynced = UnsyncedFiles(files, tuple(self._unsynced), self._needs_dir_sync)
        self._needs_dir_sync = False
        return unsynced

    def end_sync(self, synced: UnsyncedFiles) -> None:
        """These files are durable, and nothing was cut since the sync began."""
        for segment in synced.rolled:
            if segment in self._unsynced:
                self._unsynced.remove(segment)
                segment.stop_appending()

    def fail_sync(self, unsynced: UnsyncedFiles) -> None:
        """Nothing became durable."""
        if unsynced.with_dir:
            self._needs_dir_sync = True

    def finish(self) -> None:
        """Nothing is appended any more: the next sync covers the active segment with its indexes."""
        self.active.finish_indexes()
        if self.active.size_bytes:
            self._unsynced.append(self.active)

    def stop_appending(self) -> None:
        for segment in self.segments:
            segment.stop_appending()

    # Truncation and deletion

    def truncate_to(self, offset: Offset, now_ms: TimestampMs) -> tuple[Offset, list[str]]:
        """Drop every batch that ends at or after `offset`; returns the log's new end and the files to be removed.

        The first segment must begin at or below `offset`. Later segments go newest first, so that whatever part of
        the renames survives a crash, what is left has no hole. What is appended next goes to a file of its own: in the
        place of what was cut, a loss of power could leave some of the old batches before some of the new ones, and
        nothing would tell that they do not belong together.
        """
        removed = []
        size_before = self.size_bytes
        while len(self.segments) > 1 and self.active.base_offset > offset:
            removed += self._drop_last()
        truncated_offset = self.active.truncate_to(offset)
        self._not_appended_bytes -= size_before - self.size_bytes
        if truncated_offset is None:
            return offset, removed
        end_offset = min(truncated_offset, offset)
        if self.active.size_bytes:
            self.roll(end_offset, now_ms)
        else:
            self._needs_dir_sync = True
            removed += self.active.rename_to_deleted()
            self.segments[-1] = self.active = self._new_segment(self.active.base_offset, now_ms)
        return end_offset, removed

    def _drop_last(self) -> list[str]:
        self._needs_dir_sync = True
        segment = self.segments[-1]
        removed = segment.rename_to_deleted()
        del self.segments[-1], self._base_offsets[-1]
        self.active = self.segments[-1]
        self._rolled_bytes -= self.active.size_bytes
        if self.active in self._unsynced:
            self._unsynced.remove(self.active)
        return removed

    def restart_at(self, offset: Offset, now_ms: TimestampMs) -> list[str]:
        """Drop everything and continue with an empty segment at `offset`; returns the files to be removed."""
        size_bytes = self.size_bytes
        self._needs_dir_sync = True
        removed = []
        for segment in reversed(self.segments):
            removed += segment.rename_to_deleted()
        segment = self._new_segment(offset, now_ms)
        self.segments.clear()
        self._base_offsets.clear()
        self._unsynced.clear()
        self._not_appended_bytes -= size_bytes
        self._rolled_bytes = 0
        self._add(segment)
        return removed

    def drop_first(self, count: int) -> list[str]:
        """Drop the oldest segments, never the active one; returns the files to be removed."""
        removed = []
        for _ in range(count):
            segment = self.segments[0]
            self._needs_dir_sync = True
            removed += segment.rename_to_deleted()
            self._rolled_bytes -= segment.size_bytes
            self._not_appended_bytes -= segment.size_bytes
            del self.segments[0], self._base_offsets[0]
            if segment in self._unsynced:
                self._unsynced.remove(segment)
        return removed
