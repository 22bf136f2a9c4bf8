"""The ports for the clock and for background threads: the core gets `now_ms` as an argument and never waits."""

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ottla.core.types import TimestampMs

Clock: TypeAlias = Callable[[], TimestampMs]


def wall_clock_ms() -> TimestampMs:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Background(Protocol):
    """Threads for work that blocks or needs much CPU; the result comes back on the owner's thread."""

    def submit(self, work: Callable[[], Any], on_done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `work` on another thread, then call `on_done(result, error)` on the event loop."""
        ...
