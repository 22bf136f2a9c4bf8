"""A run on a terminal: a line for each job, redrawn in place, and messages above. Elsewhere only the messages."""

import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console, Group
from rich.live import Live

from ottla.pipeline.running.progress import JobProgress
from ottla.pipeline.screen.job_table import JobRow, job_lines
from ottla.pipeline.screen.terminal import can_redraw, glyphs_of, open_console, size_of

_REFRESH_EVERY_S: Final = 0.5
_RATE_SPAN_S: Final = 5.0


class LiveLine:
    """From `with` to its end. `report` prints a message, everywhere; `show` draws the figures on a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or open_console(stderr=True)
        self._live: Live | None = None
        self._shown_at_s = 0.0
        self._history: list[tuple[float, dict[str, int]]] = []

    def __enter__(self) -> "LiveLine":
        if can_redraw(self._console):
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def report(self, message: str) -> None:
        self._console.print(message, highlight=False, soft_wrap=True, markup=False)

    def show(self, jobs: Sequence[JobProgress]) -> None:
        now_s = time.monotonic()
        if self._live is None or now_s - self._shown_at_s < _REFRESH_EVERY_S:
            return
        self._shown_at_s = now_s
        self._history.append((now_s, {each.job: each.rows_read for each in jobs}))
        while len(self._history) > 2 and now_s - self._history[1][0] >= _RATE_SPAN_S:
            del self._history[0]
        size = size_of(self._console)
        lines = job_lines(self._rows(jobs), width=size.columns - 1, glyphs=glyphs_of(self._console))
        # One line less than the terminal has, or the end of the run could not erase the first one.
        self._live.update(Group(*lines[: size.rows - 1]), refresh=True)

    def _rows(self, jobs: Sequence[JobProgress]) -> list[JobRow]:
        began_s, earlier = self._history[0]
        span_s = max(self._history[-1][0] - began_s, 0.001)
        return [
            JobRow(
                job=each.job,
                events_per_s=(each.rows_read - earlier.get(each.job, 0)) / span_s,
                rows_read=each.rows_read,
                rows_written=each.rows_written,
                lag=each.lag,
                last_batch_ms=each.batch_ms[-1] if each.batch_ms else None,
                batches=each.batches,
                busy_ms=each.busy_ms,
                duplicates=each.duplicates,
                late=each.late,
                dead=each.dead.total(),
                restarts=each.restarts,
                state=each.state,
            )
            for each in jobs
        ]
