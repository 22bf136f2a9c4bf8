"""A broker's background and loop, run by hand."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ottla.core.errors import StorageError

T = TypeVar("T")
R = TypeVar("R")
Done = Callable[[Any, BaseException | None], None]


class HandBackground:
    """Keeps what was submitted until the test runs it; results come at once."""

    def __init__(self) -> None:
        self.threads = 0
        self._is_closed = False
        self.waiting: list[tuple[Callable[[], Any], Done]] = []
        self.started: list[tuple[Any, BaseException | None, Done]] = []

    def submit(self, work: Callable[[], Any], on_done: Done) -> None:
        if not self._is_closed:
            self.waiting.append((work, on_done))

    def resize(self, threads: int) -> None:
        self.threads = threads

    def map(self, work: Callable[[T], R], items: Iterable[T], *, threads: int) -> list[R]:
        return [work(item) for item in items]

    def run_last(self, work: Callable[[], Any], on_done: Done) -> None:
        self.waiting = [(work, on_done)]
        self._is_closed = True

    def work_only(self) -> None:
        """Do the work of the oldest one, as a thread would, without telling the loop yet."""
        work, on_done = self.waiting.pop(0)
        try:
            self.started.append((work(), None, on_done))
        except (OSError, StorageError) as error:
            self.started.append((None, error, on_done))

    def report(self) -> None:
        """Tell the loop about the oldest one that worked."""
        result, error, on_done = self.started.pop(0)
        on_done(result, error)

    def run_one(self) -> None:
        self.work_only()
        self.report()

    def run_all(self) -> int:
        """Until nothing is left; returns how many ran."""
        count = 0
        while self.waiting:
            self.run_one()
            count += 1
        return count


class HandTimer:
    """What `call_at` gives."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandLoop:
    """`call_soon` with turns, and a clock with timers, all in the test's hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.soon: list[Callable[[], object]] = []
        self._timers: list[HandTimer] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def call_at(self, when: float, callback: Callable[[], object]) -> HandTimer:
        self._timers.append(HandTimer(when, callback))
        return self._timers[-1]

    def turn(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()

    @property
    def pending(self) -> list[HandTimer]:
        self._timers = [timer for timer in self._timers if not timer.is_cancelled]
        return self._timers

    def run_for(self, delay_ms: int) -> int:
        """Move the clock from timer to timer; how many fired."""
        end = self.now + delay_ms / 1000
        fired = 0
        while due := [timer for timer in self.pending if timer.when <= end]:
            first = min(due, key=lambda timer: timer.when)
            self._timers.remove(first)
            self.now = max(self.now, first.when)
            first.callback()
            fired += 1
        self.now = end
        return fired
