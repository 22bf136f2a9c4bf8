"""A run on a terminal: a line for each job that changes in place, and above it what happened. Quiet elsewhere."""

import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ottla.pipeline.running.progress import JobProgress

_REFRESH_EVERY_S: Final = 0.5
_RATE_SPAN_S: Final = 5.0


class LiveLine:
    """From `with` to its end. `tell` is for what happens once and is said everywhere; `show` for terminals."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._shown_at_s = 0.0
        self._history: list[tuple[float, dict[str, int]]] = []

    def __enter__(self) -> "LiveLine":
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def tell(self, message: str) -> None:
        self._console.print(message, highlight=False, soft_wrap=True, markup=False)

    def show(self, jobs: Sequence[JobProgress]) -> None:
        now_s = time.monotonic()
        if self._live is None or now_s - self._shown_at_s < _REFRESH_EVERY_S:
            return
        self._shown_at_s = now_s
        self._history.append((now_s, {each.job: each.rows_read for each in jobs}))
        while len(self._history) > 2 and now_s - self._history[1][0] >= _RATE_SPAN_S:
            del self._history[0]
        self._live.update(self._table(jobs), refresh=True)

    def _table(self, jobs: Sequence[JobProgress]) -> Table:
        began_s, earlier = self._history[0]
        span_s = max(self._history[-1][0] - began_s, 0.001)
        table = Table(show_edge=False, box=None, padding=(0, 2))
        table.add_column("job", style="cyan")
        for title in ("events/s", "read", "written", "lag", "batch ms", "repeated", "late", "dead"):
            table.add_column(title, justify="right")
        table.add_column("")
        for each in jobs:
            rate = (each.rows_read - earlier.get(each.job, 0)) / span_s
            table.add_row(
                each.job,
                f"{rate:,.0f}",
                f"{each.rows_read:,}",
                f"{each.rows_written:,}",
                "?" if each.lag is None else f"{each.lag:,}",
                f"{each.batch_ms[-1]:,}" if each.batch_ms else "-",
                f"{each.duplicates:,}",
                f"{each.late:,}",
                f"{each.dead.total():,}",
                Text(each.state, "green" if each.state == "running" else "yellow"),
            )
        return table
