"""Scores as one self-contained HTML file: tables and plots."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from ottla.pipeline.scoring.score import Score
from ottla.pipeline.scoring.words import HEADS, KIND_HEADS, cells, kind_cells, lines_of, notes

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
tr.whole { font-weight: 600; }
img { max-width: 100%; background: #fff; margin: 1rem 0; }
div.wide { overflow-x: auto; }
"""
_ALT: Final = {
    "precision-recall.png": "Precision and recall by rule",
    "delay.png": "Delay of detection by what was planted",
    "credits.png": "Credits rightly withheld, wrongly paid and wrongly withheld",
}


def page(scores: Mapping[str, Score], images: Mapping[str, bytes]) -> str:
    """The whole document."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Quality of the detectors</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>Quality of the detectors</h1>",
    ]
    for name, content in images.items():
        source = b64encode(content).decode()
        parts.append(f'<img alt="{escape(_ALT.get(name, name))}" src="data:image/png;base64,{source}">')
    for title, score in scores.items():
        parts.append(f"<h2>{escape(title)}</h2>")
        rows = [(cells(line), line.name == "all") for line in lines_of(score)]
        parts.append(_table(HEADS, rows))
        parts += [f"<p>{escape(note)}</p>" for note in notes(score)]
        parts.append("<h3>What was planted</h3>")
        parts.append(_table(KIND_HEADS, [(kind_cells(line), False) for line in score.kinds]))
    parts.append(
        "<p>Devices are judged for switching, accounts for invite fraud. A rule's alert is right when its subject "
        "cheats in any way; a subject that meets a rule to the letter is missed when no alert of it names the rule. "
        "Delay is event time, from when the planted rule is met to the alert.</p></body></html>"
    )
    return "\n".join(parts) + "\n"


def _table(heads: Iterable[str], rows: Iterable[tuple[Sequence[str], bool]]) -> str:
    parts = ['<div class="wide"><table><tr>', *(f"<th>{escape(head)}</th>" for head in heads), "</tr>"]
    for row, is_whole in rows:
        parts.append(f"<tr{' class=whole' if is_whole else ''}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row))
        parts.append("</tr>")
    parts.append("</table></div>")
    return "".join(parts)
