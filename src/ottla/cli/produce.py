"""`ottla produce`: lines, files or JSON lines into a topic, in the flags of kcat and the names of Kafka's own tool."""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

import click

from ottla.cli.escapes import unescape
from ottla.cli.options import bootstrap_option, open_cluster
from ottla.cli.produce_input import LineParser, LineRules, MessageSource, line_parser, rules_with_properties
from ottla.cli.record_json import InputRecord, UnreadableRecord, parse_json_record
from ottla.clients.cluster import Cluster
from ottla.clients.producing import BatchSender, Delivery
from ottla.clients.sender_settings import SenderSettings, with_properties
from ottla.clients.topic_lookup import count_partitions
from ottla.records.compression import NAMES

_BATCH_BYTES: Final = 128 * 1024
_FAILURES_SHOWN: Final = 10
_POLL_EVERY_RECORDS: Final = 512
_IDLE_WAIT_MS: Final = 1_000
_FLUSH_AFTER_INTERRUPT_MS: Final = 5_000


class Job(NamedTuple):
    """What a command line asks for."""

    topic: str | None
    partition: int | None
    parse: LineParser
    limit: int | None
    delimiter: bytes
    settings: SenderSettings


def pairs_of(values: Sequence[str], option: str) -> dict[str, str]:
    """`name=value` as often as given; a value may hold further signs."""
    pairs = {}
    for text in values:
        name, found, value = text.partition("=")
        if not found or not name:
            raise click.BadParameter(f"{text!r} is not name=value", param_hint=option)
        pairs[name] = value
    return pairs


