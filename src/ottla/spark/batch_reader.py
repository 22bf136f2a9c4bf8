"""A batch query: all offsets from the starting to the ending ones, as of its planning."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.spark.data_loss import report_loss
from ottla.spark.log_view import LogView
from ottla.spark.options import ReadOptions
from ottla.spark.planning import LogSlice, pack_slices, plan_slices
from ottla.spark.reading import read_slices


class OttlaBatchReader(DataSourceReader):
    """Plans in a process of the driver, then is pickled to the workers: holds options, no connection."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with LogView(self._options) as view:
            slices = plan_batch(view, self._options)
        return [InputPartition(pack) for pack in pack_slices(slices, at_most=self._options.max_partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark adds an empty partition if none was planned.
        return iter(()) if partition.value is None else read_slices(self._options, partition.value)


def plan_batch(view: LogView, options: ReadOptions) -> list[LogSlice]:
    """The slices of the query, limited to the log."""
    topic_ids = view.wanted()
    starts = view.resolve_start(topic_ids)
    ends = view.resolve_end(topic_ids)
    firsts = view.earliest(topic_ids)
    lasts = view.latest(topic_ids)
    wanted = []
    for topic_partition, topic_id in topic_ids.items():
        start, end = starts[topic_partition], ends[topic_partition]
        if start > end:
            raise ValueError(f"{topic_partition}: the query begins at offset {start} and ends before, at {end}")
        if start < firsts[topic_partition] or end > lasts[topic_partition]:
            there = f"the log has {firsts[topic_partition]} to {lasts[topic_partition]}"
            what = f"{topic_partition}: offsets {start} to {end} were asked for, {there}"
            report_loss(what, fails=options.fails_on_data_loss)
        wanted.append(
            LogSlice(
                *topic_partition,
                start=max(start, firsts[topic_partition]),
                end=min(end, lasts[topic_partition]),
                topic_id=topic_id,
            )
        )
    return plan_slices(wanted, at_least=options.min_partitions, most_offsets=options.max_records_per_partition)
