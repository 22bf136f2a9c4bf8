"""A step of a run, such as the start of the broker: one line that counts its seconds, and stays when it is done.

Without a terminal it is a line every five seconds. A heartbeat writes both, so that a step that waits in silence still
shows on the screen.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from ottla.pipeline.screen.columns import cut
from ottla.pipeline.screen.heartbeat import Heartbeat, Silence
from ottla.pipeline.screen.terminal import can_redraw, glyphs_of, size_of

_STILL_EVERY_S: Final = 5.0
_NAME_WIDTH: Final = 8
_ECHO_WIDTH: Final = 2  # the terminal adds ^C to the line; if that wraps, the line can't be erased


@contextmanager
def step(console: Console, name: str) -> "Iterator[Step]":
    line = StepLine(console, name, now_s=time.monotonic())
    with Heartbeat(lambda: line.beat(time.monotonic())) as heartbeat:
        try:
            yield Step(line, heartbeat)
        except BaseException:
            line.erase()
            raise
    line.finish(time.monotonic())


class Step:
    """The work of a step calls it with what it is doing. The last words stay in the final line."""

    def __init__(self, line: "StepLine", heartbeat: Heartbeat) -> None:
        self._line = line
        self._heartbeat = heartbeat

    def __call__(self, doing: str) -> None:
        self._heartbeat.check()
        self._line.doing = doing

    def report(self, message: str) -> None:
        """Prints a message that stays above the line."""
        self._line.report(message)


class StepLine:
    """The text of one step; `now_s` is from any one clock."""

    def __init__(self, console: Console, name: str, *, now_s: float) -> None:
        self.doing = ""
        self._console = console
        self._name = name
        self._began_s = now_s
        self._silence = Silence(now_s, most_s=_STILL_EVERY_S)
        self._drawn = ""
        self._lock = threading.RLock()  # heartbeat and owner both write

    def beat(self, now_s: float) -> None:
        with self._lock:
            self._beat(now_s)

    def report(self, message: str) -> None:
        with self._lock:
            self.erase()
            self._console.print(message, highlight=False, soft_wrap=True, markup=False, style="yellow")

    def _beat(self, now_s: float) -> None:
        seconds = f" ... {now_s - self._began_s:.0f} s"
        if can_redraw(self._console):
            room = size_of(self._console).columns - 1 - _ECHO_WIDTH - _NAME_WIDTH - 1 - len(seconds)
            self._draw((cut(self.doing, room, glyphs_of(self._console)) + seconds).lstrip())
        elif self._silence.is_too_long(now_s):
            self._silence.broken(now_s)
            words = (self.doing + seconds).lstrip()
            self._console.print(f"{self._name:<{_NAME_WIDTH}} {words}", highlight=False, soft_wrap=True, markup=False)

    def finish(self, now_s: float) -> None:
        self.erase()
        line = Text.assemble(
            (f"{self._name:<{_NAME_WIDTH}} ", "cyan"), self.doing, (f"  {now_s - self._began_s:.1f} s", "dim")
        )
        self._console.print(line, highlight=False, soft_wrap=True)

    def erase(self) -> None:
        with self._lock:
            if self._drawn:
                self._drawn = ""
                self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))

    def _draw(self, words: str) -> None:
        if words == self._drawn:
            return
        line = Text.assemble((f"{self._name:<{_NAME_WIDTH}} ", "cyan"), words)
        with self._console:
            self.erase()
            self._console.print(line, end="", highlight=False, soft_wrap=True)
        self._drawn = words
