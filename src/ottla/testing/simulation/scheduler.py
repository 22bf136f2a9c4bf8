"""The time of a simulation: one heap of what is due, and a loop for each process that lives in it.

Nothing waits: the clock jumps from one step to the next. All that is random comes from the seed. A step that fails
ends the run, unless its process says what becomes of the failure.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Final

from ottla.testing.simulation.trace import FOLDED_AT, Trace

# Between a `call_soon` and its turn: so that processes take turns in any order, and a loop without end takes time.
_TURN_MIN_S: Final = 0.000_002
_TURN_SPREAD_S: Final = 0.000_030

WALL_CLOCK_START_MS: Final = 1_700_000_000_000


class StillRunning(Exception):
    """What a run waited for did not come in time."""


class Timer:
    """One callback that is due at a time, on one loop. Cancelling one that has run does nothing."""

    __slots__ = ("callback", "loop")

    def __init__(self, loop: "ProcessLoop", callback: Callable[[], object]) -> None:
        self.loop = loop
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Scheduler:
    """Made by whoever runs the simulation, with its seed; `now` is in seconds since the start."""

    __slots__ = ("_heap", "_sequence", "after_step", "now", "seed", "steps", "trace", "wall_clock_start_ms", "world")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        self.steps = 0
        self.after_step: Callable[[ProcessLoop], None] | None = None  # for who watches a run; set it before
        self.trace = Trace()
        self.wall_clock_start_ms = WALL_CLOCK_START_MS
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = 0
        self.world = ProcessLoop(self, "world")  # what happens outside of all processes

    def random(self, name: str) -> Random:
        """Randomness of one part's own: what another part draws does not change it."""
        return Random(f"{self.seed}/{name}")

    def call_at(self, when: float, callback: Callable[[], object], loop: "ProcessLoop | None" = None) -> Timer:
        """Run `callback` at a time of the scheduler's own clock, as a step of a process or of the world."""
        timer = Timer(loop or self.world, callback)
        self._push(when, timer)
        return timer

    @property
    def next_due(self) -> float:
        """When the next step is due, or something that was cancelled; far away when there is nothing."""
        return self._heap[0][0] if self._heap else inf

    def note(self, loop: "ProcessLoop", kind: str) -> None:
        """Have the trace say that this happened."""
        self.trace.note(self.now, loop.number, kind)

    def run_until(self, end: float | Callable[[], bool], *, within_s: float = inf) -> None:
        """Run what is due until a time or until a condition holds; StillRunning if that takes more than `within_s`."""
        if not callable(end):
            self._run(end, None)
            self.now = max(self.now, end)
            return
        deadline = self.now + within_s
        if end() or self._run(deadline, end):
            return
        self.now = max(self.now, deadline)
        raise StillRunning(f"not so after {within_s} s, at {self.now:.6f} s; seed {self.seed}")

    def _run(self, end: float, condition: Callable[[], bool] | None) -> bool:
        loop = self.world
        while True:
            try:
                heap = self._heap
                trace = self.trace
                steps = trace.steps
                after_step = self.after_step
                while heap and heap[0][0] <= end:
                    when, _, timer = heappop(heap)
                    callback = timer.callback
                    if callback is None:
                        continue
                    loop = timer.loop
                    if when > self.now:
                        self.now = when
                    if not loop.is_running:
                        loop.hold(timer)
                        continue
                    timer.callback = None
                    self.steps += 1
                    steps.append((when, loop.number, callback))
                    if len(steps) >= FOLDED_AT:
                        trace.fold()
                    callback()
                    if after_step is not None:
                        after_step(loop)
                    if condition is not None and condition():
                        return True
                return False
            except Exception as error:
                if loop.on_error is None or not loop.on_error(error):
                    error.add_note(f"in {loop.name} at {self.now:.6f} s of the simulation with seed {self.seed}")
                    raise

    def _push(self, when: float, timer: Timer) -> None:
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (when if when > self.now else self.now, sequence, timer))


class ProcessLoop:
    """The loop of one life of a process: its turns, its timers, its clocks. Implements `broker/ports.py` Loop.

    `rate` is how fast its clocks go; `clock_offset_ms` how far its wall clock is off, and may be changed at any time.
    """

    __slots__ = (
        "_held",
        "_ready",
        "_scheduler",
        "_starts_at",
        "_turn_random",
        "clock_offset_ms",
        "is_dead",
        "is_running",
        "name",
        "number",
        "on_error",
        "rate",
    )

    def __init__(self, scheduler: Scheduler, name: str, *, rate: float = 1.0, starts_at: float = 0.0) -> None:
        self.name = name
        self.number = scheduler.trace.name_process(name)
        self.rate = rate
        self.clock_offset_ms = 0
        self.is_running = True
        self.is_dead = False
        self.on_error: Callable[[Exception], bool] | None = None  # True: handled, the run goes on
        self._scheduler = scheduler
        self._starts_at = starts_at
        self._turn_random = scheduler.random(f"{name}/{self.number}/turns").random
        self._ready: list[Callable[[], object]] = []
        self._held: list[Timer] = []  # came due while the process was stopped

    # The port

    def time(self) -> float:
        return self._starts_at + self._scheduler.now * self.rate

    def call_soon(self, callback: Callable[[], object], /) -> None:
        if self.is_dead:
            return
        ready = self._ready
        if not ready:
            scheduler = self._scheduler
            scheduler._push(
                scheduler.now + _TURN_MIN_S + _TURN_SPREAD_S * self._turn_random(), Timer(self, self._run_turn)
            )
        ready.append(callback)

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer:
        timer = Timer(self, callback)
        if not self.is_dead:
            self._scheduler._push((when - self._starts_at) / self.rate, timer)
        return timer

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        timer = Timer(self, callback)
        if not self.is_dead:
            self._scheduler._push(self._scheduler.now + delay_s / self.rate, timer)
        return timer

    def clock(self) -> int:
        """The time of day, in milliseconds."""
        scheduler = self._scheduler
        return scheduler.wall_clock_start_ms + self.clock_offset_ms + int(scheduler.now * self.rate * 1000)

    # What is done to the process

    def stop(self) -> None:
        """As SIGSTOP: what comes due waits."""
        self.is_running = False

    def go_on(self) -> None:
        """As SIGCONT: what has waited is run now, in its order."""
        if self.is_dead or self.is_running:
            return
        self.is_running = True
        held, self._held = self._held, []
        for timer in held:
            if timer.callback is not None:
                self._scheduler._push(self._scheduler.now, timer)

    def kill(self) -> None:
        """Nothing of this life runs any more, whatever it has asked for."""
        self.is_running = False
        self.is_dead = True
        self._ready.clear()
        self._held.clear()

    def hold(self, timer: Timer) -> None:
        """The scheduler's: it came due, and the process does not run."""
        if not self.is_dead:
            self._held.append(timer)

    def _run_turn(self) -> None:
        ready, self._ready = self._ready, []
        for callback in ready:
            if self.is_dead:
                return
            callback()
