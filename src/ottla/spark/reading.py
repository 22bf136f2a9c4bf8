"""One slice of a log as Arrow batches: what runs in Spark's Python workers.

Ends by position, not by count: compacted records and transaction markers take offsets and give no rows. Waits for a
broker that goes away in the middle; `data_loss` reports records that are gone for good.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final

from ottla import Consumer
from ottla.clients.consumer.errors import OffsetOutOfRange
from ottla.clients.errors import ClientError
from ottla.clients.fetched_batches import UnreadableRecords, WantedBatches
from ottla.columns.decoding import ColumnDecoder
from ottla.core.types import Offset
from ottla.records.errors import CorruptBatch
from ottla.spark.data_loss import report_loss
from ottla.spark.log_view import ClusterNotReached, LogView, NothingToRead
from ottla.spark.options import ReadOptions
from ottla.spark.planning import LogSlice
from ottla.spark.schema import to_spark

# All records to read exist already: a broker has no reason to delay its response.
_FETCH_WAIT_MS: Final = "10"
_FETCH_BYTES: Final = "8388608"
_POLL_MS: Final = 1_000
# After this long without progress, ask the cluster whether the topic is still the same.
_SUSPICIOUS_MS = 2_000
_STATS_TIMEOUT_MS: Final = 30_000

_BASE_OFFSET: Final = Struct(">q")  # what a batch begins with

# Kept between the tasks of a worker process, which runs one at a time: connecting is expensive.
_idle: dict[tuple[tuple[str, str], ...], Consumer] = {}


class ReadStalled(TimeoutError):
    """Nothing came for `kafkaConsumer.pollTimeoutMs`, although there were records to read."""


def read_slices(options: ReadOptions, pieces: Iterable[LogSlice]) -> Iterator[Any]:
    """The records of slices, one after the other, as `pyarrow.RecordBatch`es in Spark's schema."""
    key = tuple(sorted(_settings(options).items()))
    consumer = _idle.pop(key, None) or Consumer(dict(key))
    try:
        for piece in pieces:
            yield from _read(consumer, options, piece)
        consumer.assign([])  # or it would go on to fetch what nobody reads
    except BaseException:
        consumer.close()
        raise
    _idle[key] = consumer


def _settings(options: ReadOptions) -> dict[str, str]:
    return {
        "fetch.max.wait.ms": _FETCH_WAIT_MS,
        "max.partition.fetch.bytes": _FETCH_BYTES,
        **options.client,
        "auto.offset.reset": "none",
        "allow.auto.create.topics": "false",
    }


def _read(consumer: Consumer, options: ReadOptions, piece: LogSlice) -> Iterator[Any]:
    topic_partition = piece.topic_partition
    position = piece.start
    consumer.assign([topic_partition])
    consumer.seek(topic_partition, position, until=piece.end)
    watch = _Watch(options, piece)
    while position < piece.end:
        try:
            fetched = consumer.poll_fetched(_POLL_MS)
            reached = consumer.position(topic_partition)
        except OffsetOutOfRange:
            fetched = None
            reached = _skip_lost(consumer, options, piece, position)
            consumer.seek(topic_partition, reached, until=piece.end)
        if reached == position:
            if not watch.is_worth_waiting(position):
                return
            continue
        watch.moved()
        position = reached
        if fetched is not None:
            batch = _decoded(fetched, consumer, options, end=piece.end)
            if batch is not None:
                yield to_spark(batch)


