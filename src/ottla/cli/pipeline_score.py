"""`ottla pipeline score`: how good the detectors are, measured on generated traffic.

Alerts come from a store, from a JSON file, or from runs in memory over several seeds.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.options import json_option
from ottla.cli.output import Column, number, print_json, print_table, progress, say
from ottla.cli.pipeline_options import extras_installed, opened_store, store_choice, store_options

if TYPE_CHECKING:
    from ottla.pipeline.scoring.score import Line, Score

_TABLES: Final = ("device_alert", "invite_alert")
_TEXT_HEADS: Final = ("detector", "rule", "planted")


class Seeds(click.ParamType[range]):
    """`7` or `101-110`, both ends included."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", str(value))
        if match is None or int(match[2] or match[1]) < int(match[1]):
            self.fail(f"expected a seed such as 7, or a range such as 101-110, not {value!r}", param, ctx)
        return range(int(match[1]), int(match[2] or match[1]) + 1)


@click.command("score")
@click.option(
    "--truth",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file that `generate --truth` has written.",
)
@click.option(
    "--alerts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Alerts as JSON, instead of a store's: an object with the lists device_alert and invite_alert.",
)
@click.option(
    "--seeds",
    type=Seeds(),
    metavar="A-B",
    help="Generate traffic with these seeds and judge it; needs no truth and no store.",
)
@click.option("--accounts", type=click.IntRange(min=1), default=2000, show_default=True, help="With --seeds.")
@click.option("--days", type=click.IntRange(min=1), default=7, show_default=True, help="With --seeds.")
@click.option("--addresses", is_flag=True, help="With --seeds: use the regions of IP addresses.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML page to this file.")
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Write PNG files to this folder.")
@store_options
@json_option
def score(
    truth: Path | None,
    alerts: Path | None,
    seeds: range | None,
    accounts: int,
    days: int,
    addresses: bool,
    html: Path | None,
    plots: Path | None,
    store: str,
    store_path: Path | None,
    cassandra: str | None,
    as_json: bool,
) -> int:
    """Show how many cheaters were found, how many honest users were accused, how late, and what it cost."""
    if (truth is None) == (seeds is None):
        raise click.UsageError("say what to judge: either --truth FILE with a store or --alerts, or --seeds A-B")
    with extras_installed():
        from ottla.pipeline.scoring.words import title
    scores: dict[str, Score]
    if seeds is not None:
        scores = _measured(seeds, accounts, days, addresses)
    else:
        assert truth is not None
        found = _read(alerts) if alerts is not None else _stored(store, store_path, cassandra)
        single = _judged(truth, found)
        scores = {title(single): single}
    if as_json:
        print_json({name: _document(each) for name, each in scores.items()})
    else:
        for name, each in scores.items():
            _print(name, each)
    if html is not None or plots is not None:
        _draw(scores, html, plots)
    return 0


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise click.ClickException(f"alerts {path} can't be read as JSON: {error}") from error
    if not isinstance(document, dict) or not all(isinstance(document.get(name, []), list) for name in _TABLES):
        raise click.ClickException(f"alerts {path}: expected an object with the lists {' and '.join(_TABLES)}")
    return {name: document.get(name, []) for name in _TABLES}


def _stored(store: str, store_path: Path | None, cassandra: str | None) -> dict[str, list[dict[str, Any]]]:
    with opened_store(store_choice(store, store_path, cassandra)) as opened:
        return {name: [row for batch in opened.scan(name) for row in batch.to_pylist()] for name in _TABLES}


def _judged(truth: Path, found: Mapping[str, list[dict[str, Any]]]) -> "Score":
    with extras_installed():
        from ottla.pipeline.scoring.score import score_alerts
    try:
        document = json.loads(truth.read_text(encoding="utf-8"))
        return score_alerts(document, found["device_alert"], found["invite_alert"])
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(
            f"{truth} was not written by `ottla pipeline generate --truth`, or the alerts are not rows of their "
            f"tables: {error!r}"
        ) from error


def _measured(seeds: range, accounts: int, days: int, addresses: bool) -> "dict[str, Score]":
    with extras_installed():
        from ottla.pipeline.scoring.offline import measure
    from ottla.pipeline.traffic.scenarios import Hardness

    scores = {}
    with progress("traffic and verdicts", len(seeds) * len(Hardness)) as went_on:
        for hardness in Hardness:
            scores[hardness.value] = measure(
                seeds,
                hardness,
                accounts=accounts,
                days=days,
                has_address_table=addresses,
                report=lambda seed, each: went_on(1),
            )
    return scores


def _print(name: str, score: "Score") -> None:
    from ottla.pipeline.scoring.words import HEADS, KIND_HEADS, cells, kind_cells, lines_of, notes

    print_table(_columns(HEADS), [cells(line) for line in lines_of(score)], title=name)
    click.echo()
    print_table(_columns(KIND_HEADS), [kind_cells(line) for line in score.kinds])
    click.echo()
    for note in notes(score):
        click.echo(note)
    click.echo()


def _columns(heads: tuple[str, ...]) -> list[Column]:
    return [Column(head) if head in _TEXT_HEADS else number(head) for head in heads]


def _document(score: "Score") -> dict[str, Any]:
    return {
        "settings": dict(score.settings),
        "accounts": score.accounts,
        "detectors": [_line_document(line) for line in score.detectors],
        "rules": [_line_document(line) for line in score.rules],
        "kinds": [_line_document(line) for line in score.kinds],
        "decoys": {kind: {"told": alerted, "planted": planted} for kind, (alerted, planted) in score.decoys.items()},
        "alerts_per_1000_accounts": score.alerts_per_1000_accounts,
        "credits": score.credits._asdict(),
    }


def _line_document(line: "Line") -> dict[str, Any]:
    counts, delay = line.counts, line.delay
    return {
        "detector": line.detector,
        "name": line.name,
        **counts._asdict(),
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "delay": None if delay is None else delay._asdict(),
        "alerts": line.alerts,
    }


def _draw(scores: "Mapping[str, Score]", html: Path | None, plots: Path | None) -> None:
    with extras_installed():
        from ottla.pipeline.scoring.page import page
        from ottla.pipeline.scoring.plots import plots as drawn
    images = drawn(scores)
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
        for name, content in images.items():
            (plots / name).write_bytes(content)
        say(f"plots: {', '.join(str(plots / name) for name in images)}")
    if html is not None:
        html.write_text(page(scores, images), encoding="utf-8")
        say(f"page: {html}")
