"""The offset checkpoints of each log directory: written when asked, one at a time for each file, read at start.

Also how a directory's own work is run: in the background where there is one, and with its failure taking the
directory offline.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from ottla.core.clock import Background
from ottla.core.disk import Disk
from ottla.core.types import Offset, TopicPartition
from ottla.storage.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpoint,
    read_offsets,
    write_offsets,
)
from ottla.storage.log import Log
from ottla.storage.logs_by_dir import LogsByDir, topic_partition_of

_Result = TypeVar("_Result")
_OffsetOf: TypeAlias = Callable[[Log], Offset | None]


class CheckpointedLogs(LogsByDir):
    """The part of the log manager that writes a directory's checkpoint files."""

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[str],
        *,
        on_dir_failed: Callable[[str, list[TopicPartition], str], None],
        background: Background | None,
    ) -> None:
        super().__init__(directories, on_dir_failed=on_dir_failed)
        self._disk = disk
        self._background = background
        # Checkpoint -> what it shall hold next, if it was asked for again meanwhile.
        self._being_written: dict[str, _OffsetOf | None] = {}

    def checkpoint_recovery_points(self) -> None:
        """Say how far each log is durable: recovery after a crash begins there."""
        self._checkpoint(RECOVERY_POINT_FILE, lambda log: log.recovery_point)

    def checkpoint_log_start_offsets(self) -> None:
        """Say where logs start that start within a segment (delete-records)."""
        self._checkpoint(LOG_START_OFFSET_FILE, lambda log: log.log_start_offset or None)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """For replication: how far each partition was committed."""
        self._checkpoint(HIGH_WATERMARK_FILE, lambda log: high_watermarks.get(topic_partition_of(log)))

    def read_high_watermarks(self) -> tuple[dict[TopicPartition, Offset], list[str]]:
        """Those of the last checkpoint, and notes. A partition that is not named starts at its log start offset."""
        high_watermarks: dict[TopicPartition, Offset] = {}
        notes = []
        for directory in self.online_directories:
            try:
                high_watermarks |= read_offsets(self._disk, f"{directory}/{HIGH_WATERMARK_FILE}")
            except MalformedCheckpoint as error:
                notes.append(f"{error}; its partitions start at their log start offsets")
            except OSError as error:
                self.fail_dir(directory, str(error))
        return high_watermarks, notes

    def _checkpoint(self, file_name: str, offset_of: _OffsetOf) -> None:
        for directory in self.online_directories:
            self._checkpoint_dir(directory, file_name, offset_of)

    def _checkpoint_dir(self, directory: str, file_name: str, offset_of: _OffsetOf) -> None:
        path = f"{directory}/{file_name}"
        if path in self._being_written:
            self._being_written[path] = offset_of
            return
        offsets = dict(self._offsets_in(directory, offset_of))
        self._being_written[path] = None

        def after() -> None:
            next_offset_of = self._being_written.pop(path, None)
            if next_offset_of is not None and directory in self._online:
                self._checkpoint_dir(directory, file_name, next_offset_of)

        self._run(directory, partial(write_offsets, self._disk, path, offsets), after)

    def _offsets_in(self, directory: str, offset_of: _OffsetOf) -> Iterator[tuple[TopicPartition, Offset]]:
        for topic_partition in self._online[directory]:
            offset = offset_of(self._logs[topic_partition])
            if offset is not None:
                yield topic_partition, offset

    def _run(self, directory: str, work: Callable[[], None], after: Callable[[], None] = lambda: None) -> None:
        def on_done(_: object, error: BaseException | None) -> None:
            if isinstance(error, OSError):
                self.fail_dir(directory, str(error))
            elif error is not None:
                raise error
            after()

        if self._background is not None:
            self._background.submit(work, on_done)
            return
        try:
            work()
        except OSError as error:
            on_done(None, error)
        else:
            on_done(None, None)

    def _end_background(self) -> None:
        """From now on everything is done at once; whatever ran in the background has ended."""
        self._background = None
        self._being_written.clear()

    def _over_directories(self, work: Callable[[str], _Result]) -> Iterator[tuple[str, _Result]]:
        """Do something in each directory that works; one where it fails goes offline."""
        for directory in self.online_directories:
            try:
                yield directory, work(directory)
            except OSError as error:
                self.fail_dir(directory, str(error))
