"""The demo's reader, in a process of its own: reads the topics back by assignment and says what it saw.

Its own process, because in one interpreter the sender's work would be counted as latency.
"""

import signal
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from typing import Final, NamedTuple

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.errors import ClientError
from ottla.pipeline.latency import LatencyHistogram
from ottla.pipeline.sending import SENT_AT, SENT_AT_HEADER, TopicCount
from ottla.pipeline.topics import TOPIC_NAMES

_REPORT_EVERY_S: Final = 0.1
_FETCH_WAIT_MS: Final = 100
_POLL_RECORDS: Final = 2_000
_STOP: Final = "stop"


class ReadReport(NamedTuple):
    """What was read since the start, and the latencies since the last report."""

    counts: dict[str, tuple[int, int, int]]  # topic -> records, bytes, checksum
    latencies_ms: list[float]
    failure: str | None


class ReadBack:
    """The reading process, and what it has told so far. Owned by the demo, which calls `take_reports`."""

    def __init__(self, bootstrap: str) -> None:
        self.counts: dict[str, tuple[int, int, int]] = dict.fromkeys(TOPIC_NAMES, (0, 0, 0))
        self.latency = LatencyHistogram()
        self.failure: str | None = None
        context = get_context("spawn")
        self._pipe, their_end = context.Pipe()
        self._process: BaseProcess = context.Process(target=_read, args=(bootstrap, their_end), daemon=True)
        self._process.start()
        their_end.close()

    @property
    def records(self) -> int:
        return sum(count[0] for count in self.counts.values())

    def wait_until_ready(self, timeout_s: float) -> None:
        """The first report comes when all partitions are assigned."""
        if self._pipe.poll(timeout_s):
            self.take_reports()
        else:
            self.failure = f"the reader did not start within {timeout_s:.0f} s"

    def take_reports(self) -> None:
        try:
            while self._pipe.poll():
                report: ReadReport = self._pipe.recv()
                self.counts = report.counts
                self.failure = report.failure or self.failure
                for latency_ms in report.latencies_ms:
                    self.latency.add(latency_ms)
        except (EOFError, ConnectionResetError):
            self.failure = self.failure or "the reader ended unexpectedly"

    def close(self) -> None:
        try:
            self._pipe.send(_STOP)
        except OSError:
            pass  # it is gone already
        self._process.join(timeout=3)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()


def _read(bootstrap: str, pipe: Pipe) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the demo's to handle
    counts = {name: TopicCount() for name in TOPIC_NAMES}
    latencies_ms: list[float] = []
    failure = None
    try:
        settings = {
            "bootstrap.servers": bootstrap,
            "client.id": "ottla-demo-reader",
            "auto.offset.reset": "earliest",
            "max.poll.records": _POLL_RECORDS,
        }
        with Consumer(settings) as consumer:
            consumer.assign([place for name in TOPIC_NAMES for place in consumer.partitions_for(name)])
            _report(pipe, counts, latencies_ms, None)
            last_report = time.monotonic()
            while not pipe.poll():
                records = consumer.poll(_FETCH_WAIT_MS)
                now_ns = time.monotonic_ns()
                for record in records:
                    counts[record.topic].add(record.value or b"")
                    if record.headers and record.headers[0][0] == SENT_AT_HEADER:
                        (sent_at_ns,) = SENT_AT.unpack(record.headers[0][1] or bytes(8))
                        latencies_ms.append((now_ns - sent_at_ns) / 1e6)
                now = time.monotonic()
                if now - last_report >= _REPORT_EVERY_S:
                    last_report = now
                    _report(pipe, counts, latencies_ms, None)
    except ClientError as error:
        failure = str(error)
    except OSError:
        return  # the demo is gone, and its pipe with it
    try:
        _report(pipe, counts, latencies_ms, failure)
    except OSError:
        pass


def _report(pipe: Pipe, counts: dict[str, TopicCount], latencies_ms: list[float], failure: str | None) -> None:
    shown = {name: (count.records, count.size_bytes, count.checksum) for name, count in counts.items()}
    pipe.send(ReadReport(shown, latencies_ms[:], failure))
    latencies_ms.clear()
