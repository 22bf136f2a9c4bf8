"""`ottla perf produce` and `ottla perf consume`: load on a topic, and what it came to."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click

from ottla.cli.options import bootstrap_option, json_option, open_cluster
from ottla.clients.cluster import Cluster
from ottla.clients.fetching import AssignedReader
from ottla.clients.group_member import GroupMember
from ottla.clients.producing import BatchSender, Delivery
from ottla.clients.sender_settings import SenderSettings, with_properties
from ottla.clients.topic_lookup import count_partitions
from ottla.clients.topics import EARLIEST, list_offsets
from ottla.core.types import TopicPartition
from ottla.pipeline.latency import LatencyHistogram
from ottla.records.compression import NAMES

_PAYLOADS: Final = 64
_SEND_AT_ONCE: Final = 256
_IDLE_TIMEOUT_MS: Final = 10_000
_MEBIBYTE: Final = 1024 * 1024
_FETCH_WAIT_MS: Final = 200

Report = dict[str, float | int | str | None]


@click.group("perf")
def perf() -> None:
    """Generate load and measure it."""


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
@click.option("-X", "--producer-property", "settings", multiple=True, metavar="NAME=VALUE")
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
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Send records of random letters as fast as it goes, or at a rate.

    A latency is that of a record's batch, from its first record to the answer. Exit code 1 when any was not stored.
    """
    from ottla.cli.produce import pairs_of

    chosen = {"acks": acks, "compression.type": compression, **pairs_of(settings, "-X")}
    try:
        sender_settings = with_properties(SenderSettings(batch_size=batch_size, linger_ms=linger_ms), chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with open_cluster(bootstrap) as cluster, _progress(records) as show:
        count_partitions(cluster, [topic], may_create=True)
        load = _Load(cluster, topic, sender_settings, record_size=record_size)
        started = time.monotonic()
        load.run(records, throughput=throughput, show=show)
        seconds = time.monotonic() - started
    _print_report(load.report(seconds), as_json=as_json)
    if load.failed or load.stored < records:
        raise click.ClickException(f"{records - load.stored} of {records} records were not stored: {load.failure}")
    return 0


class _Load:
    """One run of sending; counts what was answered."""

    def __init__(self, cluster: Cluster, topic: str, settings: SenderSettings, *, record_size: int) -> None:
        self.stored = 0
        self.failed = 0
        self.failure = "no answer in time"
        self._topic = topic
        self._cluster = cluster
        self._settings = settings
        self._record_size = record_size
        self._latency = LatencyHistogram()
        self._latency_sum_ms = 0.0

    def run(self, records: int, *, throughput: int, show: Callable[[int], None]) -> None:
        payloads = [_letters(self._record_size) for _ in range(_PAYLOADS)]
        topic = self._topic
        started = time.monotonic()
        with BatchSender(self._cluster, self._settings, on_delivery=self._on_delivery) as sender:
            send = sender.send
            sent = 0
            while sent < records:
                allowed = min(records - sent, _SEND_AT_ONCE)
                if throughput > 0:
                    allowed = min(allowed, int((time.monotonic() - started) * throughput) + 1 - sent)
                for number in range(sent, sent + allowed):
                    send(topic, payloads[number % _PAYLOADS])
                sent += max(0, allowed)
                sender.poll(1 if allowed <= 0 else 0)
                show(self.stored)
            sender.flush()
            show(self.stored)

    def report(self, seconds: float) -> Report:
        size_bytes = self.stored * self._record_size
        return {
            "records": self.stored,
            "failed": self.failed,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.stored / seconds, 1),
            "mib_per_second": round(size_bytes / seconds / _MEBIBYTE, 3),
            "latency_avg_ms": round(self._latency_sum_ms / self._latency.count, 2) if self._latency.count else None,
            "latency_p50_ms": _rounded(self._latency.percentile_ms(50)),
            "latency_p95_ms": _rounded(self._latency.percentile_ms(95)),
            "latency_p99_ms": _rounded(self._latency.percentile_ms(99)),
            "latency_max_ms": round(self._latency.max_ms, 2),
        }

    def _on_delivery(self, delivery: Delivery) -> None:
        if delivery.error_code:
            self.failed += delivery.record_count
            self.failure = delivery.describe_error()
            return
        self.stored += delivery.record_count
        self._latency.add(delivery.latency_ms)
        self._latency_sum_ms += delivery.latency_ms


