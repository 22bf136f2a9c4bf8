"""A batch's events by table and day: what every store begins with."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.pipeline.stores.arrow_rows import DAY_MS, day_name
from ottla.pipeline.stores.digests import digest
from ottla.pipeline.stores.id_index import IdIndex
from ottla.pipeline.stores.judging import Ids, Places, Verdict, judge
from ottla.pipeline.stores.port import Origin
from ottla.pipeline.tables import LOG_TABLES, Table
from ottla.pipeline.topics import BY_NAME


class Group(NamedTuple):
    """The events of a batch that belong to one table and day, in the order in which they came."""

    table: Table
    day: str
    events: pa.Table
    ids: Ids


def split(events: pa.Table) -> Iterator[Group]:
    """A batch's events by table and day.

    Chunk by chunk: most are of one topic and day, as they were read, and no row of them is copied.
    """
    pieces: dict[tuple[str, int], list[pa.RecordBatch]] = {}
    for chunk in events.to_batches():
        for place, rows in _by_topic_and_day(chunk):
            pieces.setdefault(place, []).append(rows)
    unknown = sorted({str(topic) for topic, _ in pieces if topic not in BY_NAME})
    if unknown:
        raise ValueError(f"events of {', '.join(unknown)}: no log table is declared for that topic")
    for (topic, day), chunks in sorted(pieces.items()):
        table = LOG_TABLES[BY_NAME[topic].table]
        wanted = [*("topic", "partition", "offset"), *table.column_names]
        rows = pa.Table.from_batches(chunks).select([name for name in wanted if name in events.column_names])
        yield Group(table, day_name(day), rows, _ids(rows))


def _by_topic_and_day(chunk: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Each with the days since 1970, in the order in which rows came."""
    if not chunk.num_rows:
        return
    topics = chunk.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    days = chunk.column("event_time").to_numpy() // DAY_MS
    first_day = int(days.min())
    span = int(days.max()) - first_day + 1
    places = days - first_day
    if len(names) > 1:
        places += topics.indices.to_numpy().astype(np.int64) * span
    if not bool((places[1:] >= places[:-1]).all()):
        order = np.argsort(places, kind="stable")
        chunk, places = chunk.take(pa.array(order)), places[order]
    starts = [0, *(np.nonzero(places[1:] != places[:-1])[0] + 1).tolist(), len(places)]
    for start, stop in itertools.pairwise(starts):
        number, day = divmod(int(places[start]), span)
        yield (names[number], first_day + day), chunk.slice(start, stop - start)


def _ids(events: pa.Table) -> Ids:
    first, second = digest(events.column("event_id"))
    body, _ = digest(events.column("body_hash"))
    return Ids(first, second, body)


def origins_at(events: pa.Table, places: Places) -> list[Origin]:
    """Where these events lie on the topics."""
    if not len(places):
        return []
    rows = events.select(["topic", "partition", "offset"]).take(places).to_pylist()
    return [Origin(row["topic"], row["partition"], row["offset"]) for row in rows]


def judge_group(group: Group, known: IdIndex) -> Verdict:
    events = group.events
    return judge(
        group.ids,
        known,
        partition=events.column("partition").to_numpy().astype(np.int64, copy=False),
        offset=events.column("offset").to_numpy().astype(np.int64, copy=False),
    )
