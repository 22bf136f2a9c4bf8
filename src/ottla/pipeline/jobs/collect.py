"""The job `collect`: each event once to its topic's table, bad records to dead letters, late events to a list.

It reads all topics, so it alone sends dead letters and lists late events; other jobs skip bad records.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import functions as sf

from ottla.core.types import TopicPartition
from ottla.pipeline.dead_letters.sink import DeadLetterSink, conflicting_rows, records_around
from ottla.pipeline.events.event_decoding import CONFLICT
from ottla.pipeline.events.lateness import LOOKED_AT, find_late
from ottla.pipeline.events.parsing import EVENTS, ParsingRules, parsed_to_driver, parsing
from ottla.pipeline.events.preparing import is_raw, prepared
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch, JobContext
from ottla.pipeline.stores.port import Origin
from ottla.pipeline.tables import DEAD_EVENT_COUNT, LATE_EVENT
from ottla.pipeline.topics import TOPIC_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "collect"
GROUP: Final = "cassandra-logger-consumer"  # the group that has always read these topics

_DEAD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "error_class", "error_reason", "key", "value")


def open_job(context: JobContext) -> "Collect":
    return Collect(context)


class Collect:
    """Between batches it only remembers which dead-letter topics exist."""

    name = NAME
    topics = TOPIC_NAMES
    group = GROUP

    def __init__(self, context: JobContext) -> None:
        self._store = context.store
        self._is_replay = context.is_replay
        rules = ParsingRules.of(context.settings)
        # Either all rows go to the driver and none comes back, or workers keep them and they are read several times.
        self._to_driver = parsed_to_driver(rules) if context.store.writes_in_driver else None
        self.preparation = parsing(rules) if self._to_driver is None else self._to_driver.preparation
        self._bootstrap = context.bootstrap
        self._fails_on_data_loss = bool(context.settings["source.fails_on_data_loss"])
        self._lateness_allowed_ms = context.settings.get_int("events.lateness_allowed_ms")
        self._dead_letters = DeadLetterSink(
            context.bootstrap, partitions=context.settings.get_int("dead_letters.partitions")
        )

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        if self._to_driver is not None:
            return self._finish(frame, None, self._to_driver.receive_rows(frame), batch)
        # Read, decoded and parsed once.
        parsed = prepared(frame, self.preparation)
        parsed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            return self._finish(frame, parsed, parsed.select(*LOOKED_AT, "error_class").toArrow(), batch)
        finally:
            parsed.unpersist()

    def _finish(self, frame: "DataFrame", parsed: "DataFrame | None", here: pa.Table, batch: JobBatch) -> BatchOutcome:
        """`here` is the batch on the driver: whole, or the columns that find late events and count dead ones."""
        is_dead = pc.is_valid(here.column("error_class"))
        has_dead = bool(pc.any(is_dead).as_py())
        sound = here.filter(pc.invert(is_dead)) if has_dead else here
        gone = here.filter(is_dead) if has_dead else here.slice(0, 0)
        late_count = self._list_late(sound, batch)
        if parsed is None:
            appended = self._store.append_arrow(sound.select(EVENTS), batch.id)
            dead_rows = frame.sparkSession.createDataFrame(gone.select(_DEAD_COLUMNS)) if has_dead else None
        else:
            events = parsed.where(sf.col("error_class").isNull()).select(*EVENTS)
            appended = self._store.append_events(events, batch.id)
            dead_rows = parsed.where(sf.col("error_class").isNotNull()).select(*_DEAD_COLUMNS) if has_dead else None
        dead = _count_dead(gone, appended.conflicts)
        if dead:
            if appended.conflicts:
                conflicting = conflicting_rows(self._records(frame, appended.conflicts), appended.conflicts)
                dead_rows = conflicting if dead_rows is None else dead_rows.unionByName(conflicting)
            assert dead_rows is not None
            if not self._is_replay:
                self._dead_letters.send(dead_rows, {topic for topic, _ in dead})
            self._store.upsert(DEAD_EVENT_COUNT.name, _dead_counts(dead, batch), batch.id)
        by_class: Counter[str] = Counter()
        for (_, error_class), count in dead.items():
            by_class[error_class] += count
        return BatchOutcome(
            rows_read=here.num_rows,
            rows_written=sum(appended.written.values()),
            duplicates=sum(appended.duplicates.values()),
            late=late_count,
            dead=dict(by_class),
        )

    def _records(self, frame: "DataFrame", conflicts: Sequence[Origin]) -> "DataFrame":
        """As they are on the topics: a dead letter holds the record unchanged."""
        if is_raw(frame):
            return frame
        return records_around(
            frame.sparkSession, self._bootstrap, conflicts, fails_on_data_loss=self._fails_on_data_loss
        )

    def _list_late(self, sound: pa.Table, batch: JobBatch) -> int:
        starts = batch.starts
        if not batch.ends.keys() <= starts.keys():
            starts = {**_first_offsets(sound), **starts}
        before = self._store.event_time_high(NAME, starts)
        late, highs = find_late(sound, before=before, allowed_ms=self._lateness_allowed_ms)
        if late.num_rows:
            self._store.upsert(LATE_EVENT.name, late, batch.id)
        ends = {
            topic_partition: (batch.ends[topic_partition], high)
            for topic_partition, high in highs.items()
            if topic_partition in batch.ends
        }
        if ends:
            self._store.note_event_time_high(NAME, ends)
        return int(late.num_rows)


def _first_offsets(sound: pa.Table) -> dict[TopicPartition, int]:
    """For partitions that are new, so that the checkpoint doesn't say where the batch begins in them."""
    grouped = sound.group_by(["topic", "partition"]).aggregate([("offset", "min")])
    names = (grouped.column(name).to_pylist() for name in ("topic", "partition", "offset_min"))
    return {TopicPartition(topic, partition): first for topic, partition, first in zip(*names, strict=True)}


def _count_dead(dead: pa.Table, conflicts: Sequence[Origin]) -> dict[tuple[str, str], int]:
    """By topic and class."""
    counted = Counter(zip(dead.column("topic").to_pylist(), dead.column("error_class").to_pylist(), strict=True))
    counted.update((origin.topic, CONFLICT) for origin in conflicts)
    return dict(counted)


def _dead_counts(dead: Mapping[tuple[str, str], int], batch: JobBatch) -> pa.Table:
    of_batch = {"batch": str(batch.id), "noted_ms": batch.now_ms}
    rows = [
        {"topic": topic, "error_class": error_class, "events": count, **of_batch}
        for (topic, error_class), count in sorted(dead.items())
    ]
    return pa.Table.from_pylist(rows)
