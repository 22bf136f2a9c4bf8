"""`ottla pipeline`: the app's data pipeline, and its traffic generator."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ottla.cli.lazy_group import LazyGroup
from ottla.clients.admin import Admin
from ottla.clients.errors import ClientError
from ottla.links.addresses import parse_bootstrap
from ottla.pipeline.topic_creation import create_app_topics
from ottla.pipeline.topics import DEFAULT_PARTITIONS
from ottla.pipeline.traffic.events import Event, json_line
from ottla.pipeline.traffic.generator import DEFAULT_START_MS, Settings, Traffic
from ottla.pipeline.traffic.noise import NoiseRates, with_noise
from ottla.pipeline.traffic.scenarios import Hardness
from ottla.pipeline.traffic.sending import EventSender
from ottla.records.compression import NAMES

_SHOW_EVERY = 2_000
_FINISH_TIMEOUT_MS = 120_000
_RATE = click.FloatRange(min=0, max=1)


# Name -> (the click command, its help line): modules that need Spark or Arrow are imported when called.
_LAZY = {
    "expire": ("ottla.cli.pipeline_tables:expire", "Drop days and rows that are past their retention."),
    "explain": ("ottla.cli.pipeline_explain:explain", "Show why there is an alert: its score and what happened when."),
    "export": ("ottla.cli.pipeline_export:export", "Export topics to Parquet files."),
    "init-store": ("ottla.cli.pipeline_tables:init_store", "Create the tables that are missing."),
    "late": ("ottla.cli.pipeline_tables:late", "Count late events by topic."),
    "reconcile": ("ottla.cli.pipeline_reconcile:reconcile", "Check balances, ledger and tasks against the events."),
    "redrive": ("ottla.cli.pipeline_redrive:redrive", "Send dead letters back to their topics."),
    "region": ("ottla.cli.pipeline_region:region", "Show the region of a phone number or an account."),
    "replay": ("ottla.cli.pipeline_replay:replay", "Process the topics again into shadow tables, compare, and swap."),
    "run": ("ottla.cli.pipeline_run:run", "Run the Spark jobs on the topics, once or as a stream."),
    "score": ("ottla.cli.pipeline_score:score", "Compare alerts with the fraud that the generator has planted."),
    "show": ("ottla.cli.pipeline_tables:show", "Print rows of a table, or the list of tables."),
}


@click.group("pipeline", cls=LazyGroup, lazy=_LAZY)
def pipeline() -> None:
    """Run Spark jobs on an app's events, and show their results."""
    # Arrow reads this when it is loaded, here and in Spark's workers. Its default allocator keeps most of the memory it
    # ever had: a run of days would keep the peak of each thread.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")


