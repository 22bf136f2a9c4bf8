"""SIGINT and SIGTERM for commands that have something to finish: the first ends them in order, a second at once."""

import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While entered, the first signal sets `is_requested`, a second one raises KeyboardInterrupt.

    Before `defer` the first one raises: nothing has begun that would need an orderly end.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._is_deferred = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Interruption":
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as `signal` itself gave it
        self._before.clear()

    def defer(self) -> None:
        """From now on the command checks `is_requested` often enough."""
        self._is_deferred = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_requested or not self._is_deferred:
            raise KeyboardInterrupt
        self.is_requested = True
