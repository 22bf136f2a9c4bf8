"""What a coordinator's shard and the runtime around it say to each other.

A shard is synchronous and owns no clock, no file and no socket: a request or a timer goes in, an `Outcome` comes out.
The runtime appends the records, replays them into the shard when they are committed, and only then lets the answer go.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from ottla.core.errors import ErrorCode
from ottla.core.timing_wheel import TimerTask

# Key and value of one record of the coordinator's topic; a value of None is a tombstone.
KeyValue: TypeAlias = tuple[bytes, bytes | None]


class Appendable(Protocol):
    """What the runtime needs of an `Outcome`; a request that comes in floods has an object of its own for it."""

    @property
    def records(self) -> Sequence[KeyValue]: ...

    @property
    def on_done(self) -> Callable[[ErrorCode], None] | None: ...

    @property
    def is_replayed(self) -> bool: ...


class Outcome(NamedTuple):
    """What a request or a timer came to.

    The records are appended as one batch. `on_done` is called exactly once: with NONE when they are committed (at once
    where there are none), or with the reason why they never will be. With `is_replayed` the runtime replays them into
    the shard just before; without, the shard's own state is ahead of the log and `on_done` brings it in line.
    """

    records: Sequence[KeyValue] = ()
    on_done: Callable[[ErrorCode], None] | None = None
    is_replayed: bool = True


NOTHING = Outcome()


class ShardTimer(TimerTask):
    """A timer whose end is an event of a shard; scheduled through `ShardTimers`, cancelled by `cancel`."""

    __slots__ = ("_execute",)

    _execute: Callable[[Outcome], None]

    def bind(self, execute: Callable[[Outcome], None]) -> None:
        """Called by the runtime when the timer is scheduled: where its outcome goes."""
        self._execute = execute

    def expire(self) -> Outcome:
        """The time has come; the timer is in no wheel any more and may be scheduled again."""
        raise NotImplementedError

    def run(self, now_ms: int) -> None:
        self._execute(self.expire())


class ShardTimers(Protocol):
    """Timers of one shard, on the broker's wheel."""

    def schedule(self, timer: ShardTimer, *, delay_ms: int) -> None:
        """Let it expire in `delay_ms`; one that already waits is moved."""
        ...

    def now_ms(self) -> int:
        """The wheel's own clock, for time that passes; not the time of day."""
        ...
