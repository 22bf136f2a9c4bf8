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
    """A batch's events by table and day. Columns are handled once for all days of a table: a batch may have many."""
    if not events.num_rows:
        return
    topics = events.column("topic").combine_chunks().dictionary_encode()
    names = topics.dictionary.to_pylist()
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise ValueError(f"events of {', '.join(map(str, unknown))}: no log table is declared for that topic")
    days = events.column("event_time").to_numpy() // DAY_MS
    first_day = int(days.min())
    span = int(days.max()) - first_day + 1
    places = topics.indices.to_numpy().astype(np.int64) * span + (days - first_day)
    is_ordered = bool((places[1:] >= places[:-1]).all())
    order = None if is_ordered else np.argsort(places, kind="stable")
    ordered = places if order is None else places[order]
    for number, topic in enumerate(names):
        table = LOG_TABLES[BY_NAME[topic].table]
        begin, end = np.searchsorted(ordered, [number * span, (number + 1) * span]).tolist()
        wanted = [*("topic", "partition", "offset"), *table.column_names]
        columns = events.select([name for name in wanted if name in events.column_names and name != "day"])
        rows = columns.slice(begin, end - begin) if order is None else columns.take(order[begin:end])
        ids = _ids(rows)
        of_table = ordered[begin:end]
        starts = [0, *(np.nonzero(of_table[1:] != of_table[:-1])[0] + 1).tolist(), end - begin]
        for start, stop in itertools.pairwise(starts):
            day = day_name(first_day + int(of_table[start]) - number * span)
            yield Group(table, day, rows.slice(start, stop - start), Ids(*(part[start:stop] for part in ids)))


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
