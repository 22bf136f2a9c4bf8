"""What the demo prints at its end: tables first, then one line with the verdict, then where to look next."""

import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from ottla.pipeline.demo.figures import Figures, percentiles
from ottla.pipeline.demo.job_process import JobFigures
from ottla.pipeline.demo.next_steps import as_typed, next_commands
from ottla.pipeline.demo.observing import SeenAlert
from ottla.pipeline.demo.verdict import DETECTORS, TopicRows, Verdict
from ottla.pipeline.scoring.score import Score
from ottla.pipeline.scoring.words import cells
from ottla.pipeline.screen.columns import Column, table_lines
from ottla.pipeline.screen.terminal import glyphs_of, size_of

_AS_PLANTED: Final = "as planted"
_NOT_JUDGED: Final = "not all sent"


def print_summary(console: Console, figures: Figures, verdict: Verdict) -> None:
    _print_table(console, "Events by topic", _topic_columns(verdict.rows))
    _print_table(console, "Jobs", _job_columns(figures.jobs))
    if verdict.score is not None:
        _print_table(console, "Alerts against the planted cheats", _score_columns(verdict.score))
    console.print()
    label = partial(_say_wrapped, console, indent=9)
    seconds = max(figures.sending_s, 0.001)
    rate = figures.sent / seconds
    label(f"sent     {figures.sent:,} events in {seconds:.1f} s, {rate:,.0f}/s; acks {percentiles(figures.ack)}")
    report = verdict.report
    state = "no differences" if report.is_clean else "DIFFERENCES"
    label(f"ledger   {report.checked['entries']:,} entries, {report.totals['ledger']:,} credits: {state}")
    if verdict.score is not None:
        wrong, planted = (sum(each[index] for each in verdict.score.decoys.values()) for index in (0, 1))
        label(f"alerts   {wrong} of {planted} honest look-alikes were reported as cheats")


def print_verdict(console: Console, verdict: Verdict) -> None:
    """One sentence, after the details of what does not hold."""
    console.print()
    say = partial(_say_wrapped, console, indent=8)
    for problem in verdict.problems:
        say(f"{problem.check}: {problem.details}", "red")
    if verdict.problems:
        checks = list(dict.fromkeys(problem.check for problem in verdict.problems))
        say(f"FAILED  {', '.join(checks)}", "bold red")
        return
    stored = f"{sum(each.collected for each in verdict.rows):,} events stored once"
    balances = f"{verdict.report.checked['balances']:,} balances right"
    if not verdict.is_judged:
        say(f"STOPPED EARLY  {stored}, {balances}; alerts are not scored", "bold yellow")
    elif verdict.score is None:
        say(f"PASSED  {stored}, {balances}", "bold green")
    else:
        counts = [line.counts for line in verdict.score.detectors if line.detector in DETECTORS]
        right, missed = sum(each.right for each in counts), sum(each.missed for each in counts)
        say(f"PASSED  {stored}, {balances}, {right} of {right + missed} cheats found", "bold green")


def print_failure(console: Console, run_dir: Path, problems: Sequence[str]) -> None:
    """For a failed run without checks: details, the verdict, and the logs."""
    console.print()
    for problem in problems:
        _say(console, problem, "red")
    _say(console, f"FAILED  {problems[0].splitlines()[0].partition(';')[0]}", "bold red")
    _say(console, f"logs: {as_typed(run_dir)}/broker.log, jobs.log, store/checkpoint/spark.log")


def print_next(
    console: Console, run_dir: Path, verdict: Verdict, *, page: Path | None, alerts: Sequence[SeenAlert]
) -> None:
    worst = max(verdict.rows, key=lambda each: each.dead)
    topic = f"{worst.topic}.dlq" if worst.dead else worst.topic
    plots = "" if page is None else f"; {page.name} has plots"
    _say_wrapped(
        console, f"All files are in {as_typed(run_dir)}{plots}. To look further (run serve in its own terminal):"
    )
    for command in next_commands(run_dir, topic=topic, alerts=alerts, has_score=page is not None):
        _say(console, f"  {command}")


