"""What the demo shows: a live table on a terminal, plain lines elsewhere, and the summary at the end."""

import time
from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ottla.pipeline.latency import LatencyHistogram
from ottla.pipeline.local_broker import Usage
from ottla.pipeline.topics import TOPIC_NAMES

_CHINA: Final = timezone(timedelta(hours=8))
_REFRESH_EVERY_S: Final = 0.25
_LINE_EVERY_S: Final = 2.0
_RATE_SPAN_S: Final = 2.0


class Figures(NamedTuple):
    """The state of a run at one moment; counts are since its start."""

    at: float
    elapsed_s: float
    planned_s: float | None
    event_time_ms: int
    sent: dict[str, int]
    sent_bytes: int
    read: dict[str, int]
    ack: LatencyHistogram
    end_to_end: LatencyHistogram
    usage: Usage | None


class LiveDisplay:
    """From `with` to its end; `show` as often as one likes."""

    def __init__(self, console: Console, *, address: str, data_dir: str) -> None:
        self._console = console
        self._address = address
        self._data_dir = data_dir
        self._history: list[Figures] = []
        self._shown_at = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> "LiveDisplay":
        if self._live is not None:
            self._live.start()
        else:
            self._console.print(f"broker at {self._address}, data in {self._data_dir}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def is_due(self) -> bool:
        every = _REFRESH_EVERY_S if self._live is not None else _LINE_EVERY_S
        return time.monotonic() - self._shown_at >= every

    def show(self, figures: Figures) -> None:
        self._shown_at = time.monotonic()
        self._history.append(figures)
        while len(self._history) > 2 and figures.at - self._history[1].at >= _RATE_SPAN_S:
            del self._history[0]
        earlier = self._history[0]
        if self._live is not None:
            self._live.update(self._page(figures, earlier), refresh=True)
        else:
            self._console.print(_line(figures, earlier), highlight=False, soft_wrap=True)

    def _page(self, figures: Figures, earlier: Figures) -> RenderableType:
        address = self._address
        return Group(
            Text.assemble(("Ottla", "bold cyan"), "  generated app traffic through one broker on ", (address, "bold")),
            Text(f"try meanwhile:  kcat -b {address} -C -t ml_login_log -o end", "dim"),
            _topic_table(figures, earlier),
            _latency_line(figures, earlier),
            *_progress_lines(figures),
        )


def print_summary(
    console: Console,
    *,
    figures: Figures,
    peak_bytes: int,
    sent: dict[str, tuple[int, int, int]],
    read: dict[str, tuple[int, int, int]],
) -> None:
    """Every topic with what was sent and what came back; the sums are over bytes as well as counts."""
    table = Table(title="What went through", title_justify="left", title_style="bold")
    table.add_column("topic")
    for name in ("sent", "read back", "MB"):
        table.add_column(name, justify="right")
    table.add_column("")
    for name in TOPIC_NAMES:
        is_same = sent[name] == read[name]
        verdict = Text("equal", "green") if is_same else Text("DIFFERS", "bold red")
        table.add_row(name, f"{sent[name][0]:,}", f"{read[name][0]:,}", f"{sent[name][1] / 1e6:.1f}", verdict)
    total_sent = sum(count[0] for count in sent.values())
    total_bytes = sum(count[1] for count in sent.values())
    total_read = sum(count[0] for count in read.values())
    table.add_section()
    is_all_same = Text("all equal", "green") if sent == read else Text("DIFFERS", "bold red")
    table.add_row("total", f"{total_sent:,}", f"{total_read:,}", f"{total_bytes / 1e6:.1f}", is_all_same)
    console.print(table)
    seconds = max(figures.elapsed_s, 0.001)
    rates = f"{total_sent / seconds:,.0f} records/s, {total_bytes / 1e6 / seconds:.1f} MB/s"
    lines = [
        f"{seconds:.1f} s, {rates}",
        f"acknowledged after     {_percentiles(figures.ack)}",
        f"at the consumer after  {_percentiles(figures.end_to_end)}",
    ]
    if figures.usage is not None:
        share = 100 * figures.usage.cpu_seconds / seconds
        lines.append(f"broker                 {peak_bytes / 1e6:.0f} MB resident, {share:.0f} % of a core")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _topic_table(figures: Figures, earlier: Figures) -> Table:
    span = max(figures.at - earlier.at, 0.001)
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 2))
    table.add_column("topic", style="cyan", no_wrap=True)
    for name in ("sent", "in/s", "read back", "out/s"):
        table.add_column(name, justify="right")
    table.add_column("")
    rates = {name: (figures.sent[name] - earlier.sent[name]) / span for name in TOPIC_NAMES}
    highest = max(1.0, *rates.values())
    for name in TOPIC_NAMES:
        out_rate = (figures.read[name] - earlier.read[name]) / span
        bar = ProgressBar(total=highest, completed=rates[name], width=10)
        table.add_row(
            name, f"{figures.sent[name]:,}", f"{rates[name]:,.0f}", f"{figures.read[name]:,}", f"{out_rate:,.0f}", bar
        )
    sent, read = sum(figures.sent.values()), sum(figures.read.values())
    out_rate = (read - sum(earlier.read.values())) / span
    table.add_section()
    table.add_row(
        Text("total", "bold"),
        f"{sent:,}",
        f"{sum(rates.values()):,.0f}",
        f"{read:,}",
        f"{out_rate:,.0f}",
        f"{figures.sent_bytes / 1e6:,.1f} MB",
    )
    return table


