"""An event loop of which only the clock and the timers are there, both in the test's hand."""

import asyncio
from collections.abc import Callable
from typing import cast


class FakeTimerHandle:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """`call_at` and `time`; `run_for` moves the clock from timer to timer."""

    def __init__(self) -> None:
        self.now = 100.0
        self.handles: list[FakeTimerHandle] = []

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> FakeTimerHandle:
        self.handles.append(FakeTimerHandle(when, callback))
        return self.handles[-1]

    @property
    def pending(self) -> list[FakeTimerHandle]:
        self.handles = [handle for handle in self.handles if not handle.is_cancelled]
        return self.handles

    def run_for(self, delay_ms: int) -> int:
        """Returns how many timers fired."""
        end = self.now + delay_ms / 1000
        fired = 0
        while due := [handle for handle in self.pending if handle.when <= end]:
            first = min(due, key=lambda handle: handle.when)
            self.handles.remove(first)
            self.now = max(self.now, first.when)
            first.callback()
            fired += 1
        self.now = end
        return fired
