"""`ottla pipeline explain`: the evidence and the time line behind a verdict, as the tables have them."""

from datetime import UTC, datetime
from pathlib import Path

import click

from ottla.cli.options import json_option
from ottla.cli.output import number, print_json, print_table
from ottla.cli.pipeline_options import extras_installed, opened_store, store_choice, store_options


@click.command("explain")
@click.argument("word", metavar="ALERT|ACCOUNT|DEVICE")
@store_options
@json_option
def explain(word: str, store: str, store_path: Path | None, cassandra: str | None, as_json: bool) -> int:
    """Show why there is an alert: what each rule added to its score, and what happened when.

    For an ACCOUNT or a DEVICE, shows all alerts about it, or what is known about it if there are none.
    """
    choice = store_choice(store, store_path, cassandra)
    with extras_installed():
        from ottla.pipeline.viewing.explaining import explain as explained
    with opened_store(choice) as opened:
        found = explained(opened, word)
    if not found:
        # Not repeated: someone may have tried a phone number.
        raise click.ClickException("no alert, account or device of this name is in the detectors' tables")
    if as_json:
        print_json(
            [
                {
                    "alert_id": each.alert_id or None,
                    "headline": each.headline,
                    "weights": [weight._asdict() for weight in each.weights],
                    "timeline": [moment._asdict() for moment in each.timeline],
                }
                for each in found
            ]
        )
        return 0
    for each in found:
        title: str | None = f"alert {each.alert_id}: {each.headline}" if each.alert_id else each.headline
        if each.weights:
            rows = [(weight.weight, weight.rule, weight.why) for weight in each.weights]
            print_table((number("weight"), "rule", "why"), rows, title=title)
            title = None
        print_table(("UTC", "what"), [(_time(moment.time_ms), moment.what) for moment in each.timeline], title=title)
    return 0


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