@click.command("produce")
@bootstrap_option
@click.option("-t", "--topic", help="Where to; with -J the lines may say it.")
@click.option("-p", "--partition", type=click.IntRange(min=-1), help="Into this one; else by key, or in turn.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help=r"Each message is KEY, this, VALUE; \t and the like work.")
@click.option("-D", "--delimiter", metavar="DELIM", default=r"\n", help="Between messages. Default: a new line.")
@click.option("-k", "--key", help="The key of all messages.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Added to each; may be repeated.")
@click.option("-Z", "--null", "is_empty_null", is_flag=True, help="Empty keys and values are sent as null.")
@click.option("-J", "--json-lines", "is_json", is_flag=True, help="Messages are JSON as `ottla consume -J` prints it.")
@click.option("-l", "--lines", "by_lines", is_flag=True, help="Each line of a FILE is a message, not the whole FILE.")
@click.option("-c", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after so many messages.")
@click.option(
    "-z", "--compression-codec", "--compression-type", "codec", type=click.Choice(NAMES), help="Default: none."
)
@click.option("-a", "--acks", "--request-required-acks", "acks", help="all (the default), 1 or 0.")
@click.option(
    "-X", "--producer-property", "--command-property", "settings", multiple=True, metavar="NAME=VALUE",
    help="A setting of Kafka's producer, such as linger.ms=50.",
)  # fmt: skip
@click.option(
    "--property", "--reader-property", "properties", multiple=True, metavar="NAME=VALUE",
    help="A property of the console producer's lines, such as parse.key=true.",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Say at the end what was sent.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, readable=True))
def produce(
    bootstrap: str,
    topic: str | None,
    partition: int | None,
    key_delimiter: str | None,
    delimiter: str,
    key: str | None,
    headers: tuple[str, ...],
    is_empty_null: bool,
    is_json: bool,
    by_lines: bool,
    count: int | None,
    codec: str | None,
    acks: str | None,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    verbose: bool,
    quiet: bool,
    files: tuple[str, ...],
) -> int:
    """Send what comes in on stdin, or FILES, to a topic.

    Each line is a message; an empty one is an empty message. Each FILE is one message, unless -l or -J says that its
    lines are. Exit code 1 when any message was not stored, with the lines that failed.
    """
    if topic is None and not is_json:
        raise click.UsageError("a topic is needed: -t TOPIC")
    try:
        rules = LineRules(
            key_delimiter=None if key_delimiter is None else unescape(key_delimiter),
            is_empty_null=is_empty_null,
            key=None if key is None else os.fsencode(key),
            headers=[_header(text) for text in headers],
        )
        rules = rules_with_properties(rules, pairs_of(properties, "--property"))
        chosen = {"compression.type": codec, "acks": acks, **pairs_of(settings, "-X")}
        sender_settings = with_properties(
            SenderSettings(batch_size=_BATCH_BYTES), {name: text for name, text in chosen.items() if text is not None}
        )
        if not unescape(delimiter) or rules.key_delimiter == b"":
            raise ValueError("a delimiter has at least one character")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    job = Job(
        topic=topic,
        partition=None if partition == -1 else partition,
        parse=parse_json_record if is_json else line_parser(rules),
        limit=count,
        delimiter=unescape(delimiter),
        settings=sender_settings,
    )
    with open_cluster(bootstrap) as cluster:
        if topic is not None:
            _check_partition(cluster, topic, job.partition)
        whole_files = bool(files) and not by_lines and not is_json
        with Production(cluster, job) as production:
            return production.run(files, whole_files=whole_files, with_progress=not quiet, verbose=verbose)


def _header(text: str) -> tuple[str, bytes | None]:
    name, found, value = text.partition("=")
    if not name:
        raise ValueError(f"header {text!r} has no name")
    return name, os.fsencode(value) if found else None


def _check_partition(cluster: Cluster, topic: str, partition: int | None) -> int:
    count = count_partitions(cluster, [topic], may_create=True)[topic]
    if partition is not None and partition >= count:
        raise click.ClickException(f"topic {topic} has {count} partitions, from 0 on; there is no {partition}")
    return count


class Production:
    """One run: reads, sends, and keeps account of what was stored and what was not."""

    def __init__(self, cluster: Cluster, job: Job) -> None:
        self.sent = 0
        self.stored = 0
        self.stored_bytes = 0
        self.failed = 0
        self._cluster = cluster
        self._job = job
        self._counts: dict[str, int] = {}
        self._sender = BatchSender(cluster, job.settings, on_delivery=self._on_delivery)
        self._failures_shown = 0

    def __enter__(self) -> "Production":
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.close()

    def run(self, files: Sequence[str], *, whole_files: bool, with_progress: bool, verbose: bool) -> int:
        """The exit code; an interrupt ends the reading, and what was read is still sent."""
        started = time.monotonic()
        try:
            is_readable = self._read_whole(files) if whole_files else self._read_lines(files, with_progress)
        except KeyboardInterrupt:
            self._sender.flush(_FLUSH_AFTER_INTERRUPT_MS)
            self._summarize(started)
            raise
        self._sender.flush()
        unsettled = self.sent - self.stored - self.failed
        if unsettled:
            click.echo(f"ottla: {unsettled} messages got no answer in time; they may or may not be stored", err=True)
        is_whole = is_readable and not self.failed and not unsettled
        if verbose or not is_whole:
            self._summarize(started)
        return 0 if is_whole else 1

    def _summarize(self, started: float) -> None:
        seconds = time.monotonic() - started
        failed = f", {self.failed} failed" if self.failed else ""
        text = f"{self.stored} messages stored ({self.stored_bytes} bytes) in {seconds:.2f} s{failed}"
        click.echo(f"ottla: {text}", err=True)

    def _read_whole(self, files: Sequence[str]) -> bool:
        for path in files[: self._job.limit]:
            try:
                with open(path, "rb") as file:
                    self._send(file.read(), path)
            except OSError as error:
                self._complain(f"{path}: {error.strerror or error}")
                return False
            except UnreadableRecord as error:
                self._complain(f"{path}: {error}")
                return False
            self._sender.poll()
        return True

    def _read_lines(self, files: Sequence[str], with_progress: bool) -> bool:
        with ExitStack() as stack:
            opened = [(path, stack.enter_context(open(path, "rb")).fileno()) for path in files]
            for name, file_number in opened or [("", sys.stdin.fileno())]:
                source = MessageSource(file_number, self._job.delimiter)
                with _progress(file_number, source) if with_progress else _no_progress() as show:
                    if not self._read_source(source, name, show):
                        return False
        return True

    def _read_source(self, source: MessageSource, name: str, show: Callable[[], None]) -> bool:
        prefix = f"{name}: " if name else ""
        line = 0
        limit = self._job.limit
        sender = self._sender
        while not source.is_at_end:
            # While something is under way, the connections must be looked after between two looks at the input.
            is_busy = sender.is_busy
            messages = source.read(0 if is_busy else _IDLE_WAIT_MS)
            for message in messages:
                if self.sent == limit:
                    return True
                line += 1
                try:
                    self._send(message, (name, line) if name else line)
                except UnreadableRecord as error:
                    self._complain(f"{prefix}line {line}: {error}")
                    return False
                if not line % _POLL_EVERY_RECORDS:
                    sender.poll()
            show()
            sender.poll(0 if messages or not is_busy else 1)
        return True

    def _send(self, message: bytes, where: object) -> None:
        job = self._job
        record: InputRecord = job.parse(message)
        topic = job.topic or record.topic
        if topic is None:
            raise UnreadableRecord("no topic in it, and none was given with -t")
        partition = record.partition if job.partition is None else job.partition
        if partition is not None and partition < 0:
            partition = None
        if partition is not None or topic != job.topic:
            self._check_place(topic, partition)
        self._sender.send(
            topic,
            record.value,
            key=record.key,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
            partition=partition,
            tag=where,
        )
        self.sent += 1

    def _check_place(self, topic: str, partition: int | None) -> None:
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = count_partitions(self._cluster, [topic], may_create=True)[topic]
        if partition is not None and partition >= count:
            raise UnreadableRecord(f"topic {topic} has {count} partitions, from 0 on; there is no {partition}")

    def _on_delivery(self, delivery: Delivery) -> None:
        if delivery.error_code == 0:
            self.stored += delivery.record_count
            self.stored_bytes += delivery.size_bytes
            return
        self.failed += delivery.record_count
        blamed = dict(delivery.record_errors)
        for index, where in enumerate(delivery.tags):
            if blamed and index not in blamed:
                continue
            reason = delivery.describe_error() + (f": {blamed[index]}" if blamed.get(index) else "")
            self._complain(f"{_where(where)}: not stored in {delivery.place}: {reason}")

    def _complain(self, text: str) -> None:
        self._failures_shown += 1
        if self._failures_shown <= _FAILURES_SHOWN:
            click.echo(f"ottla: {text}", err=True)
        elif self._failures_shown == _FAILURES_SHOWN + 1:
            click.echo("ottla: further failures are only counted", err=True)


def _where(tag: object) -> str:
    if isinstance(tag, tuple):
        return f"{tag[0]}: line {tag[1]}"
    return f"line {tag}" if isinstance(tag, int) else str(tag)


@contextmanager
def _no_progress() -> Iterator[Callable[[], None]]:
    yield lambda: None


@contextmanager
def _progress(file_number: int, source: MessageSource) -> Iterator[Callable[[], None]]:
    """A bar on a terminal's stderr while a file is read; nothing for what has no known end."""
    status = os.fstat(file_number)
    if not stat.S_ISREG(status.st_mode) or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=status.st_size)
        yield lambda: progress.update(task, completed=source.bytes_read)
