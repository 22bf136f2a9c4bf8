"""What the demo shows while events flow: a full-screen view on a terminal, plain lines elsewhere. Owns the screen;
`page.py` makes its lines.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from ottla.pipeline.demo.figures import Figures, TimedAlert, clock_words, send_rate
from ottla.pipeline.demo.observing import SeenAlert
from ottla.pipeline.demo.page import View, page
from ottla.pipeline.screen.heartbeat import Heartbeat, Silence
from ottla.pipeline.screen.terminal import can_redraw, glyphs_of, printable, size_of

_REFRESH_EVERY_S: Final = 0.25
_LINE_EVERY_S: Final = 5.0
_SILENCE_MAX_S: Final = 8.0
_RATE_SPAN_S: Final = 5.0
_ALERTS_KEPT: Final = 200


class LiveDisplay:
    """From `with` to its end; `show` may be called at any rate."""

    def __init__(self, console: Console, *, hint: Callable[[bool], str]) -> None:
        """`hint` returns a command to try meanwhile, depending on whether there are alerts."""
        self._console = console
        self._hint = hint
        self._history: list[Figures] = []
        self._shown_at_s = 0.0
        self._alerts: deque[TimedAlert] = deque(maxlen=_ALERTS_KEPT)
        self._messages: list[str] = []
        self._screen = _Screen(console) if can_redraw(console) else None
        self._silence = Silence(time.monotonic(), most_s=_SILENCE_MAX_S)
        self._heartbeat = Heartbeat(lambda: self._beat(time.monotonic()))

    def __enter__(self) -> "LiveDisplay":
        if self._screen is not None:
            self._screen.open()
        else:
            self._heartbeat.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._screen is None:
            self._heartbeat.__exit__(kind)
            return
        self._screen.close()
        # The view is gone; its messages stay on the screen.
        for message in self._messages:
            self._print_message(message)

    def is_due(self, doing: str) -> bool:
        """Often enough for the eye, or for a log; at once when the step changes."""
        if not self._history or self._history[-1].doing != doing:
            return True
        every_s = _REFRESH_EVERY_S if self._screen is not None else _LINE_EVERY_S
        return time.monotonic() - self._shown_at_s >= every_s

    def add_message(self, message: str) -> None:
        """What happened once."""
        message = printable(self._console, message)
        self._messages.append(message)
        if self._screen is None:
            self._print_message(message)

    def add_alert(self, alert: SeenAlert, *, event_time_ms: int) -> None:
        alert = alert._replace(why=printable(self._console, alert.why))
        if self._screen is None:
            self._say(f"alert  {clock_words(event_time_ms)}  {alert.why}")
        else:
            self._alerts.appendleft(TimedAlert(event_time_ms, alert))

    def show(self, figures: Figures) -> None:
        self._shown_at_s = time.monotonic()
        self._history.append(figures)
        while len(self._history) > 2 and figures.at_s - self._history[1].at_s >= _RATE_SPAN_S:
            del self._history[0]
        earlier = self._history[0]
        if self._screen is None:
            self._heartbeat.check()
            self._say(_line(figures, earlier))
            return
        view = View(figures, earlier, list(self._alerts), self._messages, self._hint(figures.alerts > 0))
        self._screen.draw(page(view, size_of(self._console), glyphs_of(self._console)))

    def _beat(self, now_s: float) -> None:
        """For when a broker or a store that does not answer delays the lines."""
        if self._silence.is_too_long(now_s) and self._history:
            self._say(f"still {self._history[-1].doing}; no new figures for {now_s - self._shown_at_s:.0f} s")

    def _say(self, line: str) -> None:
        self._silence.broken(time.monotonic())
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)

    def _print_message(self, message: str) -> None:
        self._console.print(message, highlight=False, soft_wrap=True, markup=False, style="yellow")


class _Screen:
    """The terminal's alternate screen: resizing leaves no torn lines, and the first screen comes back as it was. Every
    frame is one write."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def open(self) -> None:
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def close(self) -> None:
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)

    def draw(self, lines: list[Text]) -> None:
        rows = size_of(self._console).rows
        console = self._console
        with console:
            console.control(Control.home())
            for row in range(rows):
                if row:
                    console.print()
                # Before the line and not after it: a full line leaves the cursor on its last character.
                console.control(Control((ControlType.ERASE_IN_LINE, 2)))
                if row < len(lines):
                    console.print(lines[row], end="", highlight=False, soft_wrap=True)


def _line(figures: Figures, earlier: Figures) -> str:
    lags = ", ".join(f"{each.job} {'?' if each.lag is None else f'{each.lag:,}'}" for each in figures.jobs)
    return (
        f"{figures.elapsed_s:5.1f} s  {figures.doing}  event time {clock_words(figures.event_time_ms)}  "
        f"sent {figures.sent:,} ({send_rate(figures, earlier):,.0f}/s)  alerts {figures.alerts}  lag: {lags}"
    )
