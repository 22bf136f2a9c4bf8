"""`make run`: a broker, the app's topics, generated traffic through them and back out, with figures all along.

`python -m ottla.pipeline.demo`. Ends with 0 when every record that was sent came back byte for byte, 1 when not,
130 after Ctrl-C. The broker and the reader end with it.
"""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import click
from rich.console import Console

from ottla.clients.admin import Admin
from ottla.clients.errors import ClientError
from ottla.pipeline.live import Figures, LiveDisplay, print_summary
from ottla.pipeline.local_broker import BrokerStartFailed, LocalBroker
from ottla.pipeline.read_back import ReadBack
from ottla.pipeline.sending import EventSender, ensure_topics
from ottla.pipeline.topics import DEFAULT_PARTITIONS
from ottla.pipeline.traffic.events import Event
from ottla.pipeline.traffic.generator import DEFAULT_START_MS, Settings, Traffic
from ottla.pipeline.traffic.population import DAY_MS
from ottla.pipeline.traffic.scenarios import Hardness

_DAYS: Final = 2
_STAMP_EVERY: Final = 16
_READY_TIMEOUT_S: Final = 30
_FINISH_TIMEOUT_MS: Final = 20_000
_INTERRUPTED: Final = 130
# An endless run keeps the last of it; an ordinary one is far below.
_TOPIC_CONFIGS: Final = (("retention.bytes", str(64 * 1024 * 1024)), ("segment.bytes", str(16 * 1024 * 1024)))


