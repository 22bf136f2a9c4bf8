"""Signals of a run. The first Ctrl-C is a request that the run looks at; a second one, SIGTERM and SIGHUP (the terminal
was closed) end it by an exception. While it cleans up, a signal raises nothing more: it only makes that quicker.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunSignals:
    """Ours from `with` to its end."""

    def __init__(self, *, hurry: Callable[[], None]) -> None:
        """`hurry` is called for a signal that comes while the run cleans up; in a signal's handler."""
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
    """Signals that come within the block are handled at its end.

    For the start of a process: between fork and exec Python swallows what a handler raises, and right after it a
    process would be there that nobody knows.
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
    """The handlers until now. What is ignored stays so, as under nohup; but Ctrl-C is ours in any case."""
    previous: dict[signal.Signals, Any] = {}
    for number in ENDING:
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            previous[number] = signal.signal(number, handler)
    return previous


def _give_back(previous: dict[signal.Signals, Any]) -> None:
    for number, handler in previous.items():
        signal.signal(number, handler)
