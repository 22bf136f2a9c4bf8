"""Raw load: requests packed beforehand, sent by the C loader: the broker is the bound, not the client."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.loader import Load, LoadResult, run_loader
from bench.model import Metric
from bench.peers import Peer
from bench.requests import Batch, batch_of_size, fetch_request, one_record_batch, produce_request

KILOBYTE = 1024
MEGABYTE = 1024 * 1024
# A round ends after so many bytes: what the page cache takes, so that no round waits for the disk's own speed.
ROUND_BYTES_MAX = 1024 * MEGABYTE
_WARMUP_SECONDS = 0.5
# More than a round writes, its warm-up included, and less than makes the kernel start writing to the disk.
_TOUCHED_BYTES = 2 * ROUND_BYTES_MAX
_RECORD_BYTES = 1000
_SMALL_RECORD_BYTES = 100
_LOG_BATCH_BYTES = 16 * KILOBYTE
_LOG_BYTES = 256 * MEGABYTE


def batches_of(batch_bytes: int) -> Callable[[], Batch]:
    return lambda: batch_of_size(batch_bytes, value_bytes=_RECORD_BYTES)


def one_record() -> Batch:
    return one_record_batch(value_bytes=_SMALL_RECORD_BYTES)


class RawProduce:
    """acks=1 Produce requests of one batch each, as fast as they are answered."""

    def __init__(
        self,
        name: str,
        title: str,
        metrics: Sequence[Metric],
        *,
        batch: Callable[[], Batch],
        connections: int,
        inflight: int,
        seconds: float,
        topic_config: Mapping[str, str] | None = None,
        partitions: int | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.metrics = metrics
        self._batch = batch
        self._topic_config = topic_config
        self._load = Load(
            connections,
            inflight,
            partitions=min(8, connections) if partitions is None else partitions,
            seconds=seconds,
            warmup_seconds=min(_WARMUP_SECONDS, seconds / 2),
            max_bytes=ROUND_BYTES_MAX,
        )

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        topic = f"{self.name}-{round_number}"
        peer.create_topic(topic, partitions=self._load.partitions, config=self._topic_config)
        try:
            request = produce_request(topic, self._batch())
            touch_page_cache(peer.scratch_dir, _TOUCHED_BYTES)
            with peer.cpu_watch():
                result = run_loader(peer.broker.port, request, self._load, topic=topic, scratch_dir=peer.scratch_dir)
        finally:
            peer.drop_topic(topic)
        return figures(result)


def touch_page_cache(directory: Path, size_bytes: int) -> None:
    """Write a file of that size and delete it.

    On a virtual machine the first use of a page is a fault of the host and costs several times the write itself: who
    ran first in a round would pay for all. After this both find memory that is there.
    """
    path = directory / "touched"
    chunk = bytes(MEGABYTE)
    with path.open("wb", buffering=0) as file:
        for _ in range(size_bytes // MEGABYTE):
            file.write(chunk)
    path.unlink()


class RawFetch:
    """Fetch requests of a fixed size over a partition that lies in the page cache, one connection."""

    def __init__(self, name: str, title: str, metrics: Sequence[Metric], *, max_bytes: int, seconds: float) -> None:
        self.name = name
        self.title = title
        self.metrics = metrics
        self._max_bytes = max_bytes
        self._seconds = seconds

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        topic = f"{self.name}-{round_number}"
        peer.create_topic(topic)
        batch = batch_of_size(_LOG_BATCH_BYTES, value_bytes=_RECORD_BYTES)
        try:
            offset_end = fill(peer, topic, batch)
            load = Load(1, 1, seconds=self._seconds, warmup_seconds=min(1.0, self._seconds / 2), offset_end=offset_end)
            request = fetch_request(topic, batch, max_bytes=self._max_bytes)
            with peer.cpu_watch():
                result = run_loader(peer.broker.port, request, load, topic=topic, scratch_dir=peer.scratch_dir)
        finally:
            peer.drop_topic(topic)
        return figures(result)


def fill(peer: Peer, topic: str, batch: Batch) -> int:
    """Append copies of `batch`; the log end offset that is surely reached."""
    load = Load(1, 5, seconds=60, warmup_seconds=0, max_bytes=_LOG_BYTES)
    request = produce_request(topic, batch)
    result = run_loader(peer.broker.port, request, load, topic=topic, scratch_dir=peer.scratch_dir)
    return result.requests * batch.record_count


def figures(result: LoadResult) -> Mapping[str, float]:
    return {
        "MB/s": result.megabytes_per_second,
        "requests/s": result.requests_per_second,
        "p50": result.p50_ms,
        "p99": result.p99_ms,
        "p99.9": result.p999_ms,
    }


def warm_up(peer: Peer, *, scale: float) -> None:
    """All kinds of raw load for a while, not measured: a JVM reaches its speed after some tens of seconds."""
    rounds: list[RawProduce | RawFetch] = [
        RawProduce("warm-one", "", (), batch=one_record, connections=16, inflight=5, seconds=16 * scale),
        RawProduce("warm-64k", "", (), batch=batches_of(64 * KILOBYTE), connections=4, inflight=5, seconds=6 * scale),
        RawFetch("warm-fetch", "", (), max_bytes=64 * KILOBYTE, seconds=4 * scale),
        RawFetch("warm-fetch-1m", "", (), max_bytes=MEGABYTE, seconds=2 * scale),
        RawProduce("warm-1m", "", (), batch=batches_of(MEGABYTE), connections=2, inflight=3, seconds=4 * scale),
    ]
    for warm_round in rounds:
        warm_round.run_round(peer, 0)


def raw_cases(seconds: float) -> list[RawProduce | RawFetch]:
    def throughput(goal: float) -> list[Metric]:
        return [Metric("MB/s", "MB/s", goal=goal)]

    def requests(goal: float) -> list[Metric]:
        return [Metric("requests/s", "/s", goal=goal)]

    latency = [
        Metric("p50", "ms", higher_is_better=False),
        Metric("p99", "ms", higher_is_better=False, goal=1.0),
        Metric("p99.9", "ms", higher_is_better=False),
    ]
    # In one partition: what is asked is how many requests one fsync serves.
    durable = {"flush.messages": "1"}

    def produce(name: str, title: str, metrics: Sequence[Metric], batch: Callable[[], Batch], connections: int,
                inflight: int, topic_config: Mapping[str, str] | None = None) -> RawProduce:  # fmt: skip
        return RawProduce(name, f"{title}, {connections}x{inflight}", metrics, batch=batch, connections=connections,
                          inflight=inflight, seconds=seconds, topic_config=topic_config,
                          partitions=1 if topic_config else None)  # fmt: skip

    kilobytes_64 = batches_of(64 * KILOBYTE)
    return [
        produce("produce-1m", "raw produce, 1 MB requests", throughput(3.0), batches_of(MEGABYTE), 2, 3),
        produce("produce-64k", "raw produce, 64 KB requests", throughput(2.5), kilobytes_64, 4, 5),
        produce("produce-16k", "raw produce, 16 KB requests", throughput(2.0), batches_of(16 * KILOBYTE), 8, 5),
        produce("produce-one-16x5", "raw produce, one 100 B record", requests(1.0), one_record, 16, 5),
        produce("produce-one-100x1", "raw produce, one 100 B record", requests(1.0), one_record, 100, 1),
        RawFetch("fetch-1m", "raw fetch of 1 MB, one connection", throughput(2.0), max_bytes=MEGABYTE, seconds=seconds),
        RawFetch("fetch-64k", "raw fetch of 64 KB, one connection", throughput(1.5), max_bytes=64 * KILOBYTE,
                 seconds=seconds),
        produce("latency", "one record at a time, acks 1", latency, one_record, 1, 1),
        produce("durable-one-50x1", "flush.messages=1, one 100 B record", requests(20.0), one_record, 50, 1, durable),
        produce("durable-64k", "flush.messages=1, 64 KB requests", requests(5.0), kilobytes_64, 8, 5, durable),
    ]  # fmt: skip
