"""The live view as lines, a pure function of the figures and the size of the terminal.

The newest alerts always have room; the other parts come by importance, and a part that does not fit is left out whole.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

from ottla.pipeline.demo.figures import (
    SENDING,
    Figures,
    TimedAlert,
    clock_words,
    cpu_percent,
    job_rows,
    percentiles,
    send_rate,
    span_s,
)
from ottla.pipeline.screen.columns import cut
from ottla.pipeline.screen.job_table import job_lines
from ottla.pipeline.screen.terminal import Glyphs, Size

_ALERTS_MIN: Final = 3
_MESSAGES_MAX: Final = 3
_LABEL_WIDTH: Final = 8
_BAR_MIN: Final = 8
_BAR_MAX: Final = 40
_WIDE: Final = 100
_MIDDLING: Final = 70
_NARROW: Final = 50
_TITLES: Final = (
    "generated app events go through an Ottla broker into Spark, which detects fraud as they arrive",
    "app events through an Ottla broker into Spark: fraud is detected live",
    "fraud detection on live events",
    "",
)


class View(NamedTuple):
    """What to show. Rates are measured from `earlier`."""

    figures: Figures
    earlier: Figures
    alerts: Sequence[TimedAlert]  # the newest first
    messages: Sequence[str]  # the newest last
    hint: str  # a command to try meanwhile


def page(view: View, size: Size, glyphs: Glyphs) -> list[Text]:
    """At most `size.rows` lines, each shorter than `size.columns`: in the last column some terminals wrap."""
    width = size.columns - 1
    figures = view.figures
    head = [_progress(figures, width, glyphs)]
    jobs = job_lines(job_rows(figures, view.earlier), width=width, glyphs=glyphs)
    messages = [Text(cut(message, width, glyphs), "yellow") for message in view.messages[-_MESSAGES_MAX:]]
    count = _labelled("alerts", f"{figures.alerts:,}" if figures.alerts else "none yet", width, glyphs)
    free = size.rows - len(head) - 1 - _ALERTS_MIN
    # On a terminal of a few lines, alerts replace jobs.
    jobs = jobs[: max(free, 0)]
    messages = messages[: max(free - len(jobs), 0)]
    free -= len(jobs) + len(messages)
    taken: dict[str, list[Text]] = {}
    for name, lines in _extras(view, width, glyphs):
        if len(lines) <= free:
            taken[name] = lines
            free -= len(lines)
    shown = max(free, 0) + _ALERTS_MIN
    alerts = [_alert(each, width, glyphs) for each in view.alerts[:shown]]
    # The lines below the alerts stay in place while alerts come.
    filling = [Text("")] * (shown - len(alerts) if "hint" in taken else 0)
    gap = [Text("")] if "gaps" in taken else []
    lines = [
        *taken.get("title", []),
        *head,
        *gap,
        *taken.get("sent", []),
        *taken.get("processes", []),
        *taken.get("ledger", []),
        *gap,
        *jobs,
        *gap,
        *messages,
        count,
        *alerts,
        *filling,
        *taken.get("hint", []),
    ]
    return lines[: size.rows]


def _extras(view: View, width: int, glyphs: Glyphs) -> list[tuple[str, list[Text]]]:
    """In the order of importance: the first ones are shown first."""
    figures, earlier = view.figures, view.earlier
    sent = [
        f"{figures.sent:,} events",
        f"{send_rate(figures, earlier):,.0f}/s",
        f"{figures.sent_bytes / 1e6:,.1f} MB",
        f"acks {percentiles(figures.ack)}",
    ]
    processes = []
    for name, now, before in (("broker", figures.broker, earlier.broker), ("Spark", figures.spark, earlier.spark)):
        if now is not None and before is not None:
            percent = cpu_percent(now, before, span_s=span_s(figures, earlier))
            processes.append(f"{name} {now.resident_bytes / 1e6:,.0f} MB, {percent:.0f} % CPU")
    books = figures.books
    ledger = [f"{books.entries:,} entries", f"{books.credits:,} credits", f"{books.accounts:,} accounts"]
    extras = [("sent", [_labelled("sent", _joined(sent, ", ", width - _LABEL_WIDTH), width, glyphs)])]
    if processes:
        words = _joined(processes, "   ", width - _LABEL_WIDTH)
        extras.append(("processes", [_labelled("load", words, width, glyphs)]))
    extras.append(("ledger", [_labelled("ledger", _joined(ledger, ", ", width - _LABEL_WIDTH), width, glyphs)]))
    extras.append(("gaps", [Text("")] * 3))
    extras.append(("title", [_title(width)]))
    if len(view.hint) <= width - len("try  "):
        extras.append(("hint", [Text.assemble(("try  ", "dim"), (view.hint, "dim"))]))
    return extras


def _title(width: int) -> Text:
    words = next(each for each in _TITLES if len("Ottla  ") + len(each) <= width)
    return Text.assemble(("Ottla", "bold cyan"), f"  {words}")


def _progress(figures: Figures, width: int, glyphs: Glyphs) -> Text:
    """The current step, then the clock, then a bar, as far as there is room."""
    doing = figures.doing
    if doing == SENDING:
        if figures.share is None:
            doing = f"{doing} for {figures.elapsed_s:.0f} s; Ctrl-C ends it"
        else:
            # By the traffic and not by our clock: on a busy machine it may fall behind.
            doing = f"{doing}, {figures.planned_s * (1 - figures.share):.0f} s left"
    doing = cut(doing, width, glyphs)
    clock = clock_words(figures.event_time_ms, has_year=width >= _WIDE)
    clock = f"event time {clock}" if width >= 60 else clock
    line = Text(no_wrap=True)
    room = width - len(doing)
    if room >= len(clock) + 2:
        line.append(f"{clock}  ")
        room -= len(clock) + 2
    if figures.share is not None and room >= _BAR_MIN + 2:
        bar_width = min(room - 2, _BAR_MAX)
        done = round(bar_width * figures.share)
        line.append(glyphs.done * done, "green")
        line.append(glyphs.left * (bar_width - done) + "  ", "dim")
    line.append(doing, "bold")
    return line


def _labelled(label: str, words: str, width: int, glyphs: Glyphs) -> Text:
    return Text.assemble((label.ljust(_LABEL_WIDTH), "cyan"), cut(words, width - _LABEL_WIDTH, glyphs))


def _joined(parts: Sequence[str], separator: str, width: int) -> str:
    """As many as fit: half a figure would be a wrong one."""
    found = parts[0]
    for part in parts[1:]:
        if len(found) + len(separator) + len(part) > width:
            break
        found += separator + part
    return found


def _alert(timed: TimedAlert, width: int, glyphs: Glyphs) -> Text:
    is_wide = width >= _WIDE
    clock = clock_words(timed.event_time_ms, has_year=is_wide)
    if width < _MIDDLING:
        weekday, *_, time = clock.split()
        clock = f"{weekday} {time}" if width >= _NARROW else time
    prefix = f"  {clock}  "
    detector = f"{timed.alert.detector:<18}" if is_wide else ""
    return Text.assemble(
        (prefix, "dim"), (detector, "cyan"), cut(timed.alert.why, width - len(prefix + detector), glyphs)
    )
