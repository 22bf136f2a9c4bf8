"""What the demo shows while it runs: steps of the set-up, then one view that changes in place; plain lines where there
is no terminal. Knows figures and no processes.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ottla.pipeline.demo.child import Usage
from ottla.pipeline.demo.job_process import JobFigures
from ottla.pipeline.demo.observing import Books, SeenAlert
from ottla.pipeline.latency import LatencyHistogram

_CHINA: Final = timezone(timedelta(hours=8))
_REFRESH_EVERY_S: Final = 0.25
_LINE_EVERY_S: Final = 5.0
_RATE_SPAN_S: Final = 5.0
_ALERTS_SHOWN: Final = 8
_STILL_EVERY_S: Final = 5.0
SENDING: Final = "sending"


class Figures(NamedTuple):
    """The state of a run at one moment; counts are since its start."""

    at_s: float
    elapsed_s: float
    share: float | None  # of the traffic that is through, from 0 to 1; None for a run that goes on
    planned_s: float  # for all of it
    doing: str
    event_time_ms: int
    sent: int
    sent_bytes: int
    ack: LatencyHistogram
    jobs: Sequence[JobFigures]
    books: Books
    alerts: int
    broker: Usage | None
    spark: Usage | None


@contextmanager
def step(console: Console, name: str) -> Iterator[Callable[[str], None]]:
    """One step: what is being done with its seconds while it lasts, and a line when it is done."""
    began_s = time.monotonic()
    told_s = began_s
    doing = ""
    with console.status(f"{name} …") as status:

        def went_on(what: str = "") -> None:
            nonlocal told_s, doing
            doing = what
            now_s = time.monotonic()
            if console.is_terminal:
                status.update(f"[cyan]{name:<8}[/] {what} … {now_s - began_s:.0f} s")
            elif now_s - told_s >= _STILL_EVERY_S:
                told_s = now_s
                console.print(f"{name:<8} {what} … {now_s - began_s:.0f} s", highlight=False, soft_wrap=True)

        yield went_on
    took = f"{time.monotonic() - began_s:.1f} s"
    console.print(f"[cyan]{name:<8}[/] {doing}  [dim]{took}[/]", highlight=False, soft_wrap=True)


class LiveDisplay:
    """From `with` to its end; `show` as often as one likes."""

    def __init__(self, console: Console, *, address: str, run_dir: str) -> None:
        self._console = console
        self._address = address
        self._run_dir = run_dir
        self._history: list[Figures] = []
        self._shown_at_s = 0.0
        self._alerts: deque[tuple[str, SeenAlert]] = deque(maxlen=_ALERTS_SHOWN)
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> "LiveDisplay":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def is_due(self) -> bool:
        every_s = _REFRESH_EVERY_S if self._live is not None else _LINE_EVERY_S
        return time.monotonic() - self._shown_at_s >= every_s

    def tell(self, message: str) -> None:
        """What happened once; stays to be read above the view."""
        self._console.print(message, highlight=False, soft_wrap=True, markup=False, style="yellow")

    def add_alert(self, alert: SeenAlert, *, event_time_ms: int) -> None:
        clock = clock_words(event_time_ms)
        if self._live is None:
            self._console.print(f"alert  {clock}  {alert.why}", highlight=False, soft_wrap=True, markup=False)
        else:
            self._alerts.append((clock, alert))

    def show(self, figures: Figures) -> None:
        self._shown_at_s = time.monotonic()
        self._history.append(figures)
        while len(self._history) > 2 and figures.at_s - self._history[1].at_s >= _RATE_SPAN_S:
            del self._history[0]
        earlier = self._history[0]
        if self._live is not None:
            self._live.update(self._page(figures, earlier), refresh=True)
        else:
            self._console.print(_line(figures, earlier), highlight=False, soft_wrap=True)

    def _page(self, figures: Figures, earlier: Figures) -> RenderableType:
        about = Text.assemble(
            ("Ottla", "bold cyan"),
            "  an app's traffic through a broker and Spark; all of it in ",
            (self._run_dir, "bold"),
        )
        parts: list[RenderableType] = [
            about,
            Text(f"try meanwhile:  kcat -b {self._address} -C -t ml_alert -o beginning", "dim"),
            _progress(figures),
            Text(""),
            _processes(figures, earlier),
            Text(""),
            _jobs(figures, earlier),
            Text(""),
            Text.assemble(("ledger  ", "cyan"), _books(figures.books)),
            Text.assemble(("alerts  ", "cyan"), f"{figures.alerts:,}" if figures.alerts else "none yet"),
        ]
        for clock, alert in self._alerts:
            line = Text.assemble((f"  {clock}  ", "dim"), alert.why)
            line.truncate(self._console.width - 1, overflow="ellipsis")
            parts.append(line)
        return Group(*parts)


def clock_words(event_time_ms: int) -> str:
    return datetime.fromtimestamp(event_time_ms / 1000, _CHINA).strftime("%a %d %b %Y %H:%M")


def percentiles(latency: LatencyHistogram) -> str:
    middle, high = latency.percentile_ms(50), latency.percentile_ms(99)
    return "-" if middle is None or high is None else f"p50 {middle:.1f} ms, p99 {high:.1f} ms"


def _progress(figures: Figures) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    clock = f"event time {clock_words(figures.event_time_ms)}"
    if figures.share is None:
        grid.add_row(clock, f"· {figures.doing}, for {figures.elapsed_s:.0f} s; Ctrl-C ends it")
        return grid
    # By the traffic and not by our clock: on a busy machine it may fall behind its pace.
    bar = ProgressBar(total=1.0, completed=figures.share, width=24)
    left_s = figures.planned_s * (1 - figures.share)
    grid.add_row(clock, bar, f"{figures.doing}, {left_s:.0f} s left" if figures.doing == SENDING else figures.doing)
    return grid


def _processes(figures: Figures, earlier: Figures) -> RenderableType:
    rate = (figures.sent - earlier.sent) / _span_s(figures, earlier)
    grid = Table.grid(padding=(0, 2))
    traffic = f"{figures.sent:,} events sent, {rate:,.0f}/s, {figures.sent_bytes / 1e6:,.1f} MB"
    grid.add_row(Text("traffic", "cyan"), f"{traffic}; acknowledged after {percentiles(figures.ack)}")
    for name, now, before in (
        ("broker", figures.broker, earlier.broker),
        ("Spark", figures.spark, earlier.spark),
    ):
        if now is not None and before is not None:
            share = 100 * (now.cpu_seconds - before.cpu_seconds) / _span_s(figures, earlier)
            grid.add_row(Text(name, "cyan"), f"{now.resident_bytes / 1e6:,.0f} MB resident, {share:.0f} % of a core")
    return grid


def _jobs(figures: Figures, earlier: Figures) -> Table:
    before = {each.job: each for each in earlier.jobs}
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    table.add_column("job", style="cyan", no_wrap=True)
    for title in ("events/s", "read", "written", "lag", "batch ms", "repeated", "late", "dead"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for each in figures.jobs:
        rows_before = before[each.job].rows_read if each.job in before else 0
        table.add_row(
            each.job,
            f"{(each.rows_read - rows_before) / _span_s(figures, earlier):,.0f}",
            f"{each.rows_read:,}",
            f"{each.rows_written:,}",
            "?" if each.lag is None else f"{each.lag:,}",
            "-" if each.last_batch_ms is None else f"{each.last_batch_ms:,}",
            f"{each.duplicates:,}",
            f"{each.late:,}",
            f"{each.dead:,}",
            Text(each.state, "green" if each.state == "running" else "yellow"),
        )
    return table


def _line(figures: Figures, earlier: Figures) -> str:
    rate = (figures.sent - earlier.sent) / _span_s(figures, earlier)
    jobs = "; ".join(
        f"{each.job} read {each.rows_read:,}, lag {'?' if each.lag is None else f'{each.lag:,}'}, "
        f"batch {'-' if each.last_batch_ms is None else f'{each.last_batch_ms:,}'} ms"
        for each in figures.jobs
    )
    return (
        f"{figures.elapsed_s:5.1f} s  {figures.doing}  event time {clock_words(figures.event_time_ms)}  "
        f"sent {figures.sent:,} ({rate:,.0f}/s)  {jobs}  ledger {_books(figures.books)}  alerts {figures.alerts}"
    )


def _books(books: Books) -> str:
    return f"{books.entries:,} entries, {books.credits:,} credits on {books.accounts:,} accounts"


def _span_s(figures: Figures, earlier: Figures) -> float:
    return max(figures.at_s - earlier.at_s, 0.001)
