"""A batch's events by table and day: the first step of every store."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.pipeline.stores.arrow_rows import DAY_MS, day_name
from ottla.pipeline.stores.digests import digest
from ottla.pipeline.stores.id_index import IdIndex
from ottla.pipeline.stores.judging import Ids, Rows, Verdict, judge
from ottla.pipeline.stores.port import Origin
from ottla.pipeline.tables import LOG_TABLES, Table
from ottla.pipeline.topics import BY_NAME


class Group(NamedTuple):
    """The events of a batch for one table and day, in the order in which they came."""

    table: Table
    day: str
    events: pa.Table
    ids: Ids


def split(events: pa.Table) -> Iterator[Group]:
    """A batch's events by table and day.

    Chunk by chunk: most chunks hold one topic and day, as they were read, and none of their rows is copied.
    """
    pieces: dict[tuple[str, int], list[pa.RecordBatch]] = {}
    for chunk in events.to_batches():
        for topic_and_day, rows in _by_topic_and_day(chunk):
            pieces.setdefault(topic_and_day, []).append(rows)
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
    groups = days - first_day
    if len(names) > 1:
        groups += topics.indices.to_numpy().astype(np.int64) * span
    if not bool((groups[1:] >= groups[:-1]).all()):
        order = np.argsort(groups, kind="stable")
        chunk, groups = chunk.take(pa.array(order)), groups[order]
    starts = [0, *(np.nonzero(groups[1:] != groups[:-1])[0] + 1).tolist(), len(groups)]
    for start, stop in itertools.pairwise(starts):
        number, day = divmod(int(groups[start]), span)
        yield (names[number], first_day + day), chunk.slice(start, stop - start)


def _ids(events: pa.Table) -> Ids:
    first, second = digest(events.column("event_id"))
    body, _ = digest(events.column("body_hash"))
    return Ids(first, second, body)


def origins_at(events: pa.Table, rows: Rows) -> list[Origin]:
    """The positions of these events on the topics."""
    if not len(rows):
        return []
    found = events.select(["topic", "partition", "offset"]).take(rows).to_pylist()
    return [Origin(each["topic"], each["partition"], each["offset"]) for each in found]


def judge_group(group: Group, known: IdIndex) -> Verdict:
    events = group.events
    return judge(
        group.ids,
        known,
        partition=events.column("partition").to_numpy().astype(np.int64, copy=False),
        offset=events.column("offset").to_numpy().astype(np.int64, copy=False),
    )
