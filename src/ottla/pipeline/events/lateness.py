"""Which events are late: more than the allowed time behind the largest event time at smaller offsets of a partition.

Depends on the partition alone: however its events are divided into batches, the same ones are late. The store keeps the
largest event time before a batch, by offset. Pure; dead records have no time and take no part.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.core.types import TopicPartition
from ottla.pipeline.tables import INTEGER, LATE_EVENT

# The columns that lateness needs, and those of the list of late events.
LOOKED_AT: Final = ("topic", "partition", "offset", "event_id", "event_time")

_NEVER: Final = np.iinfo(np.int64).min
_SCHEMA: Final = pa.schema(
    [(column.name, pa.int64() if column.type == INTEGER else pa.string()) for column in LATE_EVENT.columns]
)


class Lateness(NamedTuple):
    """`late` has the columns of LATE_EVENT; `highs` are the largest event times after the batch, where known."""

    late: pa.Table
    highs: dict[TopicPartition, int]


def find_late(events: pa.Table, *, before: Mapping[TopicPartition, int], allowed_ms: int) -> Lateness:
    """From sound events in any order, and the largest event times before the batch."""
    highs = dict(before)
    if events.num_rows == 0:
        return Lateness(_SCHEMA.empty_table(), highs)
    topics = events.column("topic").combine_chunks().dictionary_encode()
    partitions, offsets, times = (_numbers(events, name) for name in ("partition", "offset", "event_time"))
    topic_partitions = np.asarray(topics.indices).astype(np.int64) * (int(partitions.max()) + 1) + partitions
    late_rows: list[Any] = []
    behinds_ms: list[Any] = []
    for rows in _in_order(topic_partitions, offsets):
        first = int(rows[0])
        topic_partition = TopicPartition(topics[first].as_py(), int(partitions[first]))
        own = times[rows]
        # For each event the largest time before it; the last element is that of all.
        running = np.maximum.accumulate(np.concatenate(([highs.get(topic_partition, _NEVER)], own)))
        highs[topic_partition] = int(running[-1])
        behind_ms = np.where(running[:-1] == _NEVER, 0, running[:-1] - own)
        late = np.flatnonzero(behind_ms > allowed_ms)
        if len(late):
            late_rows.append(rows[late])
            behinds_ms.append(behind_ms[late])
    if not late_rows:
        return Lateness(_SCHEMA.empty_table(), highs)
    listed = events.select(LOOKED_AT).take(pa.array(np.concatenate(late_rows)))
    listed = listed.append_column("behind_ms", pa.array(np.concatenate(behinds_ms)))
    return Lateness(listed.rename_columns(list(LATE_EVENT.column_names)).cast(_SCHEMA), highs)


def _in_order(
    topic_partitions: "np.ndarray[Any, Any]", offsets: "np.ndarray[Any, Any]"
) -> Iterator["np.ndarray[Any, Any]"]:
    """Rows of one partition each, by offset; those of one partition may come in several parts, in order.

    Rows mostly come as they were read, in long runs of one partition: then only the runs are sorted.
    """
    is_edge = np.diff(topic_partitions) != 0
    starts = np.concatenate(([0], np.flatnonzero(is_edge) + 1))
    stops = np.concatenate((starts[1:], [len(topic_partitions)]))
    runs = np.lexsort((offsets[starts], topic_partitions[starts]))
    starts, stops = starts[runs], stops[runs]
    is_same_partition = np.diff(topic_partitions[starts]) == 0
    are_in_order = bool(
        ((np.diff(offsets) > 0) | is_edge).all()
        and (offsets[starts[1:]] > offsets[stops[:-1] - 1])[is_same_partition].all()
    )
    if are_in_order:
        yield from (np.arange(start, stop) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True))
        return
    order = np.lexsort((offsets, topic_partitions))
    edges = [0, *(np.flatnonzero(np.diff(topic_partitions[order])) + 1).tolist(), len(order)]
    yield from (order[start:stop] for start, stop in pairwise(edges))


def _numbers(events: pa.Table, name: str) -> "np.ndarray[Any, Any]":
    return np.asarray(events.column(name)).astype(np.int64, copy=False)