@perf.command("consume")
@bootstrap_option
@click.option("-t", "--topic", required=True)
@click.option("-n", "--records", "--messages", type=click.IntRange(min=1), required=True, help="How many to read.")
@click.option("-g", "--group", "group_id", help="As a member of this group; begins where it is, or at the beginning.")
@click.option("--timeout-ms", type=click.IntRange(min=1), default=_IDLE_TIMEOUT_MS, show_default=True,
              help="Give up when nothing came for so long.")  # fmt: skip
@json_option
def consume(bootstrap: str, topic: str, records: int, group_id: str | None, timeout_ms: int, as_json: bool) -> int:
    """Read and decode records as fast as it goes. Exit code 1 when there were fewer than asked for."""
    with open_cluster(bootstrap) as cluster, _progress(records) as show:
        places = [TopicPartition(topic, number) for number in range(count_partitions(cluster, [topic])[topic])]
        reading = _Reading(cluster, timeout_ms=timeout_ms, show=show)
        started = time.monotonic()
        if group_id is None:
            reading.run(records, list_offsets(cluster, places, EARLIEST), None)
        else:
            member = GroupMember(cluster, group_id, [topic])
            try:
                reading.join(member)
                reading.run(records, reading.positions, member)
            finally:
                member.leave()
        seconds = time.monotonic() - started
    _print_report(reading.report(seconds), as_json=as_json)
    if reading.records < records:
        raise click.ClickException(f"{reading.records} records came, {records} were asked for")
    return 0


class _Reading:
    """One run of reading, alone or as a member of a group."""

    def __init__(self, cluster: Cluster, *, timeout_ms: int, show: Callable[[int], None]) -> None:
        self.records = 0
        self.positions: dict[TopicPartition, int] = {}
        self._size_bytes = 0
        self._join_seconds = 0.0
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._show = show

    def join(self, member: GroupMember) -> None:
        started = time.monotonic()
        places = member.join()
        committed = member.committed(places)
        fresh = [place for place in places if place not in committed]
        self.positions = {**committed, **(list_offsets(self._cluster, fresh, EARLIEST) if fresh else {})}
        self._join_seconds += time.monotonic() - started

    def run(self, records: int, positions: dict[TopicPartition, int], member: GroupMember | None) -> None:
        with AssignedReader(self._cluster, positions, max_wait_ms=_FETCH_WAIT_MS) as reader:
            last_at = time.monotonic()
            while self.records < records and time.monotonic() - last_at < self._timeout_ms / 1000:
                if reader.positions:
                    fetched = reader.fetch()
                else:
                    fetched = []
                    time.sleep(_FETCH_WAIT_MS / 1000)
                for run in fetched:
                    self.records += len(run.records)
                    self._size_bytes += run.size_bytes
                if fetched:
                    last_at = time.monotonic()
                    self._show(self.records)
                if member is not None:
                    member.tend()
                    if member.must_rejoin:
                        member.commit(reader.positions)
                        self.join(member)
                        reader.positions = dict(self.positions)
            if member is not None:
                member.commit(reader.positions)

    def report(self, seconds: float) -> Report:
        reading = max(seconds - self._join_seconds, 1e-9)
        return {
            "records": self.records,
            "seconds": round(seconds, 3),
            "join_seconds": round(self._join_seconds, 3),
            "records_per_second": round(self.records / reading, 1),
            "mib_per_second": round(self._size_bytes / reading / _MEBIBYTE, 3),
        }


def _letters(size: int) -> bytes:
    return bytes(65 + byte % 26 for byte in os.urandom(size))


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 2)


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
