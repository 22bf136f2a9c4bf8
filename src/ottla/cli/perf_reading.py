"""Reads at full speed, alone or in a group: the work of `ottla perf consume`, records or Arrow batches."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.perf_load import Report, percentiles
from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.listener import RebalanceListener
from ottla.core.types import TopicPartition
from ottla.pipeline.latency import LatencyHistogram

if TYPE_CHECKING:
    import pyarrow

_POLL_WAIT_MS: Final = 200
_JOIN_WAIT_MS: Final = 60_000
_MEBIBYTE: Final = 1024 * 1024


class Reading(RebalanceListener):
    """One run over one consumer, which it doesn't close. Counts the time of rebalances apart."""

    def __init__(self, consumer: Consumer, *, as_arrow: bool, timeout_ms: int, show: Callable[[int], None]) -> None:
        self.records = 0
        self._consumer = consumer
        self._read = self._read_arrow if as_arrow else self._read_records
        self._timeout_ms = timeout_ms
        self._show = show
        self._size_bytes = 0
        self._joining_since: float | None = None
        self._join_seconds = 0.0
        self._polls = LatencyHistogram()
        self._seconds = 0.0
        self._last_at = time.monotonic()
        if as_arrow:
            # Before the clock runs.
            import pyarrow.compute  # noqa: F401

            import ottla.clients.consumer.arrow  # noqa: F401

    def run_assigned(self, topic_partitions: Sequence[TopicPartition], records: int) -> None:
        self._consumer.assign(topic_partitions)
        self._run(records)

    def run_in_group(self, topic: str, records: int) -> None:
        self._joining_since = time.monotonic()
        self._consumer.subscribe([topic], self)
        self._run(records)

    def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
        if self._joining_since is not None:
            self._join_seconds += time.monotonic() - self._joining_since
            self._joining_since = None
        self._last_at = time.monotonic()

    def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self._joining_since = time.monotonic()

    def report(self) -> Report:
        reading = max(self._seconds - self._join_seconds, 1e-9)
        return {
            "records": self.records,
            "seconds": round(self._seconds, 3),
            "join_seconds": round(self._join_seconds, 3),
            "records_per_second": round(self.records / reading, 1),
            "mib_per_second": round(self._size_bytes / reading / _MEBIBYTE, 3),
            **percentiles("poll", self._polls),
        }

    def _run(self, records: int) -> None:
        begun = self._last_at = time.monotonic()
        while self.records < records:
            started = time.monotonic()
            count = self._read(records - self.records)
            now = time.monotonic()
            if count:
                self.records += count
                self._polls.add((now - started) * 1000)
                self._show(self.records)
                self._last_at = now
            elif now - self._last_at > self._patience_ms() / 1000:
                break
        self._seconds = time.monotonic() - begun

    def _patience_ms(self) -> int:
        """The time of a rebalance is not reading time."""
        return self._timeout_ms if self._joining_since is None else max(self._timeout_ms, _JOIN_WAIT_MS)

    def _read_records(self, most: int) -> int:
        records = self._consumer.poll(_POLL_WAIT_MS)
        size_bytes = 0
        for record in records:
            key, value = record.key, record.value
            if key is not None:
                size_bytes += len(key)
            if value is not None:
                size_bytes += len(value)
        self._size_bytes += size_bytes
        return min(len(records), most)

    def _read_arrow(self, most: int) -> int:
        batch = self._consumer.poll_arrow(_POLL_WAIT_MS)
        if batch is None:
            return 0
        self._size_bytes += _data_bytes(batch)
        rows: int = batch.num_rows
        return min(rows, most)


def _data_bytes(batch: "pyarrow.RecordBatch") -> int:
    """Of keys and values."""
    import pyarrow.compute as pc  # only who asks for columns needs it

    sizes: list[int | None] = [pc.sum(pc.binary_length(batch.column(name))).as_py() for name in ("key", "value")]
    return sum(size for size in sizes if size is not None)