def _decoded(fetched: WantedBatches, consumer: Consumer, options: ReadOptions, *, end: Offset) -> Any:
    """The rows before an offset; None without any. A fetch also brings later records, which are not decoded."""
    starts = fetched.starts
    count = bisect_left(starts, end, key=lambda start: _BASE_OFFSET.unpack_from(fetched.data, start)[0])
    data = fetched.data if count == len(starts) else memoryview(fetched.data)[: starts[count]]
    topic, partition = fetched.topic_partition
    decoder = ColumnDecoder(with_headers=options.includes_headers)
    try:
        decoder.add_all(
            data,
            starts[:count],
            topic=topic,
            partition=partition,
            from_offset=fetched.from_offset,
            to_offset=end,
            check_crc=consumer.config.get_bool("check.crcs"),
        )
    except CorruptBatch as damage:
        raise UnreadableRecords(
            f"{fetched.topic_partition}: from offset {fetched.from_offset} on: {damage}"
        ) from damage
    return decoder.finish() if decoder.count else None


def _skip_lost(consumer: Consumer, options: ReadOptions, piece: LogSlice, position: Offset) -> Offset:
    """Where to continue after a position that the log doesn't have; the end of the slice if nothing is left."""
    topic_partition = piece.topic_partition
    earliest = consumer.beginning_offsets([topic_partition], _STATS_TIMEOUT_MS)[topic_partition]
    if position < earliest:
        reached = min(earliest, piece.end)
        what = f"{topic_partition}: offsets {position} to {reached - 1} are gone, the log begins at {earliest}"
    else:
        latest = consumer.end_offsets([topic_partition], _STATS_TIMEOUT_MS)[topic_partition]
        reached = piece.end
        what = f"{topic_partition}: offsets {position} to {reached - 1} are gone, the log ends at {latest}"
    report_loss(what, fails=options.fails_on_data_loss)
    return reached


class _Watch:
    """Watches one slice: how long nothing has come, and whether to stop."""

    def __init__(self, options: ReadOptions, piece: LogSlice) -> None:
        self._options = options
        self._piece = piece
        self.moved()

    def moved(self) -> None:
        self._since_s = time.monotonic()
        self._asked_s = self._since_s

    def is_worth_waiting(self, position: Offset) -> bool:
        """False if the rest is gone and that is not an error; raises if it is."""
        now_s = time.monotonic()
        if (now_s - self._asked_s) * 1000 >= _SUSPICIOUS_MS:
            self._asked_s = now_s
            if not self._is_same_topic(position):
                return False
        waited_ms = int((now_s - self._since_s) * 1000)
        if waited_ms >= self._options.poll_timeout_ms:
            raise ReadStalled(self._complaint(position, waited_ms))
        return True

    def _is_same_topic(self, position: Offset) -> bool:
        piece = self._piece
        lost = f"{piece.topic_partition}: offsets {position} to {piece.end - 1} are gone"
        try:
            with LogView(_quick(self._options)) as view:
                topic_id = view.topic_id(piece.topic)
        except NothingToRead:
            report_loss(f"{lost}, the topic was deleted", fails=self._options.fails_on_data_loss)
            return False
        except (ClusterNotReached, ClientError):
            return True  # a broker that is away comes back, within the bound
        if piece.topic_id is not None and topic_id != piece.topic_id:
            report_loss(f"{lost}, the topic was deleted and created again", fails=self._options.fails_on_data_loss)
            return False
        return True

    def _complaint(self, position: Offset, waited_ms: int) -> str:
        piece, options = self._piece, self._options
        try:
            with LogView(_quick(options)) as view:
                end = view.latest([piece.topic_partition])[piece.topic_partition]
        except (ClusterNotReached, ClientError) as error:
            return f"{piece.topic_partition}: nothing at offset {position} for {waited_ms} ms: {error}"
        why = "a transaction is open there" if options.reads_committed and end < piece.end else "its broker gives none"
        return (
            f"{piece.topic_partition}: nothing at offset {position} for {waited_ms} ms (kafkaConsumer.pollTimeoutMs), "
            f"though {piece.end - position} offsets are to be read and the log goes to {end}; {why}"
        )


def _quick(options: ReadOptions) -> ReadOptions:
    """For a check within a read, which has its own time limit."""
    return options._replace(client=options.client | {"default.api.timeout.ms": "2000"})