def _topic_columns(rows: Sequence[TopicRows]) -> list[Column]:
    def figures(title: str, values: Sequence[int], rank: int, short: str = "") -> Column:
        return Column(title, [f"{value:,}" for value in (*values, sum(values))], rank, short)

    marks = [_mark(each.is_right, is_judged=each.expected is not None) for each in rows]
    marks.append(_mark(all(each.is_right for each in rows), is_judged=all(each.expected is not None for each in rows)))
    if marks[-1][0] == _AS_PLANTED:
        marks[-1] = (f"all {_AS_PLANTED}", marks[-1][1])
    return [
        Column("topic", [*(each.topic for each in rows), "total"], 0, is_text=True),
        figures("sent", [each.sent for each in rows], 1),
        figures("duplicates", [each.duplicates for each in rows], 4, "dup."),
        figures("dead", [each.dead for each in rows], 3),
        figures("stored", [each.collected for each in rows], 1),
        Column("", [words for words, _ in marks], 2, is_text=True, styles=[style for _, style in marks]),
    ]


def _mark(is_right: bool, *, is_judged: bool) -> tuple[str, str]:
    if not is_judged:
        return _NOT_JUDGED, "dim"
    return (_AS_PLANTED, "green") if is_right else ("DIFFERS", "bold red")


def _job_columns(jobs: Sequence[JobFigures]) -> list[Column]:
    def figures(title: str, values: Sequence[int | None], rank: int, short: str = "") -> Column:
        return Column(title, ["-" if value is None else f"{value:,}" for value in values], rank, short)

    columns = [
        Column("job", [each.job for each in jobs], 0, is_text=True),
        figures("read", [each.rows_read for each in jobs], 1),
        figures("written", [each.rows_written for each in jobs], 2),
        figures("duplicates", [each.duplicates for each in jobs], 5, "dup."),
        figures("late", [each.late for each in jobs], 7),
        figures("dead", [each.dead for each in jobs], 4),
        figures("batches", [each.batches for each in jobs], 6),
        figures("mean ms", [each.busy_ms // max(each.batches, 1) for each in jobs], 3, "ms"),
        figures("lag", [each.lag for each in jobs], 0),
    ]
    if any(each.restarts for each in jobs):
        columns.append(figures("restarts", [each.restarts for each in jobs], 1))
    return columns


def _score_columns(score: Score) -> list[Column]:
    rows = [cells(line) for line in score.detectors]
    detector, _, precision, recall, _, right, wrong, missed, delay, _, alerts = zip(*rows, strict=True)
    return [
        Column("detector", detector, 0, is_text=True),
        Column("precision", precision, 1),
        Column("recall", recall, 1),
        Column("right", right, 3),
        Column("wrong", wrong, 2),
        Column("missed", missed, 2),
        Column("median delay", delay, 4, "delay"),
        Column("alerts", alerts, 5),
    ]


def _print_table(console: Console, title: str, columns: Sequence[Column]) -> None:
    console.print()
    _say(console, title, "bold")
    width = size_of(console).columns - 1
    for line in table_lines(columns, width=width, glyphs=glyphs_of(console)):
        console.print(line, highlight=False, soft_wrap=True)


def _say(console: Console, line: str, style: str = "") -> None:
    """One line, however long: for logs, and for commands to copy."""
    console.print(Text(line, style), highlight=False, soft_wrap=True)


def _say_wrapped(console: Console, line: str, style: str = "", *, indent: int = 0) -> None:
    """A sentence; on a terminal it wraps between words, with the lines after the first indented."""
    if console.is_terminal:
        wrapper = textwrap.TextWrapper(
            width=size_of(console).columns - 1,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        line = wrapper.fill(line)
    _say(console, line, style)