def _bootstrap(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        try:
            parse_bootstrap(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return value


def _start_ms(context: click.Context, parameter: click.Parameter, value: datetime | None) -> int:
    if value is None:
        return DEFAULT_START_MS
    # Midnight in China, where the users live: eight hours before that of UTC.
    return int((value - datetime(1970, 1, 1)).total_seconds() - 8 * 3600) * 1000


@pipeline.command("generate")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes the same events.")
@click.option("--accounts", type=click.IntRange(min=1), default=1000, show_default=True, help="How many users.")
@click.option("--days", type=click.IntRange(min=1), default=7, show_default=True, help="How many days of traffic.")
@click.option(
    "--hardness",
    type=click.Choice([each.value for each in Hardness]),
    default=Hardness.MEDIUM.value,
    show_default=True,
    help="How well cheaters hide, and how much honest users look like them.",
)
@click.option("--start", callback=_start_ms, type=click.DateTime(["%Y-%m-%d"]), help="First day. Default: 2025-09-01.")
@click.option("--bootstrap", "-b", callback=_bootstrap, metavar="HOST:PORT,…", help="Send to the topics of a cluster.")
@click.option("--out", metavar="FILE", help="Write JSON lines instead; - is stdout.")
@click.option(
    "--truth", type=click.Path(dir_okay=False), help="Write the planted cheaters and the expected totals to this file."
)
@click.option("--rate", type=click.IntRange(min=1), help="Send at most this number of events per second.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=DEFAULT_PARTITIONS,
    show_default=True,
    help="Partitions of new topics.",
)
@click.option(
    "--compression", type=click.Choice(NAMES), default="none", show_default=True, help="Compression of the records."
)
@click.option("--duplicates", type=_RATE, default=0.0, help="Share of events to send twice.")
@click.option("--late", type=_RATE, default=0.0, help="Share of events to send more than an hour late.")
@click.option("--bad", type=_RATE, default=0.0, help="Broken events to add, as a share of all.")
def generate(
    seed: int,
    accounts: int,
    days: int,
    hardness: str,
    start: int,
    bootstrap: str | None,
    out: str | None,
    truth: str | None,
    rate: int | None,
    partitions: int,
    compression: str,
    duplicates: float,
    late: float,
    bad: float,
) -> int:
    """Generate the traffic of an app.

    Its users are ordinary people, cheaters, and honest people who look like cheaters.
    """
    if (bootstrap is None) == (out is None):
        raise click.UsageError("say where the events go: either --bootstrap HOST:PORT or --out FILE")
    try:
        traffic = Traffic(Settings(seed, accounts, days, Hardness(hardness), start))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    rates = NoiseRates(duplicates, late, bad)
    events = traffic.events()
    if not rates.is_silent:
        events = with_noise(events, rates, seed=seed, counts=traffic.noise_counts)
    span_ms = (start, start + days * 24 * 3_600_000)
    with _progress(span_ms) as show:
        if bootstrap is not None:
            exit_code = _send(_shown(events, show), bootstrap, rate, partitions, compression)
        else:
            assert out is not None
            exit_code = _write(_shown(events, show), out, rate)
    if exit_code == 0 and truth is not None:
        _write_truth(traffic, Path(truth))
    return exit_code


def _send(events: Iterator[Event], bootstrap: str, rate: int | None, partitions: int, compression: str) -> int:
    started = time.monotonic()
    try:
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.connect()  # fails at once for a wrong address; only what comes after is worth retries
            created = create_app_topics(admin, partitions=partitions)
        sender = EventSender({"bootstrap.servers": bootstrap, "compression.type": compression})
        try:
            for event in events:
                if rate is not None:
                    early = sender.sent_count / rate - (time.monotonic() - started)
                    if early > 0.001:
                        time.sleep(early)
                sender.send(event)
            is_finished = sender.finish(_FINISH_TIMEOUT_MS)
        finally:
            sender.close()
    except ClientError as error:
        raise click.ClickException(str(error)) from error
    seconds = time.monotonic() - started
    if created:
        click.echo(f"created {len(created)} topics with {partitions} partitions each", err=True)
    _say_done(f"stored on {bootstrap}", sender.stored_count, seconds)
    if sender.refused_count or not is_finished:
        missing = sender.sent_count - sender.stored_count
        reason = sender.first_refusal or f"no answer within {_FINISH_TIMEOUT_MS // 1000} s"
        raise click.ClickException(f"{missing:,} of {sender.sent_count:,} events were not stored: {reason}")
    return 0


def _write(events: Iterator[Event], out: str, rate: int | None) -> int:
    started = time.monotonic()
    count = 0
    try:
        with _opened(out) as file:
            for event in events:
                if rate is not None:
                    early = count / rate - (time.monotonic() - started)
                    if early > 0.001:
                        file.flush()
                        time.sleep(early)
                file.write(json_line(event) + "\n")
                count += 1
            file.flush()
    except BrokenPipeError:
        # The reader has seen enough; output that Python still buffers must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        raise click.FileError(out, hint=error.strerror or str(error)) from error
    _say_done("written", count, time.monotonic() - started)
    return 0


@contextmanager
def _opened(out: str) -> Iterator[IO[str]]:
    if out == "-":
        yield sys.stdout
    else:
        with open(out, "w", encoding="utf-8") as file:
            yield file


def _write_truth(traffic: Traffic, path: Path) -> None:
    document = traffic.truth()
    try:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(path), hint=error.strerror or str(error)) from error
    devices, inviters, decoys = (len(document[name]) for name in ("devices", "inviters", "decoys"))
    click.echo(f"truth in {path}: {devices} switching devices, {inviters} cheating inviters, {decoys} decoys", err=True)


def _say_done(what: str, count: int, seconds: float) -> None:
    click.echo(f"{count:,} events {what} in {seconds:.1f} s, {count / max(seconds, 0.001):,.0f} a second", err=True)


def _shown(events: Iterator[Event], show: Callable[[int, int], None]) -> Iterator[Event]:
    for count, event in enumerate(events, start=1):
        yield event
        if count % _SHOW_EVERY == 0:
            show(count, event.event_time_ms)


@contextmanager
def _progress(span_ms: tuple[int, int]) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, by event time; nothing where stderr is a file."""
    first_ms, last_ms = span_ms
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[events]:,} events"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("generating", total=last_ms - first_ms, events=0)
        yield lambda count, time_ms: progress.update(task, completed=time_ms - first_ms, events=count)
