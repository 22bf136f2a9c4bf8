"""A streaming query: how far each micro-batch goes, and its slices.

Lives in one process for the life of the query, except for `read`, which runs in the workers. Offsets are in the query's
checkpoint; it commits nothing to a group.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.core.types import Offset, TopicPartition
from ottla.spark.data_loss import report_loss
from ottla.spark.log_view import LogView
from ottla.spark.offsets import LATEST_OFFSET, BoundKind, Offsets, OffsetsJson, from_json, to_json
from ottla.spark.options import ReadOptions
from ottla.spark.planning import (
    LogSlice,
    count_offsets,
    is_due,
    limit_offsets,
    pack_slices,
    plan_slices,
    tasks_worthwhile,
)
from ottla.spark.reading import read_slices


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New with each start of the query; the workers get a pickled copy with only the options."""

    def __init__(self, options: ReadOptions, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._monotonic_s = monotonic_s
        self._view: LogView | None = None
        # The first ids seen: the same name with another id is another log.
        self._topic_ids: dict[TopicPartition, str | None] = {}
        self._initial: Offsets | None = None
        self._is_first_batch_planned = False
        self._target: Offsets | None = None  # of Trigger.AvailableNow
        self._known_latest: Offsets = {}
        self._waits_since_s = monotonic_s()

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options}

    # Spark calls these, in this order.

    def initialOffset(self) -> OffsetsJson:  # noqa: N802
        view = self._open()
        self._topic_ids = view.wanted()
        self._initial = view.resolve_start(self._topic_ids)
        return to_json(self._initial)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        view = self._open()
        self._target = view.latest(view.partitions().topic_ids)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:  # noqa: N802
        begun = from_json(start)
        if self._is_to_note_where_it_begins(begun):
            return start
        begin, latest = self._look(begun)
        end = latest
        if self._target is not None:
            # Not beyond the target, but never back behind what was read.
            end = {
                topic_partition: _up_to(self._target.get(topic_partition, 0), begin[topic_partition], offset)
                for topic_partition, offset in end.items()
            }
        if not isinstance(limit, ReadAllAvailable):
            end = self._limited(begun, begin, end)
        return to_json(end)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802
        return to_json(self._known_latest) if self._known_latest else None

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        begun, ended = from_json(start), from_json(end)
        if begun == self._initial and not self._is_first_batch_planned and self._begins_at_end:
            # The first batch again after a restart: it was empty, and only recorded where the query began. Where it
            # would begin today doesn't matter.
            self._is_first_batch_planned = True
            return []
        self._is_first_batch_planned = True
        slices = self._slices(begun, ended)
        planned = plan_slices(
            slices, at_least=self._options.min_partitions, most_offsets=self._options.max_records_per_partition
        )
        at_most = tasks_worthwhile(planned, at_most=self._options.max_partitions)
        return [InputPartition(pack) for pack in pack_slices(planned, at_most=at_most)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_slices(self._options, partition.value)

    def commit(self, end: OffsetsJson) -> None:
        """Spark keeps the offsets itself."""

    def stop(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    # Inside.

    def _open(self) -> LogView:
        if self._view is None:
            self._view = LogView(self._options)
        return self._view

    @property
    def _begins_at_end(self) -> bool:
        """Whether the start moves with the log, so that resolving it again gives another offset."""
        starting = self._options.starting
        return (
            starting.kind is BoundKind.LATEST
            or (starting.kind is BoundKind.OFFSETS and LATEST_OFFSET in (starting.by_topic_partition or {}).values())
            or self._options.begins_at_end_without_match
        )

    def _is_to_note_where_it_begins(self, begun: Offsets) -> bool:
        """Spark stores where batches end, never where the first one began: a crash within it would lose that, and
        records with it. So the first batch of a query that begins at the end is empty.
        """
        if begun != self._initial or not self._begins_at_end or self._is_first_batch_planned:
            return False
        self._known_latest = dict(begun)
        return True

    def _look(self, begun: Offsets) -> tuple[Offsets, Offsets]:
        """Where to continue in each existing partition, and how far each goes."""
        view = self._open()
        found = view.partitions()
        gone = sorted(begun.keys() - found.topic_ids.keys())
        unheard_of = [
            name
            for name in found.missing
            if not any(name in (topic_partition.topic, str(topic_partition)) for topic_partition in gone)
        ]
        if unheard_of and begun.keys() - set(gone):
            raise view.not_there(unheard_of)
        if gone:
            self._lose(f"{', '.join(map(str, gone))}: the query has read from them, and the partitions are gone")
        self._find_made_anew(found.topic_ids)
        latest = view.latest(found.topic_ids)
        self._known_latest = latest
        added = [topic_partition for topic_partition in latest if topic_partition not in begun]
        begin = {
            topic_partition: begun[topic_partition] for topic_partition in latest if topic_partition in begun
        } | view.earliest(added)
        for topic_partition, offset in latest.items():
            if offset < begin[topic_partition]:
                self._lose(
                    f"{topic_partition}: the query had read up to offset {begin[topic_partition]}, and the log ends at "
                    f"{offset}: the topic was created again, or its broker lost records"
                )
        return begin, latest

    def _find_made_anew(self, topic_ids: Mapping[TopicPartition, str | None]) -> None:
        for topic_partition, topic_id in topic_ids.items():
            known = self._topic_ids.get(topic_partition)
            if known is not None and topic_id != known:
                self._lose(
                    f"{topic_partition}: the topic was deleted and created again while the query ran "
                    f"({known}, now {topic_id})"
                )
        self._topic_ids = dict(topic_ids)

    def _limited(self, begun: Offsets, begin: Offsets, end: Offsets) -> Offsets:
        options = self._options
        now_s = self._monotonic_s()
        is_enough = is_due(
            available=count_offsets(begin, end),
            least=None if self._target is not None else options.min_offsets_per_trigger,
            waited_ms=int((now_s - self._waits_since_s) * 1000),
            longest_wait_ms=options.max_trigger_delay_ms,
        )
        if not is_enough:
            return begun
        self._waits_since_s = now_s
        if options.max_offsets_per_trigger is None:
            return end
        return limit_offsets(begin, end, options.max_offsets_per_trigger)

    def _slices(self, begun: Offsets, ended: Offsets) -> list[LogSlice]:
        view = self._open()
        present = view.partitions().topic_ids
        firsts = view.earliest(topic_partition for topic_partition in ended if topic_partition in present)
        for topic_partition in sorted(begun.keys() - ended.keys()):
            self._lose(
                f"{topic_partition}: the query had read up to offset {begun[topic_partition]}, "
                "and the partition is gone"
            )
        slices = []
        for topic_partition, end in ended.items():
            first = firsts.get(topic_partition)
            if first is None:
                if begun.get(topic_partition, 0) < end:
                    self._lose(
                        f"{topic_partition}: offsets {begun.get(topic_partition, 0)} to {end - 1} are gone, "
                        "as is the partition"
                    )
                continue
            start = begun.get(topic_partition)
            slices.append(
                LogSlice(
                    *topic_partition, self._start_of(topic_partition, start, end, first), end, present[topic_partition]
                )
            )
        return slices

    def _start_of(self, topic_partition: TopicPartition, start: Offset | None, end: Offset, first: Offset) -> Offset:
        if start is None:
            if first > 0 and end > 0:
                self._lose(f"{topic_partition}: a new partition begins at offset {first}, what came before is gone")
            return first
        if start > end:
            self._lose(f"{topic_partition}: the query had read up to offset {start}, and the log ended at {end}")
            return first
        if start < first and start < end:
            self._lose(
                f"{topic_partition}: offsets {start} to {min(first, end) - 1} are gone, the log begins at {first}"
            )
            return first
        return start

    def _lose(self, what: str) -> None:
        report_loss(what, fails=self._options.fails_on_data_loss)


def _up_to(target: Offset, begin: Offset, latest: Offset) -> Offset:
    """A log that is shorter than what was read of it is a new one, and is read from its beginning."""
    return latest if latest < begin else max(min(target, latest), begin)
