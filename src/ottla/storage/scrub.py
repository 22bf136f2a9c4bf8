"""A slow walk over all finished segments that checks every batch again and reports what has rotted.

It changes nothing: what to do about damage is its owner's decision. The segment that is being appended to
is left out. State goes to a thread with each slice and comes back with its end, so it is never shared.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.core.clock import Background
from ottla.core.disk import Disk
from ottla.core.types import TopicPartition
from ottla.records.errors import CorruptBatch
from ottla.storage.batch_scan import scan_checked
from ottla.storage.log import Log
from ottla.storage.logs_by_dir import topic_partition_of
from ottla.storage.segment_files import LOG_SUFFIX


class Damage(NamedTuple):
    """A batch that fails its checksum, or a stretch that can't be read; what lies behind it was not looked at."""

    topic_partition: TopicPartition
    path: str
    position: int
    message: str


class _Segment(NamedTuple):
    topic_partition: TopicPartition
    directory: str
    name: str
    size_bytes: int

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"


class Scrubber:
    """Owned by the event loop, which calls `tick` as often as it likes: each reads about `bytes_per_tick`.

    When all logs are done, the next `tick` begins a new round.
    """

    def __init__(
        self,
        disk: Disk,
        background: Background,
        *,
        logs: Callable[[], list[Log]],
        on_damage: Callable[[Damage], None],
        bytes_per_tick: int,
    ) -> None:
        self._disk = disk
        self._background = background
        self._logs = logs
        self._on_damage = on_damage
        self._bytes_per_tick = bytes_per_tick
        self._is_running = False
        self._folders: deque[tuple[TopicPartition, str]] = deque()
        self._segments: deque[_Segment] = deque()
        self._position = 0  # in the first segment
        self.rounds_finished = 0
        self.checked_bytes = 0

    def tick(self) -> None:
        """Check the next slice, unless the one before is still at it."""
        if self._is_running:
            return
        if not self._folders and not self._segments:
            self._folders.extend((topic_partition_of(log), log.directory) for log in self._logs())
        self._is_running = True
        self._background.submit(self._check_slice, self._on_slice_done)

    def _on_slice_done(self, found: Any, error: BaseException | None) -> None:
        self._is_running = False
        if error is not None:
            raise error
        if not self._folders and not self._segments:
            self.rounds_finished += 1
        for damage in found:
            self._on_damage(damage)

    def _check_slice(self) -> list[Damage]:
        found: list[Damage] = []
        bytes_left = self._bytes_per_tick
        while bytes_left > 0:
            if self._segments:
                bytes_left -= self._check_segment(self._segments[0], bytes_left, found)
            elif self._folders:
                self._segments.extend(self._finished_segments(*self._folders.popleft()))
            else:
                break
        return found

    def _finished_segments(self, topic_partition: TopicPartition, directory: str) -> list[_Segment]:
        try:
            entries = sorted(entry for entry in self._disk.list(directory) if entry.name.endswith(LOG_SUFFIX))
        except FileNotFoundError:
            return []  # the log was deleted
        return [_Segment(topic_partition, directory, entry.name, entry.size_bytes) for entry in entries[:-1]]

    def _check_segment(self, segment: _Segment, bytes_max: int, found: list[Damage]) -> int:
        """Go on in a segment for about `bytes_max`; returns how many bytes were checked."""
        start = self._position
        try:
            file = self._disk.open_read(segment.path)
            for position, header in scan_checked(file, start=start, end=segment.size_bytes):
                self._position = position + header.size_bytes
                if self._position - start >= bytes_max:
                    break
        except FileNotFoundError:
            self._position = segment.size_bytes  # retention took it
        except (CorruptBatch, OSError) as error:
            if self._is_unchanged(segment):
                found.append(Damage(segment.topic_partition, segment.path, self._position, str(error)))
            self._position = segment.size_bytes
        checked = self._position - start
        self.checked_bytes += checked
        if self._position >= segment.size_bytes:
            self._segments.popleft()
            self._position = 0
        return checked

    def _is_unchanged(self, segment: _Segment) -> bool:
        """Not cut or replaced since it was listed, which looks like damage from here."""
        try:
            entries = self._disk.list(segment.directory)
        except FileNotFoundError:
            return False
        return any(entry.name == segment.name and entry.size_bytes == segment.size_bytes for entry in entries)
