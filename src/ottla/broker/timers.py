"""Drives the timing wheel with one timer of the event loop, and repeats work at intervals.

The wheel runs on the loop's monotonic clock, so a jump of the wall clock neither fires nor delays anything.
"""

import logging
from collections.abc import Callable

from ottla.broker.ports import Loop, TimerHandle
from ottla.core.timing_wheel import TimerTask, TimingWheel

_LOG = logging.getLogger("ottla.timers")
_STEPS_PER_TURN = 2_000


class Timers:
    """Owns the wheel and the one loop timer that stands at its next expiry; idle when nothing waits."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.time = loop.time  # in seconds, for callers that ask too often to go through `now_ms`
        self.wheel = TimingWheel(start_ms=self.now_ms())
        self._handle: TimerHandle | None = None
        self._armed_for_ms = 0

    def now_ms(self) -> int:
        """The clock of the wheel; not the time of day."""
        return int(self._loop.time() * 1000)

    def arm(self) -> None:
        """To be called after something was added to the wheel."""
        expiry_ms = self.wheel.next_expiry_ms()
        if expiry_ms is None:
            return
        if self._handle is not None:
            if self._armed_for_ms <= expiry_ms:
                return  # it fires early enough, and then looks again
            self._handle.cancel()
        self._armed_for_ms = expiry_ms
        # One tick later than asked: the loop's timer must not fire a fraction of a tick early and spin.
        self._handle = self._loop.call_at((expiry_ms + 1) / 1000, self._fire)

    def add(self, task: TimerTask, *, delay_ms: int) -> None:
        self.wheel.add(task, delay_ms=delay_ms, now_ms=self.now_ms())
        self.arm()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> "DelayedCall":
        """Call `callback` once; `cancel` of what this returns takes it back."""
        task = DelayedCall(callback)
        self.add(task, delay_ms=delay_ms)
        return task

    def every(self, interval_ms: int, work: Callable[[], None]) -> "Repeating":
        """Run `work` each `interval_ms`, the first time after one interval."""
        task = Repeating(self, interval_ms, work)
        self.add(task, delay_ms=interval_ms)
        return task

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        try:
            self.wheel.advance(self.now_ms(), step_limit=_STEPS_PER_TURN)
        finally:
            self.arm()  # also after a task that failed: the others still wait


class DelayedCall(TimerTask):
    """One call at a later time."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        super().__init__()
        self._callback = callback

    def run(self, now_ms: int) -> None:
        self._callback()


class Repeating(TimerTask):
    """Work that comes again until `stop`; a failure is logged and does not end it."""

    __slots__ = ("_interval_ms", "_is_stopped", "_timers", "_work")

    def __init__(self, timers: Timers, interval_ms: int, work: Callable[[], None]) -> None:
        super().__init__()
        self._timers = timers
        self._interval_ms = interval_ms
        self._work = work
        self._is_stopped = False

    def stop(self) -> None:
        """For good; the work may call it itself, while `cancel` would find it in no wheel then."""
        self._is_stopped = True
        self.cancel()

    def run(self, now_ms: int) -> None:
        try:
            self._work()
        except OSError:
            # A disk that fails in the background is reported here; the next turn finds the directory offline.
            _LOG.exception("background work failed: %s", self._work)
        finally:
            if not self._is_stopped:
                self._timers.add(self, delay_ms=self._interval_ms)
