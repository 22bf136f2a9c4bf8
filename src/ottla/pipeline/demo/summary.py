"""What the demo prints at its end: what went through, whether it is right, how good the detectors were, what next."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.pipeline.demo.job_process import JobFigures
from ottla.pipeline.demo.live import Figures, percentiles
from ottla.pipeline.demo.observing import SeenAlert
from ottla.pipeline.demo.verdict import TopicRows, Verdict
from ottla.pipeline.scoring.score import Score
from ottla.pipeline.scoring.words import HEADS, cells, notes

_SCORE_HEADS: Final = ("detector", "precision", "recall", "right", "wrong", "missed", "delay, median", "alerts")


def print_summary(console: Console, figures: Figures, verdict: Verdict) -> None:
    console.print()
    _print_topics(console, verdict.rows)
    console.print()
    _print_jobs(console, figures.jobs)
    console.print()
    seconds = max(figures.elapsed_s, 0.001)
    spoken = f"{figures.sent:,} events in {seconds:.1f} s, {figures.sent / seconds:,.0f} a second"
    _say(console, f"traffic   {spoken}; acknowledged after {percentiles(figures.ack)}")
    report = verdict.report
    checked = f"{report.checked['entries']:,} entries and {report.checked['balances']:,} balances"
    state = "[green]no difference[/]" if report.is_clean else "[bold red]DIFFERENCES[/]"
    _say(console, f"books     {checked} reconciled, {report.totals['ledger']:,} credits: {state}")
    if verdict.score is not None:
        console.print()
        _print_score(console, verdict.score)


def print_problems(console: Console, problems: Sequence[str]) -> None:
    for problem in problems:
        console.print(problem, highlight=False, markup=False, soft_wrap=True, style="bold red")


def print_next(
    console: Console, run_dir: Path, verdict: Verdict, *, page: Path | None, alerts: Sequence[SeenAlert]
) -> None:
    """Commands to copy. Broker and jobs have ended; their data is there."""
    ottla = _command_path()
    store = f"--store-path {run_dir}/store"
    lines = [f"data      {run_dir}: topics, tables, logs"]
    if page is not None:
        lines.append(f"page      {page}, plots beside it in {run_dir}/plots")
    lines.append("to look further:")
    lines.append(f"  {ottla} pipeline show {store}")
    if alerts:
        # The one with the most to tell.
        telling = max(alerts, key=lambda alert: (alert.why.count("; "), len(alert.why)))
        lines.append(f"  {ottla} pipeline show invite_alert {store} --columns inviter_id,score,rules --limit 5")
        lines.append(f"  {ottla} pipeline explain {telling.alert_id} {store}")
    if page is not None:
        lines.append(f"  {ottla} pipeline score --truth {run_dir}/truth.json {store}")
    lines.append(f"  {ottla} pipeline reconcile {store}")
    lines.append(f"  {ottla} serve --data-dir {run_dir}/broker    # in another terminal, then:")
    worst = max(verdict.rows, key=lambda each: each.dead)
    topic = f"{worst.topic}.dlq" if worst.dead else worst.topic
    lines.append(f"  {ottla} consume -t {topic} -o beginning -e -f '%h %s\\n'")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _print_topics(console: Console, rows: Sequence[TopicRows]) -> None:
    table = _plain_table("What went through")
    table.add_column("topic")
    for name in ("sent", "repeated", "dead", "collected"):
        table.add_column(name, justify="right")
    table.add_column("")
    for each in rows:
        table.add_row(each.topic, *_figures_of([each]), _mark(each.is_right, each.expected is not None))
    table.add_section()
    is_judged = all(each.expected is not None for each in rows)
    table.add_row("total", *_figures_of(rows), _mark(all(each.is_right for each in rows), is_judged, "all as planted"))
    console.print(table)


def _figures_of(rows: Sequence[TopicRows]) -> list[str]:
    return [f"{sum(getattr(each, name) for each in rows):,}" for name in ("sent", "repeated", "dead", "collected")]


def _mark(is_right: bool, is_judged: bool, words: str = "as planted") -> Text:
    if not is_judged:
        return Text("cut short", "dim")
    return Text(words, "green") if is_right else Text("DIFFERS", "bold red")


def _print_jobs(console: Console, jobs: Sequence[JobFigures]) -> None:
    table = _plain_table("The jobs")
    table.add_column("job", no_wrap=True)
    for name in ("read", "written", "repeated", "late", "dead", "batches", "ms each"):
        table.add_column(name, justify="right", no_wrap=True)
    has_restarts = any(each.restarts for each in jobs)
    if has_restarts:
        table.add_column("restarts", justify="right", no_wrap=True)
    for each in jobs:
        counts = (each.rows_read, each.rows_written, each.duplicates, each.late, each.dead, each.batches)
        mean_ms = each.busy_ms // max(each.batches, 1)
        shown = (*counts, mean_ms, each.restarts) if has_restarts else (*counts, mean_ms)
        table.add_row(each.job, *(f"{count:,}" for count in shown))
    console.print(table)


def _print_score(console: Console, score: Score) -> None:
    table = _plain_table("Alerts against the planted truth")
    for head in _SCORE_HEADS:
        table.add_column(head, justify="left" if head == "detector" else "right", no_wrap=True)
    for line in score.detectors:
        by_head = dict(zip(HEADS, cells(line), strict=True))
        table.add_row(*(by_head[head] for head in _SCORE_HEADS))
    console.print(table)
    for note in notes(score):
        _say(console, note)


def _plain_table(title: str) -> Table:
    """Without lines, so that it fits 80 columns."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
    )


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True)


def _command_path() -> str:
    """`ottla` as it can be typed here."""
    beside_python = Path(sys.executable).with_name("ottla")
    try:
        return str(beside_python.relative_to(Path.cwd()))
    except ValueError:
        return str(beside_python) if beside_python.exists() else "ottla"
