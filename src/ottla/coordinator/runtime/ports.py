"""What the runtime, its shards and the broker require of each other.

A shard is synchronous and owns no clock, no file and no socket: a request or a timer goes in, an `Outcome` comes out.
The runtime appends the records, and calls `on_done` when they are committed: only then is the request answered. Who
brings the shard's state in line with its records, the outcome says (`Replay`).
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode
from ottla.core.timing_wheel import TimerTask
from ottla.core.types import Offset

# Key and value of one record of the coordinator's topic; a value of None is a tombstone.
KeyValue: TypeAlias = tuple[bytes, bytes | None]


class DamagedRecord(Exception):
    """A record of the coordinator's topic that can't be read; the message says what is wrong with it."""


# What a shard decides


class Replay(Enum):
    """Who brings a shard's state in line with the records of an outcome."""

    ON_COMMIT = 1  # the runtime, by `replay`, just before it calls `on_done`
    IF_LATE = 2  # `on_done`; the runtime only if the records are committed after the caller was timed out
    NEVER = 3  # the shard's state is ahead of the log, and `on_done` undoes what was not stored


# Names of their own, because a lookup in an enum class is slow and this is read for each commit.
ON_COMMIT: Final = Replay.ON_COMMIT
IF_LATE: Final = Replay.IF_LATE
NEVER: Final = Replay.NEVER


class Appendable(Protocol):
    """What the runtime needs of an `Outcome`; a request that comes in floods has an object of its own for it."""

    @property
    def records(self) -> Sequence[KeyValue]: ...

    @property
    def on_done(self) -> Callable[[ErrorCode], None] | None: ...

    @property
    def replay(self) -> Replay: ...


class Outcome(NamedTuple):
    """What a request or a timer leads to.

    The records are appended as one batch. `on_done` is called exactly once: with NONE when they are committed (at once
    where there are none), or with the reason why they are not.
    """

    records: Sequence[KeyValue] = ()
    on_done: Callable[[ErrorCode], None] | None = None
    replay: Replay = ON_COMMIT


NOTHING = Outcome()


class Shard(Protocol):
    """The state of one partition: what replaying its records gives. Made empty, filled by `replay`, then served."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Bring the state in line with a record of the log; raises DamagedRecord. While loading on another thread."""
        ...

    def live_records(self) -> Iterator[KeyValue]:
        """All that is needed to build the shard anew; each value is taken when it is asked for."""
        ...

    def on_loaded(self) -> None:
        """The last record was replayed and requests may come: timers start."""
        ...

    def unload(self, error_code: ErrorCode) -> None:
        """The partition is no longer served here: requests that wait are answered with the error, timers end."""
        ...


# Timers of a shard


class ShardTimer(TimerTask):
    """Runs the action that it was last given, and gives its outcome to the runtime."""

    __slots__ = ("_execute", "action")

    _execute: Callable[[Outcome], None]

    def __init__(self, action: Callable[[], Outcome] | None = None) -> None:
        super().__init__()
        self.action = action

    def bind(self, execute: Callable[[Outcome], None]) -> None:
        """Called by the runtime when the timer is scheduled: where its outcome goes."""
        self._execute = execute

    def run(self, now_ms: int) -> None:
        if self.action is not None:
            self._execute(self.action())


class ShardTimers(Protocol):
    """Timers of one shard, on the broker's wheel."""

    def schedule(self, timer: ShardTimer, *, delay_ms: int) -> None:
        """Let it expire in `delay_ms`; one that already waits is moved."""
        ...

    def time(self) -> float:
        """Seconds on the wheel's own clock, for time that passes; not the time of day."""
        ...


# What the broker provides


class WheelTimers(Protocol):
    """The broker's timing wheel with its clock."""

    def add(self, task: TimerTask, *, delay_ms: int) -> None: ...

    def time(self) -> float:
        """In seconds, straight from the event loop: it is asked for with each heartbeat."""
        ...


class PartitionLog(Protocol):
    """One partition of the coordinator's topic, which this broker leads; event loop only."""

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def committed_offset(self) -> Offset:
        """What lies below is on all in-sync replicas."""
        ...

    def append(self, batch: bytearray) -> ErrorCode:
        """Add a batch at the end; with an error nothing was written."""
        ...

    def await_commit(self, offset: Offset, on_done: Callable[[ErrorCode], None]) -> None:
        """Call back when everything below `offset` is committed, or when it never will be here."""
        ...

    def read(self, offset: Offset, *, max_bytes: int) -> FileSlice | ErrorCode:
        """From the batch that holds `offset` on, committed or not; at least one batch, the last may be cut."""
        ...

    def next_segment_offset(self, offset: Offset) -> Offset:
        """Where the segment after that of `offset` begins, or the log's end: the way around what can't be read."""
        ...

    # For the rewriting

    def roll(self) -> ErrorCode:
        """Begin a new segment, so that the ones before can go as a whole."""
        ...

    def await_durable(self, offset: Offset, on_done: Callable[[ErrorCode], None]) -> None:
        """Have everything below `offset` fsynced."""
        ...

    def delete_before(self, offset: Offset) -> None:
        """Move the start of the log up, and let the segments go that lie wholly below."""
        ...
