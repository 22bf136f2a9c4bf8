"""The offset checkpoints of the log directories: written when asked, one at a time for each file, read at start.

Their format is that of `checkpoints.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

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

_OnDone: TypeAlias = Callable[[], None]

_FILES = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE)


class DirCheckpoints:
    """Owned by the log manager; event loop only.

    A checkpoint names partitions by topic and number, so a topic that is deleted and created again would inherit the
    offsets of the old one: a crash would cut its log at a start that it never had. So such entries are marked stale,
    and rewritten durably before the deletion is over and before a new log is used.
    """

    def __init__(self, disk: Disk, logs: LogsByDir) -> None:
        self._disk = disk
        self._logs = logs
        self._writes: dict[str, _Write] = {}  # by path: those under way
        # Path -> the partitions that the file on disk names; read when they are first needed.
        self._named: dict[str, set[TopicPartition]] = {}
        self._stale: dict[str, set[TopicPartition]] = {}  # by directory, until its next `rewrite_stale`
        self._high_watermarks: dict[TopicPartition, Offset] = {}  # as they were last read or given

    def write_recovery_points(self) -> None:
        """How far each log is durable: recovery after a crash begins there."""
        self._write_all(RECOVERY_POINT_FILE)

    def write_after_truncation(self, directory: str, on_done: _OnDone | None = None) -> None:
        """A log of the directory was cut: neither its recovery point nor its start may lie behind its end."""
        if on_done is None:
            self._write(directory, LOG_START_OFFSET_FILE)
            self._write(directory, RECOVERY_POINT_FILE)
        else:
            self._write(directory, LOG_START_OFFSET_FILE, lambda: self._write(directory, RECOVERY_POINT_FILE, on_done))

    def write_log_start_offsets(self) -> None:
        """Where logs start that start within a segment (delete-records)."""
        self._write_all(LOG_START_OFFSET_FILE)

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset] | None = None) -> None:
        """How far each partition was committed; None stands for those that were last read or given."""
        if high_watermarks is not None:
            self._high_watermarks = dict(high_watermarks)
        elif not self._high_watermarks:
            return
        self._write_all(HIGH_WATERMARK_FILE)

    def read_high_watermarks(self) -> tuple[dict[TopicPartition, Offset], list[str]]:
        """Those of the last checkpoint, and notes. A partition that is not named starts at its log start offset."""
        high_watermarks: dict[TopicPartition, Offset] = {}
        notes = []
        for directory in self._logs.online_directories:
            try:
                found = read_offsets(self._disk, f"{directory}/{HIGH_WATERMARK_FILE}")
            except MalformedCheckpoint as error:
                notes.append(f"{error}; its partitions start at their log start offsets")
            except OSError as error:
                self._logs.fail_dir(directory, str(error))
            else:
                here = dict(self._logs.logs_in(directory))
                high_watermarks.update((key, offset) for key, offset in found.items() if key in here)
        self._high_watermarks = dict(high_watermarks)
        return high_watermarks, notes

    def abandon_writes(self) -> None:
        """The broker stops: what was under way has ended, and no caller waits for it."""
        self._writes.clear()

    def _write_all(self, file_name: str) -> None:
        for directory in self._logs.online_directories:
            self._write(directory, file_name)

    def _write(self, directory: str, file_name: str, on_done: _OnDone | None = None) -> None:
        """Write the file with what holds now; `on_done` is called when that is durable, or the directory offline."""
        path = f"{directory}/{file_name}"
        waiting = [] if on_done is None else [on_done]
        write = self._writes.get(path)
        if write is None:
            self._begin_write(directory, file_name, waiting)
        else:
            write.must_repeat = True  # its offsets were true before now
            write.waiting += waiting

    def _begin_write(self, directory: str, file_name: str, waiting: list[_OnDone]) -> None:
        path = f"{directory}/{file_name}"
        offsets = dict(self._offsets_in(directory, file_name))
        write = self._writes[path] = _Write(set(offsets))

        def after() -> None:
            self._writes.pop(path, None)
            self._named[path] = write.names
            if write.must_repeat and self._logs.is_online(directory):
                self._begin_write(directory, file_name, write.waiting)
            else:
                waiting.extend(write.waiting)
            for on_done in waiting:
                on_done()

        self._logs.run(directory, partial(write_offsets, self._disk, path, offsets), after)

    def _offsets_in(self, directory: str, file_name: str) -> Iterator[tuple[TopicPartition, Offset]]:
        for topic_partition, log in self._logs.logs_in(directory):
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

    def mark_stale(self, directory: str, topic_partition: TopicPartition) -> None:
        """What the directory's checkpoints say of the partition is not about the log that is there now, if any."""
        self._stale.setdefault(directory, set()).add(topic_partition)
        self._high_watermarks.pop(topic_partition, None)

    def rewrite_stale(self, directory: str, on_done: _OnDone) -> None:
        """Call back when no checkpoint of the directory has an entry that was marked, or the directory is offline."""
        marked = self._stale.pop(directory, None)
        if not marked or not self._logs.is_online(directory):
            on_done()
            return
        paths = {f"{directory}/{file_name}": file_name for file_name in _FILES}
        unread = [path for path in paths if path not in self._named]
        found: dict[str, set[TopicPartition]] = {}

        def read_names() -> None:
            for path in unread:
                try:
                    found[path] = set(read_offsets(self._disk, path))
                except MalformedCheckpoint:
                    found[path] = set()  # a start does not trust it either

        def on_read() -> None:
            if not self._logs.is_online(directory):  # perhaps since the read, and then not all is known
                on_done()
                return
            for path, names in found.items():
                self._named.setdefault(path, names)  # what was written meanwhile is known better
            stale = [name for path, name in paths.items() if not marked.isdisjoint(self._named_soon(path))]
            if not stale:
                on_done()
                return
            left = len(stale)

            def after() -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    on_done()

            for name in stale:
                self._write(directory, name, after)

        if unread:
            self._logs.run(directory, read_names, on_read)
        else:
            on_read()

    def _named_soon(self, path: str) -> set[TopicPartition]:
        """Whom a checkpoint names now, or will when the write that is under way is done."""
        write = self._writes.get(path)
        return self._named[path] if write is None else self._named[path] | write.names


class _Write:
    """A checkpoint on its way to the disk, and who waits for the one after it."""

    __slots__ = ("must_repeat", "names", "waiting")

    def __init__(self, names: set[TopicPartition]) -> None:
        self.names = names
        self.must_repeat = False
        self.waiting: list[_OnDone] = []
