"""One clock for several processes, moved by hand, and couriers that delay or drop what they carry."""

import heapq
from collections.abc import Callable
from random import Random

Callback = Callable[[], None]


class _Timer:
    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandTime:
    """Due callbacks of all loops in the order of their times, then of their calls."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._count = 0
        self._due: list[tuple[float, int, HandLoop, _Timer]] = []

    def add(self, when: float, loop: "HandLoop", callback: Callback) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._due, (max(when, self.now), self._count, loop, timer))
        self._count += 1
        return timer

    def run_for(self, seconds: float) -> None:
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, loop, timer = heapq.heappop(self._due)
            loop.run(timer)
        self.now = end


class HandLoop:
    """One process: stopped, it keeps what is due; dead, it drops it."""

    def __init__(self, time: HandTime) -> None:
        self._time = time
        self._kept: list[_Timer] | None = None
        self.is_dead = False

    def time(self) -> float:
        return self._time.now

    def call_soon(self, callback: Callback) -> None:
        self._time.add(self._time.now, self, callback)

    def call_at(self, when: float, callback: Callback) -> _Timer:
        return self._time.add(when, self, callback)

    def stop(self) -> None:
        self._kept = []

    def go_on(self) -> None:
        kept, self._kept = self._kept, None
        for timer in kept or ():
            self.run(timer)

    def run(self, timer: _Timer) -> None:
        if self.is_dead:
            return
        if self._kept is not None:
            self._kept.append(timer)
        elif timer.callback is not None:
            timer.callback()


class RandomCourier:
    """Each message takes its own time, so that one may overtake another; the next `drops` are lost."""

    def __init__(self, loop: HandLoop, random: Random, *, delay_max_s: float) -> None:
        self._loop = loop
        self._random = random
        self._delay_max_s = delay_max_s
        self.drops = 0

    def carry(self, message: Callback) -> None:
        if self.drops:
            self.drops -= 1
            return
        self._loop.call_at(self._loop.time() + self._random.uniform(0, self._delay_max_s), message)
