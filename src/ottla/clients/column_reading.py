"""Reads a topic, or a part of it, as an Arrow table: from offsets or times up to the current end.

No groups and no commits. `ottla.columns.read` and `ottla.columns.read_batches` are these functions.
"""

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ottla.clients.admin import Admin
from ottla.clients.admin_offsets import NO_OFFSET
from ottla.clients.consumer.consumer import Consumer
from ottla.clients.errors import OperationFailed
from ottla.clients.fetched_batches import UnreadableRecords, WantedBatches
from ottla.columns.decoding import ColumnDecoder
from ottla.columns.schema import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS
from ottla.core.types import Offset, TopicPartition
from ottla.records.errors import CorruptBatch

# "earliest", "latest", a time, one offset for all partitions, or an offset for each partition.
OffsetSpec: TypeAlias = "str | datetime.datetime | int | Mapping[int, int]"

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
BATCH_BYTES: Final = 32 * 1024 * 1024
_FETCH_BYTES_MAX: Final = 32 * 1024 * 1024
_PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
_WAIT_MS: Final = 100
_UNREACHABLE_MS: Final = 30_000
_BATCHES_AT_ONCE: Final = 16


def read(
    topic: str | Sequence[str],
    *,
    bootstrap_servers: str = DEFAULT_BOOTSTRAP,
    start: OffsetSpec = "earliest",
    end: OffsetSpec = "latest",
    partitions: Sequence[int] | None = None,
    headers: bool = False,
    isolation_level: str = "read_uncommitted",
    client_id: str = "ottla",
) -> pa.Table:
    """All records from `start` to before `end` as one table, sorted by partition and offset.

    `start` and `end` are "earliest", "latest", a `datetime` (the first record at or after it), an offset, or a mapping
    of partition to offset. "latest" is the end of the topic at the time of the call.
    """
    reader = read_batches(
        topic,
        bootstrap_servers=bootstrap_servers,
        start=start,
        end=end,
        partitions=partitions,
        headers=headers,
        isolation_level=isolation_level,
        client_id=client_id,
    )
    return reader.read_all()


def read_batches(
    topic: str | Sequence[str],
    *,
    bootstrap_servers: str = DEFAULT_BOOTSTRAP,
    start: OffsetSpec = "earliest",
    end: OffsetSpec = "latest",
    partitions: Sequence[int] | None = None,
    headers: bool = False,
    isolation_level: str = "read_uncommitted",
    batch_bytes: int = BATCH_BYTES,
    client_id: str = "ottla",
) -> pa.RecordBatchReader:
    """The same as a stream of RecordBatches of about `batch_bytes`, for topics that are larger than memory.

    The call looks offsets up at once, so that a wrong name or time fails here; iterating fetches the records.
    """
    if isolation_level not in ("read_uncommitted", "read_committed"):
        raise ValueError(f"isolation_level {isolation_level!r}; expected read_uncommitted or read_committed")
    topics = [topic] if isinstance(topic, str) else list(topic)
    client = {"bootstrap.servers": bootstrap_servers, "client.id": client_id}
    with Admin(client) as admin:
        admin.connect()  # a wrong address fails at once; only later requests are retried
        topic_partitions = _places(admin, topics, partitions)
        starts = _offsets_at(admin, topic_partitions, start, "start")
        ends = _offsets_at(admin, topic_partitions, end, "end")
    settings = {
        **client,
        "isolation.level": isolation_level,
        "auto.offset.reset": "none",
        "fetch.max.bytes": _FETCH_BYTES_MAX,
        "max.partition.fetch.bytes": _PARTITION_BYTES_MAX,
    }
    batches = _stream(settings, starts, ends, with_headers=headers, batch_bytes=batch_bytes)
    return pa.RecordBatchReader.from_batches(RECORD_SCHEMA_WITH_HEADERS if headers else RECORD_SCHEMA, batches)


def _places(admin: Admin, topics: Sequence[str], partitions: Sequence[int] | None) -> list[TopicPartition]:
    topic_partitions = []
    try:
        described = admin.describe_topics(topics)
    except OperationFailed as failed:
        raise next(iter(failed.failures.values())) from None
    for topic in topics:
        count = len(described[topic].partitions)
        for partition in range(count) if partitions is None else partitions:
            if not 0 <= partition < count:
                raise ValueError(f"partition {partition} of topic {topic}, which has {count}")
            topic_partitions.append(TopicPartition(topic, partition))
    return topic_partitions


