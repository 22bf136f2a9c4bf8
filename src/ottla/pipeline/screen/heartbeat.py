"""A sign of life while other work has the thread: a thread of its own, which ends with the block.

What a beat raises (the pipe is closed) is raised again in the owner's next call.
"""

import threading
from collections.abc import Callable
from typing import Final

_LOOK_EVERY_S: Final = 0.1


class Heartbeat:
    """From `with` to its end it calls `beat` about ten times a second; `beat` decides what is due."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if kind is None:
            self.check()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_EVERY_S):
            try:
                self._beat()
            except (OSError, SystemExit) as failure:
                self._failure = failure
                return


class Silence:
    """Measures how long nothing was printed. Times are seconds of one clock."""

    def __init__(self, now_s: float, *, most_s: float) -> None:
        self._said_s = now_s
        self._most_s = most_s

    def broken(self, now_s: float) -> None:
        self._said_s = now_s

    def is_too_long(self, now_s: float) -> bool:
        return now_s - self._said_s >= self._most_s