@click.command()
@click.option("--forever", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--accounts", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option(
    "--seconds", type=click.FloatRange(min=0.5), default=24, show_default=True, help="For two days of traffic."
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Default: a new folder data/run-….")
def main(forever: bool, seed: int, accounts: int, seconds: float, data_dir: Path | None) -> int:
    """Start a broker and play generated app traffic through it."""
    console = Console()
    if data_dir is None:
        data_dir = Path("data") / time.strftime("run-%Y%m%d-%H%M%S")
    broker = LocalBroker(data_dir)
    try:
        broker.start()
        return Demo(console, broker, forever=forever, seed=seed, accounts=accounts, seconds=seconds).run()
    except (BrokerStartFailed, ClientError) as error:
        Console(stderr=True).print(f"[bold red]failed:[/] {error}", highlight=False)
        return 1
    finally:
        broker.stop()


class Demo:
    """One run on a broker that is up. Ctrl-C ends the traffic; a second one ends everything at once."""

    def __init__(
        self, console: Console, broker: LocalBroker, *, forever: bool, seed: int, accounts: int, seconds: float
    ) -> None:
        self._console = console
        self._broker = broker
        self._forever = forever
        self._seed = seed
        self._accounts = accounts
        self._seconds = seconds
        self._is_interrupted = False
        self._event_time_ms = DEFAULT_START_MS
        self._peak_bytes = 0

    def run(self) -> int:
        previous = signal.signal(signal.SIGINT, self._interrupt)
        signal.signal(signal.SIGTERM, _exit)
        try:
            client = {"bootstrap.servers": self._broker.address, "client.id": "ottla-demo"}
            with Admin(client) as admin:
                ensure_topics(admin, partitions=DEFAULT_PARTITIONS, configs=_TOPIC_CONFIGS)
            reader = ReadBack(self._broker.address)
            try:
                reader.wait_until_ready(_READY_TIMEOUT_S)
                sender = EventSender(client, stamp_every=_STAMP_EVERY)
                try:
                    return self._play(sender, reader)
                finally:
                    sender.close()
            finally:
                reader.close()
        finally:
            signal.signal(signal.SIGINT, previous)

    def _play(self, sender: EventSender, reader: ReadBack) -> int:
        started = time.monotonic()
        display = LiveDisplay(self._console, address=self._broker.address, data_dir=str(self._broker.data_dir))
        with display:
            for event in self._paced(sender, reader, started, display):
                sender.send(event)
            sender.finish(_FINISH_TIMEOUT_MS, give_up=lambda: not self._broker.is_running)
            figures = self._wait_for_reader(sender, reader, started, display)
        return self._conclude(sender, reader, figures)

    def _paced(self, sender: EventSender, reader: ReadBack, started: float, display: LiveDisplay) -> Iterator[Event]:
        """Events when their time has come, by a clock that runs two days in so many seconds."""
        speed = _DAYS * DAY_MS / self._seconds
        for event in self._traffic():
            due = started + (event.event_time_ms - DEFAULT_START_MS) / speed
            while not self._is_interrupted and (early := due - time.monotonic()) > 0.002:
                time.sleep(min(early, 0.02))
                self._look(sender, reader, started, display)
            if self._is_interrupted or not self._broker.is_running or reader.failure is not None:
                return
            self._event_time_ms = event.event_time_ms
            if sender.sent_count % 256 == 0:
                self._look(sender, reader, started, display)
            yield event

    def _traffic(self) -> Iterator[Event]:
        start_ms = DEFAULT_START_MS
        seed = self._seed
        while True:
            yield from Traffic(Settings(seed, self._accounts, _DAYS, Hardness.MEDIUM, start_ms)).events()
            if not self._forever:
                return
            seed += 1
            start_ms += _DAYS * DAY_MS

    def _wait_for_reader(self, sender: EventSender, reader: ReadBack, started: float, display: LiveDisplay) -> Figures:
        deadline = time.monotonic() + _FINISH_TIMEOUT_MS / 1000
        while reader.records < sender.stored_count and reader.failure is None and time.monotonic() < deadline:
            time.sleep(0.02)
            self._look(sender, reader, started, display)
            if not self._broker.is_running:
                break
        return self._figures(sender, reader, started)

    def _look(self, sender: EventSender, reader: ReadBack, started: float, display: LiveDisplay) -> None:
        reader.take_reports()
        if display.is_due:
            display.show(self._figures(sender, reader, started))

    def _figures(self, sender: EventSender, reader: ReadBack, started: float) -> Figures:
        now = time.monotonic()
        usage = self._broker.usage()
        if usage is not None:
            self._peak_bytes = max(self._peak_bytes, usage.resident_bytes)
        return Figures(
            at=now,
            elapsed_s=now - started,
            planned_s=None if self._forever else self._seconds,
            event_time_ms=self._event_time_ms,
            sent={name: count.records for name, count in sender.sent.items()},
            sent_bytes=sum(count.size_bytes for count in sender.sent.values()),
            read={name: count[0] for name, count in reader.counts.items()},
            ack=sender.ack_latency,
            end_to_end=reader.latency,
            usage=usage,
        )

    def _conclude(self, sender: EventSender, reader: ReadBack, figures: Figures) -> int:
        sent = {name: (count.records, count.size_bytes, count.checksum) for name, count in sender.sent.items()}
        print_summary(self._console, figures=figures, peak_bytes=self._peak_bytes, sent=sent, read=reader.counts)
        problems = []
        if not self._broker.is_running:
            problems.append(f"the broker died; the end of its log:\n{self._broker.log_tail()}")
        if reader.failure is not None:
            problems.append(f"the reader failed: {reader.failure}")
        if sender.first_refusal is not None:
            problems.append(f"{sender.refused_count:,} records were refused: {sender.first_refusal}")
        if sent != reader.counts:
            problems.append("what came back is not what was sent")
        for problem in problems:
            self._console.print(f"[bold red]{problem}[/]", highlight=False)
        if not problems:
            self._say_what_next()
        if self._is_interrupted:
            return _INTERRUPTED
        return 1 if problems else 0

    def _say_what_next(self) -> None:
        """Commands to copy; the broker of this run has ended, its data is there for another."""
        data_dir = self._broker.data_dir
        ottla = _command_path()
        lines = (
            f"data is in {data_dir}; to look around in it:",
            f"  {ottla} serve --data-dir {data_dir}",
            "  kcat -b 127.0.0.1:9092 -C -t ml_login_log -o beginning -e | head",
            f"  {ottla} dump-log --deep {data_dir}/ml_login_log-0/00000000000000000000.log | head",
            f"  {ottla} pipeline generate --accounts 1000 --days 7 --truth truth.json -b 127.0.0.1:9092",
        )
        for line in lines:
            self._console.print(line, highlight=False, soft_wrap=True)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _command_path() -> str:
    """`ottla` as it can be typed here."""
    beside_python = Path(sys.executable).with_name("ottla")
    try:
        return str(beside_python.relative_to(Path.cwd()))
    except ValueError:
        return str(beside_python) if beside_python.exists() else "ottla"


if __name__ == "__main__":
    try:
        sys.exit(main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(_INTERRUPTED)
