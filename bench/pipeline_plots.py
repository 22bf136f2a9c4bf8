"""The detectors' cost and latency as one picture. Draws with matplotlib, imported here alone; knows no cases."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME: Final = "benchmarks-pipeline"
# Told apart also without colour sight.
_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7")
_GREY: Final = "#999999"
_FLAT: Final = 1.25
_SMOOTHED_S: Final = 15


def write_plots(folder: Path, points: Mapping[str, Any]) -> Path:
    """`points` by case: lists for days and accounts, alerts and lags for live. Beside the picture lie its figures.

    Of cases that were not run those of the last run stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = folder / f"{NAME}.json"
    before = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}
    points = {**before, **points}
    figures.write_text(json.dumps(_rounded(points), separators=(",", ":")) + "\n", encoding="utf-8")
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(11, 7.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(2, 2)
        _draw_costs(axes[0][0], points.get("detection-days", ()), "days", "days of history")
        _draw_costs(axes[0][1], points.get("detection-accounts", ()), "accounts", "accounts")
        live = points.get("detection-live") or {"alerts": (), "lags": (), "events_per_second": 1, "goal_s": 3.0}
        _draw_alerts(axes[1][0], live)
        _draw_lags(axes[1][1], live)
        path = folder / f"{NAME}.png"
        figure.savefig(path, format="png", dpi=110, metadata={"Software": None})
    return path


def _rounded(value: Any) -> Any:
    """To what can be seen in a picture."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def _draw_costs(axis: "Axes", points: Sequence[Mapping[str, float]], name: str, label: str) -> None:
    axis.set_title(f"cost of an event against {label}")
    axis.set_xlabel(label)
    axis.set_ylabel("µs for an event")
    if not points:
        return
    places = [point[name] for point in points]
    for key, words, colour in (("cpu_us", "CPU", _COLOURS[0]), ("wall_us", "wall clock", _COLOURS[1])):
        axis.plot(places, [point[key] for point in points], "o-", color=colour, label=words)
    limit_us = _FLAT * points[0]["cpu_us"]
    axis.axhline(limit_us, color=_GREY, linestyle="--", linewidth=0.8, label=f"CPU limit: {_FLAT:g} of the first")
    axis.set_xscale("log")
    axis.set_xticks(places, [f"{place:,}" for place in places], minor=False)
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False)


def _draw_alerts(axis: "Axes", live: Mapping[str, Any]) -> None:
    axis.set_title("from the event that completes a rule to the alert's row")
    axis.set_xlabel("seconds of live traffic")
    axis.set_ylabel("seconds")
    rules = sorted({each["rule"] for each in live["alerts"]})
    for rule, colour in zip(rules, _COLOURS, strict=False):
        own = [each for each in live["alerts"] if each["rule"] == rule and each["row_s"] is not None]
        axis.plot([each["at_s"] for each in own], [each["row_s"] for each in own], ".", color=colour, label=rule, ms=3)
    axis.axhline(live["goal_s"], color=_GREY, linestyle="--", linewidth=0.8, label="goal for 95 of 100")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, ncols=2)


def _draw_lags(axis: "Axes", live: Mapping[str, Any]) -> None:
    axis.set_title(f"lag of each job at {live['events_per_second']:,} events/s, mean of {_SMOOTHED_S} s")
    axis.set_xlabel("seconds of live traffic")
    axis.set_ylabel("events")
    jobs = sorted({job for each in live["lags"] for job in each["lag_by_job"]})
    for job, colour in zip(jobs, _COLOURS, strict=False):
        buckets: dict[int, list[int]] = {}
        for each in live["lags"]:
            if job in each["lag_by_job"]:
                buckets.setdefault(int(each["at_s"] // _SMOOTHED_S), []).append(each["lag_by_job"][job])
        places = [(bucket + 0.5) * _SMOOTHED_S for bucket in sorted(buckets)]
        axis.plot(places, [statistics.fmean(buckets[bucket]) for bucket in sorted(buckets)], color=colour, label=job)
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False)
