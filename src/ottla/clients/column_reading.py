"""A topic, or a part of it, as an Arrow table: from given offsets or times up to where it ends now.

No groups and no commits. `ottla.columns.read` and `ottla.columns.read_batches` are these.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ottla.clients.admin_offsets import NO_OFFSET, list_each_offset
from ottla.clients.cluster import Cluster
from ottla.clients.errors import BrokerError
from ottla.clients.fetched_batches import UnreadableRecords
from ottla.clients.fetching import READ_COMMITTED, READ_UNCOMMITTED, AssignedReader, FetchedBatches
from ottla.clients.topics import EARLIEST, LATEST
from ottla.columns.decoding import ColumnDecoder
from ottla.columns.schema import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS
from ottla.core.types import Offset, TopicPartition
from ottla.records.errors import CorruptBatch

# "earliest", "latest", a time, one offset for every partition, or an offset for each by its number.
Place: TypeAlias = "str | datetime.datetime | int | Mapping[int, int]"

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
BATCH_BYTES: Final = 32 * 1024 * 1024
_FETCH_BYTES_MAX: Final = 32 * 1024 * 1024
_PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
_WAIT_MS: Final = 500
_BATCHES_AT_ONCE: Final = 16


def read(
    topic: str | Sequence[str],
    *,
    bootstrap_servers: str = DEFAULT_BOOTSTRAP,
    start: Place = "earliest",
    end: Place = "latest",
    partitions: Sequence[int] | None = None,
    headers: bool = False,
    isolation_level: str = "read_uncommitted",
    client_id: str = "ottla",
) -> pa.Table:
    """All records from `start` to before `end` as one table, in the order of their offsets by partition.

    `start` and `end` are "earliest", "latest", a `datetime` (the first record at or after it), an offset, or a mapping
    of partition to offset. "latest" is where the topic ends when this is called.
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
    start: Place = "earliest",
    end: Place = "latest",
    partitions: Sequence[int] | None = None,
    headers: bool = False,
    isolation_level: str = "read_uncommitted",
    batch_bytes: int = BATCH_BYTES,
    client_id: str = "ottla",
) -> pa.RecordBatchReader:
    """The same as a stream of RecordBatches of about `batch_bytes`, for topics that are larger than memory.

    Offsets are looked up at once, so that a wrong name or time fails here; records are fetched as they are taken.
    """
    if isolation_level not in ("read_uncommitted", "read_committed"):
        raise ValueError(f"isolation_level {isolation_level!r}; read_uncommitted or read_committed is expected")
    topics = [topic] if isinstance(topic, str) else list(topic)
    cluster = Cluster(bootstrap_servers, client_id=client_id)
    try:
        places = _places(cluster, topics, partitions)
        starts = _offsets_at(cluster, places, start, "start")
        ends = _offsets_at(cluster, places, end, "end")
    except BaseException:
        cluster.close()
        raise
    batches = _stream(
        cluster,
        starts,
        ends,
        isolation_level=READ_COMMITTED if isolation_level == "read_committed" else READ_UNCOMMITTED,
        with_headers=headers,
        batch_bytes=batch_bytes,
    )
    return pa.RecordBatchReader.from_batches(RECORD_SCHEMA_WITH_HEADERS if headers else RECORD_SCHEMA, batches)


def _places(cluster: Cluster, topics: Sequence[str], partitions: Sequence[int] | None) -> list[TopicPartition]:
    places = []
    for topic in topics:
        count = cluster.partition_count(topic)
        for partition in range(count) if partitions is None else partitions:
            if not 0 <= partition < count:
                raise ValueError(f"partition {partition} of topic {topic}, which has {count}")
            places.append(TopicPartition(topic, partition))
    return places


def _offsets_at(
    cluster: Cluster, places: Sequence[TopicPartition], where: Place, name: str
) -> dict[TopicPartition, Offset]:
    if isinstance(where, Mapping):
        unnamed = sorted({place.partition for place in places} - where.keys())
        if unnamed:
            raise ValueError(f"{name} has no offset for partition {', '.join(map(str, unnamed))}")
        return {place: where[place.partition] for place in places}
    if isinstance(where, int):
        return dict.fromkeys(places, where)
    if isinstance(where, datetime.datetime):
        if where.tzinfo is None:
            raise ValueError(f"{name} {where.isoformat()} has no time zone; use datetime.timezone.utc or another")
        found = _listed(cluster, places, int(where.timestamp() * 1000))
        after_all = [place for place, offset in found.items() if offset == NO_OFFSET]
        return found | (_listed(cluster, after_all, LATEST) if after_all else {})
    if where in ("earliest", "latest"):
        return _listed(cluster, places, EARLIEST if where == "earliest" else LATEST)
    raise ValueError(f"{name} {where!r}; expected earliest, latest, a datetime, an offset, or offsets by partition")


def _listed(cluster: Cluster, places: Sequence[TopicPartition], time_ms: int) -> dict[TopicPartition, Offset]:
    found = {}
    for place, outcome in list_each_offset(cluster, places, time_ms).items():
        if isinstance(outcome, BrokerError):
            raise outcome
        found[place] = outcome.offset
    return found


def _stream(
    cluster: Cluster,
    starts: Mapping[TopicPartition, Offset],
    ends: Mapping[TopicPartition, Offset],
    *,
    isolation_level: int,
    with_headers: bool,
    batch_bytes: int,
) -> Iterator[Any]:
    positions = {place: offset for place, offset in starts.items() if offset < ends[place]}
    decoder = ColumnDecoder(with_headers=with_headers)
    with (
        cluster,
        AssignedReader(
            cluster,
            positions,
            max_wait_ms=_WAIT_MS,
            max_bytes=_FETCH_BYTES_MAX,
            partition_max_bytes=_PARTITION_BYTES_MAX,
            isolation_level=isolation_level,
        ) as reader,
    ):
        while reader.positions:
            for fetched in reader.fetch_batches():
                for _ in _decode(decoder, fetched, ends[fetched.wanted.place]):
                    if decoder.data_bytes >= batch_bytes:
                        yield decoder.finish()
            for place in [place for place in reader.positions if _is_done(reader, place, ends[place])]:
                del reader.positions[place]
        if decoder.count:
            yield decoder.finish()


def _decode(decoder: ColumnDecoder, fetched: FetchedBatches, end: Offset) -> Iterator[int]:
    """Some batches after the other, so that the caller can empty the decoder in between."""
    place, data, batch_starts, from_offset, _, _ = fetched.wanted
    topic, partition = place
    for first in range(0, len(batch_starts), _BATCHES_AT_ONCE):
        part = batch_starts[first : first + _BATCHES_AT_ONCE]
        try:
            yield decoder.add_all(data, part, topic=topic, partition=partition, from_offset=from_offset, to_offset=end)
        except CorruptBatch as damage:
            raise UnreadableRecords(f"{place}: from offset {from_offset} on: {damage}") from damage


def _is_done(reader: AssignedReader, place: TopicPartition, end: Offset) -> bool:
    """At the end that was asked for, or at what is committed: behind an open transaction there is nothing to wait for.

    Nor is there behind the end of the log, which may be short of the end that was asked for.
    """
    return reader.positions[place] >= end or reader.is_at_end(place)
