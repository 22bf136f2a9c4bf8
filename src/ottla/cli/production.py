"""The loop behind `ottla produce`: reads messages, sends them, and counts what was stored."""

import os
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

import click

from ottla.cli.produce_input import LineParser, MessageSource
from ottla.cli.record_json import UnreadableRecord
from ottla.clients.errors import BrokerError, TimedOut, error_name
from ottla.clients.producer.errors import RecordRefused, RecordTooLarge
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.producer import Producer

_FAILURES_SHOWN: Final = 10
_SETTLE_EVERY_RECORDS: Final = 4_096
_IDLE_WAIT_MS: Final = 1_000
_BUSY_WAIT_MS: Final = 50  # how late a failure may be reported while no input comes
_FLUSH_AFTER_INTERRUPT_MS: Final = 5_000


class Job(NamedTuple):
    """What the command line asks for."""

    topic: str | None
    partition: int | None
    parse: LineParser
    limit: int | None
    delimiter: bytes


class Production:
    """One run over one producer, which it doesn't close. `count_partitions` raises for an unknown topic."""

    def __init__(self, producer: Producer, job: Job, count_partitions: Callable[[str], int]) -> None:
        self.sent = 0
        self.stored = 0
        self.failed = 0
        self._producer = producer
        self._job = job
        self._count_partitions = count_partitions
        self._counts: dict[str, int] = {}
        self._under_way: deque[tuple[SendHandle, object]] = deque()
        self._failures_shown = 0

    def check_partition(self, topic: str) -> None:
        """Before reading anything: checks that the topic exists and has the wanted partition."""
        try:
            self._check_partition(topic, self._job.partition)
        except UnreadableRecord as error:
            raise click.ClickException(str(error)) from error

    def run(self, files: Sequence[str], *, whole_files: bool, with_progress: bool, verbose: bool) -> int:
        """Returns the exit code; an interrupt ends the reading, and what was read is still sent."""
        started = time.monotonic()
        try:
            is_readable = self._read_whole(files) if whole_files else self._read_lines(files, with_progress)
        except KeyboardInterrupt:
            self._flush(_FLUSH_AFTER_INTERRUPT_MS)
            self._summarize(started)
            raise
        self._flush(None)
        unsettled = len(self._under_way)
        if unsettled:
            click.echo(f"ottla: {unsettled} messages got no answer in time; they may or may not be stored", err=True)
        is_whole = is_readable and not self.failed and not unsettled
        if verbose or not is_whole:
            self._summarize(started)
        return 0 if is_whole else 1

    def _flush(self, timeout_ms: int | None) -> None:
        try:
            self._producer.flush(timeout_ms)
        except TimedOut:
            pass  # what is left is counted
        self._settle()

    def _summarize(self, started: float) -> None:
        seconds = time.monotonic() - started
        failed = f", {self.failed} failed" if self.failed else ""
        size_bytes = self._producer.counts().stored_bytes
        click.echo(f"ottla: {self.stored} messages stored ({size_bytes} bytes) in {seconds:.2f} s{failed}", err=True)

    # Reading.

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
            self._settle()
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
        while not source.is_at_end:
            for message in source.read(_BUSY_WAIT_MS if self._under_way else _IDLE_WAIT_MS):
                if self.sent == limit:
                    return True
                line += 1
                try:
                    self._send(message, (name, line) if name else line)
                except UnreadableRecord as error:
                    self._complain(f"{prefix}line {line}: {error}")
                    return False
                if not line % _SETTLE_EVERY_RECORDS:
                    self._settle()
            show()
            self._settle()
        return True

    # Sending.

    def _send(self, message: bytes, where: object) -> None:
        job = self._job
        value, key, headers, timestamp_ms, partition, topic = job.parse(message)
        topic = job.topic or topic
        if topic is None:
            raise UnreadableRecord("no topic in it, and none was given with -t")
        if job.partition is not None:
            partition = job.partition
        elif partition is not None and partition < 0:
            partition = None
        if partition is not None or topic != job.topic:
            self._check_partition(topic, partition)
        self.sent += 1
        try:
            if partition is None and timestamp_ms is None and not headers:
                handle = self._producer.send(topic, value, key)  # the producer's short way
            else:
                handle = self._producer.send(topic, value, key, headers, partition, timestamp_ms)
        except RecordTooLarge as error:
            self.failed += 1
            self._complain(f"{_where(where)}: not stored: {error}")
        else:
            self._under_way.append((handle, where))

    def _check_partition(self, topic: str, partition: int | None) -> None:
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = self._count_partitions(topic)
        if partition is not None and partition >= count:
            raise UnreadableRecord(f"topic {topic} has {count} partitions, from 0 on; there is no {partition}")

    def _settle(self) -> None:
        """Count finished messages, oldest first; reports those that the broker blames before the others."""
        under_way = self._under_way
        failures = []
        while under_way and under_way[0][0].done():
            handle, where = under_way.popleft()
            error = handle.exception(0)
            if error is None:
                self.stored += 1
            else:
                self.failed += 1
                failures.append((handle, where, error))
        failures.sort(key=lambda failure: not isinstance(failure[2], RecordRefused))
        for handle, where, error in failures:
            topic_partition = handle.topic_partition
            reason = _reason(error).removeprefix(f"{topic_partition}: ")
            self._complain(f"{_where(where)}: not stored in {topic_partition}: {reason}")

    def _complain(self, text: str) -> None:
        self._failures_shown += 1
        if self._failures_shown <= _FAILURES_SHOWN:
            click.echo(f"ottla: {text}", err=True)
        elif self._failures_shown == _FAILURES_SHOWN + 1:
            click.echo("ottla: further failures are only counted", err=True)


def _reason(error: Exception) -> str:
    if isinstance(error, BrokerError):
        return error_name(error.error_code) + (f" ({error.message})" if error.message else "")
    return str(error)


def _where(tag: object) -> str:
    if isinstance(tag, tuple):
        return f"{tag[0]}: line {tag[1]}"
    return f"line {tag}" if isinstance(tag, int) else str(tag)


@contextmanager
def _no_progress() -> Iterator[Callable[[], None]]:
    yield lambda: None


@contextmanager
def _progress(file_number: int, source: MessageSource) -> Iterator[Callable[[], None]]:
    """A progress bar on a terminal's stderr while reading a file; nothing for input without a known end."""
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
