"""Scores as pictures: PNG files, also for the page. Only this module imports matplotlib.

Matplotlib writes PNG and needs neither a browser nor a display.
"""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ottla.pipeline.scoring.score import Line, Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinct for colour-blind readers too.
_PRECISION: Final = "#0072b2"
_RECALL: Final = "#e69f00"
_GOOD: Final = "#009e73"
_BAD: Final = "#d55e00"
_GREY: Final = "#999999"
_GOALS: Final = ((0.95, _PRECISION), (0.90, _RECALL))
_HOUR_MS: Final = 3_600_000


def plots(scores: Mapping[str, Score]) -> dict[str, bytes]:
    """File name -> PNG; the keys of `scores` are their labels, such as the hardness."""
    with mpl.rc_context(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "ottla"}
    ):
        return {
            "precision-recall.png": _png(_precision_recall(scores)),
            "delay.png": _png(_delays(scores)),
            "credits.png": _png(_credits(scores)),
        }


def _png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    # Without time and version, so that the same score is the same file.
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def _precision_recall(scores: Mapping[str, Score]) -> Figure:
    """A panel for each score, a pair of bars for each detector and rule."""
    figure = Figure(figsize=(4.6 * len(scores) + 1.6, 5.2), layout="constrained")
    axes = figure.subplots(1, len(scores), sharey=True, squeeze=False)[0]
    for place, (axis, (name, score)) in enumerate(zip(axes, scores.items(), strict=True)):
        lines = [*score.detectors[:2], *score.rules]
        labels = [line.detector if line.name == "all" else f"  {line.name}" for line in lines]
        _pair_bars(axis, lines)
        axis.set_title(name)
        axis.set_yticks(range(len(lines)), labels)
        if place == 0:
            axis.invert_yaxis()  # shared by all panels
        for line, text in zip(range(len(lines)), labels, strict=True):
            if not text.startswith(" "):
                axis.axhspan(line - 0.5, line + 0.5, color="#f2f2f2", zorder=0)
        for goal, colour in _GOALS:
            axis.axvline(goal, color=colour, linewidth=0.8, linestyle=":")
        axis.set_xlim(0, 1.12)
        axis.set_xticks([0, 0.25, 0.5, 0.75, 1])
    figure.suptitle("Precision and recall by rule; dotted: the goals at medium hardness")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def _pair_bars(axis: "Axes", lines: Sequence[Line]) -> None:
    for shift, colour, name in ((-0.2, _PRECISION, "precision"), (0.2, _RECALL, "recall")):
        values = [getattr(line.counts, name) for line in lines]
        places = [place + shift for place in range(len(lines))]
        axis.barh(places, [value or 0 for value in values], height=0.38, color=colour, label=name, zorder=2)
        for place, value in zip(places, values, strict=True):
            text = "none" if value is None else f"{value:.2f}"
            axis.text(
                (value or 0) + 0.015, place, text, va="center", fontsize=7, color=_GREY if value is None else "black"
            )


def _delays(scores: Mapping[str, Score]) -> Figure:
    """A dot for each cheat that was found, by what was planted."""
    kinds = sorted({line.name for score in scores.values() for line in score.kinds})
    figure = Figure(figsize=(9, 0.42 * len(kinds) + 1.8), layout="constrained")
    axis = figure.subplots()
    colours = (_GOOD, _PRECISION, _BAD, _GREY)
    for number, (name, score) in enumerate(scores.items()):
        by_kind: dict[str, Any] = {line.name: line.delays_ms for line in score.kinds}
        shift = (number - (len(scores) - 1) / 2) * 0.24
        points = [
            (delay / _HOUR_MS, place + shift) for place, kind in enumerate(kinds) for delay in by_kind.get(kind, ())
        ]
        if points:
            hours, places = zip(*points, strict=True)
            axis.scatter(
                hours, places, s=14, alpha=0.55, color=colours[number % len(colours)], label=name, linewidths=0
            )
    axis.axvline(0, color=_GREY, linewidth=0.8)
    axis.set_yticks(range(len(kinds)), kinds)
    axis.set_ylim(len(kinds) - 0.5, -0.5)
    axis.grid(axis="y", color="#eeeeee")
    axis.set_xlabel("hours of event time from when the planted rule is met to the alert; left of 0: found before")
    axis.set_title("Delay of detection")
    if scores:
        axis.legend(frameon=False, loc="best")
    return figure


def _credits(scores: Mapping[str, Score]) -> Figure:
    figure = Figure(figsize=(7.5, 0.8 * len(scores) + 1.6), layout="constrained")
    axis = figure.subplots()
    names = list(scores)
    lefts = [0] * len(names)
    for field, colour, label in (
        ("rightly_withheld", _GOOD, "of cheats, withheld"),
        ("wrongly_paid", _BAD, "of cheats, paid all the same"),
        ("wrongly_withheld", _GREY, "of honest users, withheld"),
    ):
        values = [getattr(score.credits, field) for score in scores.values()]
        axis.barh(names, values, left=lefts, color=colour, label=f"{label}: {sum(values):,}", height=0.6)
        lefts = [left + value for left, value in zip(lefts, values, strict=True)]
    axis.invert_yaxis()
    axis.set_xlabel("credits")
    axis.set_title("Bonuses of invitations")
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.35 if len(scores) == 1 else -0.2), ncols=3)
    return figure
