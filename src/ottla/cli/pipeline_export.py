"""`ottla pipeline export`: topics to Parquet files in parallel, continuing an earlier export into the folder."""

import time
from datetime import date
from pathlib import Path

import click

from ottla.cli.options import json_option, open_admin
from ottla.cli.output import number, print_json, print_table, progress, say
from ottla.cli.pipeline_options import bootstrap_option, extras_installed, loaded_settings, settings_option
from ottla.cli.pipeline_redrive import chosen_topics
from ottla.cli.pipeline_run import CONNECTORS, start_spark


def _day(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else date.fromisoformat(value).isoformat()
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a day such as 2025-09-01") from error


@click.command("export")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@bootstrap_option
@click.option("--topics", metavar="TOPIC,…", help="Which of the app's topics; all by default.")
@click.option(
    "--by",
    "layout",
    type=click.Choice(["day", "offsets"]),
    default="day",
    show_default=True,
    help="Write a folder per day of events, or files by offset.",
)
@click.option("--first-day", callback=_day, metavar="YYYY-MM-DD", help="Only events of this day or later, in UTC.")
@click.option("--last-day", callback=_day, metavar="YYYY-MM-DD", help="Only events of this day or earlier.")
@click.option(
    "--start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help='Where to start: earliest, a record time, or offsets such as {"topic": {"0": 23}}.',
)
@click.option(
    "--end",
    default="latest",
    show_default=True,
    metavar="WHERE",
    help="Stop before this; latest is the end of the topics now.",
)
@click.option(
    "--round",
    "round_records",
    type=click.IntRange(min=1),
    default=2_000_000,
    show_default=True,
    help="Export at most this number of records at a time.",
)
@click.option("--master", metavar="URL", help="Spark's master; by default all cores of this machine.")
@click.option("--connector", type=click.Choice(CONNECTORS), default="ottla", show_default=True, help="Spark's source.")
@settings_option
@json_option
def export(
    folder: Path,
    bootstrap: str,
    topics: str | None,
    layout: str,
    first_day: str | None,
    last_day: str | None,
    start: str,
    end: str,
    round_records: int,
    master: str | None,
    connector: str,
    config: Path | None,
    as_json: bool,
) -> None:
    """Write topics to Parquet files in FOLDER. Phone numbers are hashed.

    Run it again to continue: after a crash with the rest, later with what has come since.
    """
    wanted = chosen_topics(topics)
    with extras_installed():
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark.errors import PySparkException

        from ottla.pipeline.events.parsing import ParsingRules
        from ottla.pipeline.export.export_files import DayRange
        from ottla.pipeline.export.export_state import WORK_FOLDER, ExportMismatch
        from ottla.pipeline.export.topic_bounds import BadBound, find_bounds
        from ottla.pipeline.jobs.export import ExportPlan, left_to_read
        from ottla.pipeline.jobs.export import export as write_files
        from ottla.pipeline.running.failures import describe_failure
        from ottla.spark.java_process import how_it_ended
    settings = loaded_settings(config)
    try:
        with open_admin(bootstrap) as admin:
            bounds = find_bounds(admin, wanted, start=start, end=end)
    except BadBound as error:
        raise click.UsageError(str(error)) from error
    folder = folder.resolve()
    plan = ExportPlan(folder, bounds.starts, bounds.ends, layout, DayRange(first_day, last_day), round_records)
    began = time.monotonic()
    try:
        left = left_to_read(plan)
        with progress("records", left) as on_progress:
            done = write_files(
                lambda: start_spark(settings, folder / WORK_FOLDER, master=master, connector=connector),
                plan,
                ParsingRules.of(settings),
                {"kafka.bootstrap.servers": bootstrap},
                connector=connector,
                now_ms=int(time.time() * 1000),
                on_progress=on_progress,
            )
    except ExportMismatch as error:
        raise click.ClickException(str(error)) from error
    except (PySparkException, Py4JError, OSError) as error:
        is_lost = isinstance(error, ConnectionError | Py4JError) and not isinstance(error, Py4JJavaError)
        ended = how_it_ended(is_expected=is_lost)
        why = f"{ended}; its log: {folder / WORK_FOLDER / 'spark.log'}" if ended else describe_failure(error)
        raise click.ClickException(f"{why}; run it again to continue") from error
    if as_json:
        print_json({"folder": str(folder), "read": done.read, "rows": done.rows, "dead": done.dead})
        return
    print_table(("topic", number("rows")), sorted(done.rows.items()))
    seconds = time.monotonic() - began
    say(f"{done.read:,} records read in {seconds:.1f} s; {sum(done.rows.values()):,} rows are in {folder}")
    if done.dead:
        by_class = ", ".join(f"{count:,} {error_class}" for error_class, count in sorted(done.dead.items()))
        say(f"not exported, because they are not valid events: {by_class}")