def _latency_line(figures: Figures, earlier: Figures) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_row("acknowledged after", _percentiles(figures.ack))
    grid.add_row("at the consumer after", _percentiles(figures.end_to_end))
    if figures.usage is not None and earlier.usage is not None:
        span = max(figures.at - earlier.at, 0.001)
        share = 100 * (figures.usage.cpu_seconds - earlier.usage.cpu_seconds) / span
        grid.add_row("broker", f"{figures.usage.resident_bytes / 1e6:.0f} MB resident, {share:.0f} % of a core")
    return grid


def _progress_lines(figures: Figures) -> list[RenderableType]:
    clock = datetime.fromtimestamp(figures.event_time_ms / 1000, _CHINA).strftime("%a %d %b %Y %H:%M")
    if figures.planned_s is None:
        return [Text(f"event time {clock}, running for {figures.elapsed_s:.0f} s")]
    bar = ProgressBar(total=figures.planned_s, completed=min(figures.elapsed_s, figures.planned_s), width=40)
    grid = Table.grid(padding=(0, 2))
    grid.add_row(bar, f"{figures.elapsed_s:.0f} of {figures.planned_s:.0f} s, event time {clock}")
    return [grid]


def _line(figures: Figures, earlier: Figures) -> str:
    span = max(figures.at - earlier.at, 0.001)
    sent, read = sum(figures.sent.values()), sum(figures.read.values())
    in_rate, out_rate = (sent - sum(earlier.sent.values())) / span, (read - sum(earlier.read.values())) / span
    usage = "" if figures.usage is None else f", broker {figures.usage.resident_bytes / 1e6:.0f} MB"
    return (
        f"{figures.elapsed_s:5.1f} s  sent {sent:,} ({in_rate:,.0f}/s)  read {read:,} ({out_rate:,.0f}/s)  "
        f"{figures.sent_bytes / 1e6:.1f} MB  ack {_percentiles(figures.ack)}  "
        f"end to end {_percentiles(figures.end_to_end)}{usage}"
    )


def _percentiles(latency: LatencyHistogram) -> str:
    middle, high = latency.percentile_ms(50), latency.percentile_ms(99)
    if middle is None or high is None:
        return "-"
    return f"p50 {middle:.1f} ms, p99 {high:.1f} ms"
