"""The clock and the background threads as ports: the core gets `now_ms` and never waits."""

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ottla.core.types import TimestampMs

Clock: TypeAlias = Callable[[], TimestampMs]


def wall_clock_ms() -> TimestampMs:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Background(Protocol):
    """Threads for what blocks or burns CPU; the answer comes back on the owner's thread."""

    def submit(self, work: Callable[[], Any], on_done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `work` elsewhere, then call `on_done(result, error)` on the event loop."""
        ...
