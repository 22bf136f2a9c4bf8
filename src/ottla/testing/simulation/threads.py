"""The threads of a simulated process: work is done at once, some time later, and its result comes later still."""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from ottla.testing.simulated_disk import SimulatedCrash
from ottla.testing.simulation.scheduler import ProcessLoop, Timer

T = TypeVar("T")
R = TypeVar("R")
OnDone = Callable[[Any, BaseException | None], None]

_MIN_S: Final = 0.000_050
_SPREAD_S: Final = 0.003
_SLOW_CHANCE: Final = 0.02
_SLOW_SPREAD_S: Final = 0.100
_REPORT_SPREAD_S: Final = 0.000_500


class SimulatedThreads:
    """Implements `broker/ports.py` Threads. Two works may change their order, as on several threads."""

    __slots__ = ("_is_closed", "_loop", "_random", "_waiting", "threads")

    def __init__(self, loop: ProcessLoop, random: Random) -> None:
        self._loop = loop
        self._random = random.random
        self._waiting: dict[Timer, None] = {}
        self._is_closed = False
        self.threads = 0

    def resize(self, threads: int) -> None:
        self.threads = threads

    def submit(self, work: Callable[[], Any], on_done: OnDone) -> None:
        if self._is_closed:
            return
        random = self._random
        delay_s = _MIN_S + random() * (_SLOW_SPREAD_S if random() < _SLOW_CHANCE else _SPREAD_S)

        def run() -> None:
            del self._waiting[timer]
            self._work(work, on_done)

        timer = self._loop.call_later(delay_s, run)
        self._waiting[timer] = None

    def map(self, work: Callable[[T], R], items: Iterable[T], *, threads: int) -> list[R]:
        return [work(item) for item in items]

    def run_last(self, work: Callable[[], Any], on_done: OnDone) -> None:
        """Drop what has not begun, and what comes later; a work that was begun is over."""
        self._is_closed = True
        for timer in self._waiting:
            timer.cancel()
        self._waiting.clear()
        self._loop.call_later(_MIN_S + self._random() * _SPREAD_S, partial(self._work, work, on_done))

    def _work(self, work: Callable[[], Any], on_done: OnDone) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = work()
        except SimulatedCrash:
            raise  # nothing in the process lives to hear of it
        except Exception as raised:  # noqa: BLE001 - it is `on_done`'s, as on a thread
            error = raised
        self._loop.call_later(self._random() * _REPORT_SPREAD_S, partial(on_done, result, error))
