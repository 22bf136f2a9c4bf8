"""Signals of a run. The first Ctrl-C is a request that the run checks; a second one, SIGTERM and SIGHUP (a closed
terminal) end it with an exception. During the clean-up a signal raises nothing: it only hurries it.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunSignals:
    """Handles signals from `with` to its end."""

    def __init__(self, *, hurry: Callable[[], None]) -> None:
        """The signal handler calls `hurry` for a signal during the clean-up."""
        self.is_interrupted = False
        self._hurry = hurry
        self._is_cleaning_up = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "RunSignals":
        self._previous = _taken(self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _give_back(self._previous)

    def begin_clean_up(self) -> None:
        self._is_cleaning_up = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._is_cleaning_up:
            if number != signal.SIGHUP:  # comes twice when a terminal is closed
                self._hurry()
        elif number != signal.SIGINT:
            raise SystemExit(128 + number)
        elif self.is_interrupted:
            raise KeyboardInterrupt
        else:
            self.is_interrupted = True


@contextmanager
def signals_held() -> Iterator[None]:
    """Delays signals within the block to its end.

    For the start of a process: between fork and exec Python swallows what a handler raises, and right after it there
    would be a process that nobody knows.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers never run here
        return
    held: list[int] = []
    previous = _taken(lambda number, frame: held.append(number))
    try:
        yield
    finally:
        _give_back(previous)
        for number in held:
            signal.raise_signal(number)


def _taken(handler: Callable[[int, FrameType | None], object]) -> dict[signal.Signals, Any]:
    """Returns the old handlers. Ignored signals stay ignored, as under nohup; but Ctrl-C is always ours."""
    previous: dict[signal.Signals, Any] = {}
    for number in ENDING:
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            previous[number] = signal.signal(number, handler)
    return previous


def _give_back(previous: dict[signal.Signals, Any]) -> None:
    for number, handler in previous.items():
        signal.signal(number, handler)
