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
from ottla.storage.logs_by_dir import LogsByDir

_Result = TypeVar("_Result")
_OnDone: TypeAlias = Callable[[], None]

_FILES = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE)


class CheckpointedLogs(LogsByDir):
    """The part of the log manager that writes a directory's checkpoint files.

    A checkpoint names partitions by topic and number, so a topic that is deleted and made anew would inherit the
    offsets of the old one: a crash would cut its log at a start that it never had. So what a checkpoint says of a
    partition is taken back durably, before its deletion is over and before a new log is used (`_forget_offsets`).
    """

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
        self._being_written: dict[str, _Write] = {}  # by checkpoint
        # Checkpoint -> whom the file on disk names; not there before anybody needs to know.
        self._named: dict[str, set[TopicPartition]] = {}
        self._forgotten: dict[str, set[TopicPartition]] = {}  # by directory, until its next `_forget_offsets`
        self._high_watermarks: dict[TopicPartition, Offset] = {}  # as they were last read or given

    def checkpoint_recovery_points(self) -> None:
        """Say how far each log is durable: recovery after a crash begins there."""
        self._checkpoint(RECOVERY_POINT_FILE)

    def checkpoint_log_start_offsets(self) -> None:
        """Say where logs start that start within a segment (delete-records)."""
        self._checkpoint(LOG_START_OFFSET_FILE)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """For replication: how far each partition was committed."""
        self._high_watermarks = dict(high_watermarks)
        self._checkpoint(HIGH_WATERMARK_FILE)

    def read_high_watermarks(self) -> tuple[dict[TopicPartition, Offset], list[str]]:
        """Those of the last checkpoint, and notes. A partition that is not named starts at its log start offset."""
        high_watermarks: dict[TopicPartition, Offset] = {}
        notes = []
        for directory in self.online_directories:
            try:
                found = read_offsets(self._disk, f"{directory}/{HIGH_WATERMARK_FILE}")
            except MalformedCheckpoint as error:
                notes.append(f"{error}; its partitions start at their log start offsets")
            except OSError as error:
                self.fail_dir(directory, str(error))
            else:
                here = self._online[directory]
                high_watermarks.update((key, offset) for key, offset in found.items() if key in here)
        self._high_watermarks = dict(high_watermarks)
        return high_watermarks, notes

    def _checkpoint(self, file_name: str) -> None:
        for directory in self.online_directories:
            self._checkpoint_dir(directory, file_name)

    def _checkpoint_dir(self, directory: str, file_name: str, on_done: _OnDone | None = None) -> None:
        """Write the file with what holds now; `on_done` is called when that is durable, or the directory offline."""
        path = f"{directory}/{file_name}"
        waiting = [] if on_done is None else [on_done]
        write = self._being_written.get(path)
        if write is None:
            self._write_checkpoint(directory, file_name, waiting)
        else:
            write.is_asked_again = True  # its offsets were true before now
            write.waiting += waiting

    def _write_checkpoint(self, directory: str, file_name: str, waiting: list[_OnDone]) -> None:
        path = f"{directory}/{file_name}"
        offsets = dict(self._offsets_in(directory, file_name))
        write = self._being_written[path] = _Write(set(offsets))

        def after() -> None:
            self._being_written.pop(path, None)
            self._named[path] = write.names
            if write.is_asked_again and directory in self._online:
                self._write_checkpoint(directory, file_name, write.waiting)
            else:
                waiting.extend(write.waiting)
            for on_done in waiting:
                on_done()

        self._run(directory, partial(write_offsets, self._disk, path, offsets), after)

    def _offsets_in(self, directory: str, file_name: str) -> Iterator[tuple[TopicPartition, Offset]]:
        for topic_partition in self._online[directory]:
            log = self._logs[topic_partition]
            offset: Offset | None
            if file_name == RECOVERY_POINT_FILE:
                offset = log.recovery_point
            elif file_name == LOG_START_OFFSET_FILE:
                offset = log.log_start_offset or None
            else:
                offset = self._high_watermarks.get(topic_partition)
            if offset is not None:
                yield topic_partition, offset

    # Partitions that are gone, or new

    def _note_forgotten(self, directory: str, topic_partition: TopicPartition) -> None:
        """What the directory's checkpoints say of the partition is not about the log that is there now, if any."""
        self._forgotten.setdefault(directory, set()).add(topic_partition)
        self._high_watermarks.pop(topic_partition, None)

    def _forget_offsets(self, directory: str, on_done: _OnDone) -> None:
        """Call back when no checkpoint of the directory says anything of those that were noted, or it is offline."""
        forgotten = self._forgotten.pop(directory, None)
        if not forgotten or directory not in self._online:
            on_done()
            return
        paths = {f"{directory}/{file_name}": file_name for file_name in _FILES}
        found: dict[str, set[TopicPartition]] = {}

        def read_names() -> None:
            for path in paths.keys() - self._named.keys():
                try:
                    found[path] = set(read_offsets(self._disk, path))
                except MalformedCheckpoint:
                    found[path] = set()  # nobody believes it

        def on_read() -> None:
            for path, names in found.items():
                self._named.setdefault(path, names)  # what was written meanwhile is known better
            stale = [name for path, name in paths.items() if not forgotten.isdisjoint(self._named_soon(path))]
            if directory not in self._online or not stale:
                on_done()
                return
            left = len(stale)

            def after() -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    on_done()

            for name in stale:
                self._checkpoint_dir(directory, name, after)

        if paths.keys() <= self._named.keys():
            on_read()
        else:
            self._run(directory, read_names, on_read)

    def _named_soon(self, path: str) -> set[TopicPartition]:
        """Whom a checkpoint names now, or will when the write that is under way is done."""
        write = self._being_written.get(path)
        return self._named[path] if write is None else self._named[path] | write.names

    # Work of a directory

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


class _Write:
    """A checkpoint on its way to the disk, and who waits for the one after it."""

    __slots__ = ("is_asked_again", "names", "waiting")

    def __init__(self, names: set[TopicPartition]) -> None:
        self.names = names
        self.is_asked_again = False
        self.waiting: list[_OnDone] = []
