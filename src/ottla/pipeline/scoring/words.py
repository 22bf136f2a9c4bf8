"""A score as text, the same in a terminal and on a page."""

from collections.abc import Sequence
from typing import Final

from ottla.pipeline.scoring.score import Line, Score

HEADS: Final = (
    "detector",
    "rule",
    "precision",
    "recall",
    "F1",
    "right",
    "wrong",
    "missed",
    "delay, median",
    "delay, p95",
    "alerts",
)
KIND_HEADS: Final = ("detector", "planted", "recall", "found", "missed", "delay, median", "delay, p95")


def cells(line: Line) -> list[str]:
    counts, delay = line.counts, line.delay
    return [
        line.detector,
        line.name,
        _share(counts.precision),
        _share(counts.recall),
        _share(counts.f1),
        str(counts.right),
        str(counts.wrong),
        str(counts.missed),
        "-" if delay is None else duration(delay.median_ms),
        "-" if delay is None else duration(delay.p95_ms),
        str(line.alerts),
    ]


def kind_cells(line: Line) -> list[str]:
    whole = cells(line)
    return [whole[0], whole[1], whole[3], whole[5], whole[7], whole[8], whole[9]]


def notes(score: Score) -> list[str]:
    """The lines below the table."""
    paid, saved, withheld = score.credits
    decoys = ", ".join(
        f"{kind.replace('_', ' ')} {wrong} of {planted}" for kind, (wrong, planted) in score.decoys.items()
    )
    return [
        f"{score.alerts_per_1000_accounts:.1f} alerts per 1,000 accounts ({score.accounts:,} accounts)",
        f"credits: {saved:,} rightly withheld, {paid:,} wrongly paid, {withheld:,} wrongly withheld",
        f"honest look-alikes with an alert: {decoys or 'none planted'}",
    ]


def duration(span_ms: int) -> str:
    """`-12 s`, `3 min`, `26.5 h`."""
    seconds = abs(span_ms) / 1000
    sign = "-" if span_ms < 0 else ""
    if seconds < 90:
        return f"{sign}{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{sign}{seconds / 60:.0f} min"
    return f"{sign}{seconds / 3600:.1f} h"


def title(score: Score) -> str:
    settings = score.settings
    return f"{settings.get('hardness', '?')}, seed {settings.get('seed', '?')}, {score.accounts:,} accounts"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def lines_of(score: Score) -> Sequence[Line]:
    """Detectors first, then their rules."""
    return [*score.detectors, *score.rules]