def _offsets_at(
    admin: Admin, topic_partitions: Sequence[TopicPartition], where: OffsetSpec, name: str
) -> dict[TopicPartition, Offset]:
    if isinstance(where, Mapping):
        unnamed = sorted({topic_partition.partition for topic_partition in topic_partitions} - where.keys())
        if unnamed:
            raise ValueError(f"{name} has no offset for partition {', '.join(map(str, unnamed))}")
        return {topic_partition: where[topic_partition.partition] for topic_partition in topic_partitions}
    if isinstance(where, int):
        return dict.fromkeys(topic_partitions, where)
    if isinstance(where, datetime.datetime):
        if where.tzinfo is None:
            raise ValueError(f"{name} {where.isoformat()} has no time zone; use datetime.timezone.utc or another")
        found = _listed(admin, topic_partitions, int(where.timestamp() * 1000))
        after_all = [topic_partition for topic_partition, offset in found.items() if offset == NO_OFFSET]
        return found | (_listed(admin, after_all, Admin.LATEST) if after_all else {})
    if where in ("earliest", "latest"):
        return _listed(admin, topic_partitions, Admin.EARLIEST if where == "earliest" else Admin.LATEST)
    raise ValueError(f"{name} {where!r}; expected earliest, latest, a datetime, an offset, or offsets by partition")


def _listed(admin: Admin, topic_partitions: Sequence[TopicPartition], time_ms: int) -> dict[TopicPartition, Offset]:
    try:
        return {
            topic_partition: found.offset
            for topic_partition, found in admin.list_offsets(topic_partitions, time_ms).items()
        }
    except OperationFailed as failed:
        raise next(iter(failed.failures.values())) from None


def _stream(
    settings: Mapping[str, object],
    starts: Mapping[TopicPartition, Offset],
    ends: Mapping[TopicPartition, Offset],
    *,
    with_headers: bool,
    batch_bytes: int,
) -> Iterator[Any]:
    left = {topic_partition: offset for topic_partition, offset in starts.items() if offset < ends[topic_partition]}
    if not left:
        return
    decoder = ColumnDecoder(with_headers=with_headers)
    with Consumer(settings) as consumer:
        consumer.assign(left)
        for topic_partition, offset in left.items():
            consumer.seek(topic_partition, offset)
        reached_at = time.monotonic()
        while left:
            fetched = consumer.poll_fetched(_WAIT_MS)
            if fetched is not None:
                for _ in _decode(decoder, fetched, ends[fetched.topic_partition]):
                    if decoder.data_bytes >= batch_bytes:
                        yield decoder.finish()
            if fetched is not None or consumer.unreachable is None:
                reached_at = time.monotonic()
            elif time.monotonic() - reached_at > _UNREACHABLE_MS / 1000:
                raise consumer.unreachable
            # The partition that was just read may be done; without new records, all partitions at their end are done.
            for topic_partition in [fetched.topic_partition] if fetched is not None else list(left):
                if topic_partition in left and _is_done(consumer, topic_partition, ends[topic_partition]):
                    del left[topic_partition]
                    consumer.pause(topic_partition)
        if decoder.count:
            yield decoder.finish()


def _decode(decoder: ColumnDecoder, fetched: WantedBatches, end: Offset) -> Iterator[int]:
    """A few batches at a time, so that the caller can empty the decoder in between."""
    topic_partition, data, batch_starts, from_offset, _, _ = fetched
    topic, partition = topic_partition
    for first in range(0, len(batch_starts), _BATCHES_AT_ONCE):
        part = batch_starts[first : first + _BATCHES_AT_ONCE]
        try:
            yield decoder.add_all(data, part, topic=topic, partition=partition, from_offset=from_offset, to_offset=end)
        except CorruptBatch as damage:
            raise UnreadableRecords(f"{topic_partition}: from offset {from_offset} on: {damage}") from damage


def _is_done(consumer: Consumer, topic_partition: TopicPartition, end: Offset) -> bool:
    """Whether the position is at the requested end, at the last stable offset, or at the end of the log.

    There is no point in waiting for an open transaction, or for records after the end of the log.
    """
    return consumer.position(topic_partition) >= end or consumer.lag(topic_partition) == 0
