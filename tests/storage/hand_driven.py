"""The background and the loop's `call_soon`, run by hand."""

from collections.abc import Callable
from typing import Any

from ottla.core.errors import StorageError

Done = Callable[[Any, BaseException | None], None]


class HandBackground:
    """Keeps what was submitted until the test runs it; results come at once."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Done]] = []
        self.started: list[tuple[Any, BaseException | None, Done]] = []

    def submit(self, work: Callable[[], Any], on_done: Done) -> None:
        self.waiting.append((work, on_done))

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


class HandLoop:
    """`call_soon` with turns that the test makes."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()
