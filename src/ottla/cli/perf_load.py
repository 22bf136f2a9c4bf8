"""Sends at full speed, or at a rate: the work of `ottla perf produce`, record by record or as Arrow tables."""

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.producer import Producer
from ottla.pipeline.latency import LatencyHistogram

if TYPE_CHECKING:
    import pyarrow

_PAYLOADS: Final = 64
_SEND_AT_ONCE: Final = 1_024
_TABLE_ROWS: Final = 20_000
_TABLE_BYTES: Final = 4 * 1024 * 1024
_SAMPLES: Final = 1_000
_SAMPLE_EVERY_MAX: Final = 100
_MEBIBYTE: Final = 1024 * 1024

Report = dict[str, float | int | str | None]


class Load:
    """One run over one producer, which it doesn't close."""

    def __init__(self, producer: Producer, topic: str, *, record_size: int) -> None:
        self._producer = producer
        self._topic = topic
        self._record_size = record_size
        self._lock = threading.Lock()  # deliveries come in the producer's thread
        self._latency = LatencyHistogram()
        self._latency_sum_ms = 0.0
        self._seconds = 0.0

    def send_records(self, records: int, *, throughput: int, show: Callable[[int], None]) -> None:
        """One by one. Times a sample from `send` to the acknowledgement: timing all would cost more than sending."""
        payloads = [_letters(self._record_size) for _ in range(_PAYLOADS)]
        every = max(1, min(_SAMPLE_EVERY_MAX, records // _SAMPLES))
        send, topic = self._producer.send, self._topic

        def send_some(first: int, count: int) -> None:
            for number in range(first, first + count):
                if number % every:
                    send(topic, payloads[number % _PAYLOADS])
                else:
                    send(topic, payloads[number % _PAYLOADS], on_delivery=self._timed(time.monotonic()))

        self._run(records, _SEND_AT_ONCE, send_some, throughput=throughput, show=show)

    def send_tables(self, records: int, *, throughput: int, show: Callable[[int], None]) -> None:
        """As Arrow tables; measures the latency of a whole table."""
        rows = max(1, min(records, _TABLE_ROWS, _TABLE_BYTES // max(1, self._record_size)))
        table = self._table(rows)

        def send_some(first: int, count: int) -> None:
            sent_at = time.monotonic()
            handle = self._producer.send_arrow(self._topic, table.slice(0, count))
            handle.when_done(lambda: self._add_latency(sent_at))

        self._run(records, rows, send_some, throughput=throughput, show=show)

    def report(self) -> Report:
        counts = self._producer.counts()
        seconds = max(self._seconds, 1e-9)
        latency = self._latency
        return {
            "records": counts.stored_records,
            "failed": counts.failed_records,
            "seconds": round(seconds, 3),
            "records_per_second": round(counts.stored_records / seconds, 1),
            "mib_per_second": round(counts.stored_records * self._record_size / seconds / _MEBIBYTE, 3),
            "latency_avg_ms": round(self._latency_sum_ms / latency.count, 2) if latency.count else None,
            **percentiles("latency", latency),
        }

    def _run(
        self,
        records: int,
        at_once: int,
        send_some: Callable[[int, int], None],
        *,
        throughput: int,
        show: Callable[[int], None],
    ) -> None:
        producer = self._producer
        started = time.monotonic()
        sent = 0
        while sent < records:
            allowed = min(records - sent, at_once)
            if throughput > 0:
                allowed = min(allowed, int((time.monotonic() - started) * throughput) + 1 - sent)
            if allowed > 0:
                send_some(sent, allowed)
                sent += allowed
            else:
                time.sleep(0.001)
            show(producer.counts().stored_records)
        producer.flush()
        self._seconds = time.monotonic() - started
        show(producer.counts().stored_records)

    def _table(self, rows: int) -> "pyarrow.Table":
        import pyarrow as pa  # only who asks for columns needs it, and before the clock runs

        import ottla.columns.encoding  # noqa: F401

        payloads = [_letters(self._record_size) for _ in range(min(rows, _PAYLOADS))]
        return pa.table({"value": pa.array([payloads[row % len(payloads)] for row in range(rows)], pa.binary())})

    def _timed(self, sent_at: float) -> Callable[[SendHandle], None]:
        def delivered(handle: SendHandle) -> None:
            self._add_latency(sent_at)

        return delivered

    def _add_latency(self, sent_at: float) -> None:
        latency_ms = (time.monotonic() - sent_at) * 1000
        with self._lock:
            self._latency.add(latency_ms)
            self._latency_sum_ms += latency_ms


def percentiles(name: str, times: LatencyHistogram) -> Report:
    """The usual percentiles, by name."""
    found = {f"{name}_p{each}_ms": times.percentile_ms(each) for each in (50, 95, 99)}
    rounded: Report = {key: None if value is None else round(value, 2) for key, value in found.items()}
    return {**rounded, f"{name}_max_ms": round(times.max_ms, 2)}


def _letters(size: int) -> bytes:
    return bytes(65 + byte % 26 for byte in os.urandom(size))
