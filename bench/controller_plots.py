"""What a controller costs as the cluster grows, as one picture. Draws with matplotlib; knows no cases."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

NAME: Final = "benchmarks-controller"
# Told apart also without colour sight.
_COLOURS: Final = ("#0072b2", "#e69f00")
_LINES: Final = (("take_over_s", "take-over, all elected anew"), ("fail_over_s", "all led again after a death"))


def write_controller_plot(folder: Path, points: Sequence[Mapping[str, float]]) -> Path:
    """`points`: brokers, partitions and CPU seconds, from small to large. Beside the picture lie its figures."""
    folder.mkdir(parents=True, exist_ok=True)
    rounded = [{name: round(figure, 3) for name, figure in point.items()} for point in points]
    (folder / f"{NAME}.json").write_text(json.dumps(rounded, separators=(",", ":")) + "\n", encoding="utf-8")
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(7.5, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        partitions = [point["partitions"] for point in points]
        for (key, words), colour in zip(_LINES, _COLOURS, strict=True):
            seconds = [point[key] for point in points]
            axis.plot(partitions, seconds, "o-", color=colour, label=words)
            for place, figure_s in zip(partitions, seconds, strict=True):
                axis.annotate(f"{figure_s:.2g}", (place, figure_s), textcoords="offset points", xytext=(0, 6))
        axis.set_title("a controller alone, with brokers that only answer, 3 replicas")
        axis.set_xlabel("partitions, and brokers")
        axis.set_ylabel("seconds of CPU")
        axis.set_xscale("log")
        axis.set_yscale("log")
        labels = [f"{point['partitions']:,.0f}\n{point['brokers']:.0f}" for point in points]
        axis.set_xticks(partitions, labels, minor=False)
        axis.minorticks_off()
        axis.legend(frameon=False)
        path = folder / f"{NAME}.png"
        figure.savefig(path, format="png", dpi=110, metadata={"Software": None})
    return path
