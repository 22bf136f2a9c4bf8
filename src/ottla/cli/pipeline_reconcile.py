"""`ottla pipeline reconcile`: the proof of the books, as text or as JSON; exit code 1 with any difference."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.options import json_option
from ottla.cli.output import print_json, print_table, say
from ottla.cli.pipeline_options import extras_installed, opened_store, store_choice, store_options

if TYPE_CHECKING:
    from ottla.pipeline.ledger.reconcile import Report


@click.command("reconcile")
@store_options
@json_option
def reconcile(store: str, store_path: Path | None, cassandra: str | None, as_json: bool) -> int:
    """Check that balances are the sum of the ledger, and that the ledger matches the collected events.

    Let the jobs finish first (`ottla pipeline run --once`): an event that only one of them has processed is a
    difference too.
    """
    choice = store_choice(store, store_path, cassandra)
    with extras_installed():
        from ottla.pipeline.ledger.reconcile import reconcile as prove
    with opened_store(choice) as opened:
        report = prove(opened)
    if as_json:
        print_json(_document(report))
    else:
        _print(report)
    return 0 if report.is_clean else 1


def _document(report: "Report") -> dict[str, Any]:
    return {
        "clean": report.is_clean,
        "checked": report.checked,
        "totals": report.totals,
        "differences": report.counts,
        "unprovable": report.unprovable,
        "findings": [finding._asdict() for finding in report.findings],
    }


def _print(report: "Report") -> None:
    from ottla.pipeline.ledger.reconcile import KINDS

    if report.findings:
        rows = [
            (finding.kind, finding.table, _pairs(finding.key), _pairs(finding.seen), _pairs(finding.expected))
            for finding in report.findings
        ]
        print_table(("difference", "table", "where", "seen", "expected"), rows)
    for kind, count in report.counts.items():
        say(f"{count:,} {KINDS[kind]} ({kind})")
    checked = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.checked.items())
    say(f"checked {checked}; the ledger comes to {report.totals['ledger']:,}")
    if report.unprovable:
        say(f"{report.unprovable:,} entries are of events that are no longer kept: only their sums were checked")
    say("no difference" if report.is_clean else f"{sum(report.counts.values()):,} differences")


def _pairs(values: Mapping[str, Any] | None) -> str:
    return "" if values is None else ", ".join(f"{name}={value}" for name, value in values.items())
