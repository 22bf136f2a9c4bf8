"""`ottla perf produce` and `ottla perf consume`: load on a topic, and its measurements."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click

from ottla.cli.client_settings import client_settings
from ottla.cli.options import bootstrap_option, json_option, open_admin, worded_failures
from ottla.cli.perf_load import Load, Report
from ottla.cli.perf_reading import Reading
from ottla.cli.topic_lookup import count_partitions, count_partitions_or_create
from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.keys import CONSUMER_DEFINITION
from ottla.clients.producer.keys import PRODUCER_DEFINITION
from ottla.clients.producer.producer import Producer
from ottla.core.extras import needs_extra
from ottla.core.types import TopicPartition
from ottla.records.compression import NAMES

_IDLE_TIMEOUT_MS: Final = 10_000
_POLL_RECORDS: Final = 2_000
_ARROW_FETCH_BYTES: Final = 8 * 1024 * 1024
_CLOSE_TIMEOUT_MS: Final = 5_000
_NOT_FOR_LOAD: Final = {
    "transactional.id": "load is not sent in transactions",
    "key.serializer": "values are made as bytes",
    "value.serializer": "values are made as bytes",
}
_arrow_option = click.option(
    "--arrow",
    "as_arrow",
    is_flag=True,
    help="Use Arrow tables instead of an object per record; needs the extra columns.",
)


@click.group("perf")
def perf() -> None:
    """Measure how fast a cluster takes and delivers records."""


@perf.command("produce")
@bootstrap_option
@click.option("-t", "--topic", required=True)
@click.option("-n", "--records", "--num-records", type=click.IntRange(min=1), required=True, help="How many to send.")
@click.option("-s", "--record-size", type=click.IntRange(min=0), default=100, show_default=True, metavar="BYTES")
@click.option("--throughput", type=click.IntRange(min=-1), default=-1, metavar="N", help="At most N records a second.")
@click.option("-a", "--acks", default="all", show_default=True, help="all, 1 or 0.")
@click.option("-z", "--compression", type=click.Choice(NAMES), default="none", show_default=True)
@click.option("--batch-size", type=click.IntRange(min=1), default=128 * 1024, show_default=True, metavar="BYTES")
@click.option("--linger-ms", type=click.IntRange(min=0), default=5, show_default=True)
@_arrow_option
@click.option(
    "-X", "--producer-property", "--command-property", "settings", multiple=True, metavar="NAME=VALUE",
    help="A setting of the producer.",
)  # fmt: skip
@json_option
def produce(
    bootstrap: str,
    topic: str,
    records: int,
    record_size: int,
    throughput: int,
    acks: str,
    compression: str,
    batch_size: int,
    linger_ms: int,
    as_arrow: bool,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Send records of random text at full speed, or at a given rate.

    The latency is the time from `send` to the acknowledgement, for a sample of the records; with --arrow, for each
    table. The exit code is 1 if any record was not stored.
    """
    _maybe_load_columns(as_arrow)
    chosen = {"acks": acks, "compression.type": compression, "batch.size": batch_size, "linger.ms": linger_ms}
    client = client_settings(PRODUCER_DEFINITION, bootstrap, settings, chosen=chosen, owned=_NOT_FOR_LOAD)
    with open_admin(bootstrap) as admin:
        producer = Producer(client)
        try:
            count_partitions_or_create(producer, admin, topic)
            load = Load(producer, topic, record_size=record_size)
            send = load.send_tables if as_arrow else load.send_records
            with _progress(records) as show:
                send(records, throughput=throughput, show=show)
        finally:
            producer.close(timeout_ms=0)
    _print_report(load.report(), as_json=as_json)
    stored, failure = producer.counts().stored_records, producer.counts().first_failure
    if stored < records:
        raise click.ClickException(f"{records - stored} of {records} records were not stored: {failure}")
    return 0


@perf.command("consume")
@bootstrap_option
@click.option("-t", "--topic", required=True)
@click.option("-n", "--records", "--messages", type=click.IntRange(min=1), required=True, help="How many to read.")
@click.option("-g", "--group", "group_id", help="Join this consumer group; starts at its offsets, or at the beginning.")
@click.option("--timeout-ms", type=click.IntRange(min=1), default=_IDLE_TIMEOUT_MS, show_default=True,
              help="Give up when no record has arrived for this long.")  # fmt: skip
@_arrow_option
@click.option(
    "-X", "--consumer-property", "--command-property", "settings", multiple=True, metavar="NAME=VALUE",
    help="A setting of the consumer.",
)  # fmt: skip
@json_option
def consume(
    bootstrap: str,
    topic: str,
    records: int,
    group_id: str | None,
    timeout_ms: int,
    as_arrow: bool,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Read and decode records at full speed. The exit code is 1 if it reads fewer than asked for.

    The time of a poll is the time until it returns records.
    """
    _maybe_load_columns(as_arrow)
    chosen = {
        "group.id": group_id,
        "auto.offset.reset": "earliest",
        "max.poll.records": _POLL_RECORDS,
        "max.partition.fetch.bytes": _ARROW_FETCH_BYTES if as_arrow else None,  # a poll gives one fetch
    }
    owned = {"group.id": "a group is joined with -g GROUP"}
    client = client_settings(CONSUMER_DEFINITION, bootstrap, settings, chosen=chosen, owned=owned)
    with open_admin(bootstrap) as admin:
        topic_partitions = [TopicPartition(topic, number) for number in range(count_partitions(admin, [topic])[topic])]
    with worded_failures():
        consumer = Consumer(client)
        try:
            with _progress(records) as show:
                reading = Reading(consumer, as_arrow=as_arrow, timeout_ms=timeout_ms, show=show)
                if group_id is None:
                    reading.run_assigned(topic_partitions, records)
                else:
                    reading.run_in_group(topic, records)
        finally:
            consumer.close(_CLOSE_TIMEOUT_MS)
    _print_report(reading.report(), as_json=as_json)
    if reading.records < records:
        raise click.ClickException(f"{reading.records} records came, {records} were asked for")
    return 0


def _maybe_load_columns(as_arrow: bool) -> None:
    """Fails before a topic is created in vain, and before the clock runs."""
    if as_arrow:
        with needs_extra("--arrow", "columns"):
            import pyarrow.compute  # noqa: F401

            import ottla.columns.decoding
            import ottla.columns.encoding  # noqa: F401


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal's stderr; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total)
        yield lambda done: progress.update(task, completed=done)


def _print_report(report: Report, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in report.items():
        shown = "-" if value is None else f"{value:,}" if isinstance(value, int | float) else value
        table.add_row(name.replace("_", " "), shown)
    Console().print(table)
