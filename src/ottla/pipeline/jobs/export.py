"""Topics to Parquet in parallel, for offline work: the driver's half of an export, round by round.

    FOLDER/<topic>/day=YYYY-MM-DD/part-<partition>-<first offset>-<last offset>.parquet     by day of the event
    FOLDER/<topic>/part-<partition>-<first offset>-<last offset>.parquet                    by offsets

A round takes some records of every partition; it is in the export as a whole or not at all (`export_state.py`).
Records are as they stand on the topics, repeated ones too; those that are no sound events are counted only.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.pipeline.events.parsing import ParsingRules
from ottla.pipeline.events.preparing import Preparation, prepared
from ottla.pipeline.export.export_files import TOLD, DayRange, ExportTask
from ottla.pipeline.export.export_state import ExportState, Move
from ottla.spark.mapped_source import register_mapped
from ottla.spark.source import NAME as OTTLA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_DAY: Final = "day"
BY_OFFSETS: Final = "offsets"
DEFAULT_ROUND_RECORDS: Final = 2_000_000
_ROUND: Final = "round"

Offsets = Mapping[str, Mapping[int, int]]  # topic -> partition -> offset


class ExportPlan(NamedTuple):
    """What to export, and how. Each partition's records from its start to before its end."""

    folder: Path
    starts: Offsets
    ends: Offsets
    layout: str = BY_DAY
    days: DayRange = DayRange(None, None)
    round_records: int = DEFAULT_ROUND_RECORDS

    @property
    def shape(self) -> dict[str, Any]:
        """What one folder's runs have in common; their ends move on."""
        return {"layout": self.layout, "first_day": self.days.first, "last_day": self.days.last}


class Exported(NamedTuple):
    """`read` are all records of this run's rounds; `rows` and `dead` are of the whole export."""

    read: int
    rows: Mapping[str, int]
    dead: Mapping[str, int]


class Range(NamedTuple):
    topic: str
    partition: int
    start: int
    end: int


def export(
    start_spark: Callable[[], "SparkSession"],
    plan: ExportPlan,
    rules: ParsingRules,
    source: Mapping[str, str],
    *,
    connector: str,
    now_ms: int,
    on_progress: Callable[[int], None] = lambda records: None,
) -> Exported:
    """Go on from what the folder has; Spark is started if there is something to do.

    `source` are the options of the connector that say where the cluster is.
    """
    state = ExportState.open(plan.folder, plan.shape)
    work = state.work_folder / _ROUND
    read = 0
    spark: SparkSession | None = None
    for ranges in rounds(plan, state.next_offsets):
        shutil.rmtree(work, ignore_errors=True)  # of a round that was not finished
        work.mkdir()
        spark = spark or start_spark()
        task = ExportTask(work, rules, now_ms=now_ms, days=plan.days, is_by_day=plan.layout == BY_DAY)
        name = connector
        if connector == OTTLA:
            name = f"{OTTLA}_export"
            register_mapped(spark, name, task, TOLD)
        frame = spark.read.format(name).options(**source, **_bounds(ranges)).load()
        told = prepared(frame, Preparation(task, TOLD)).collect()
        files = [row.asDict() for row in told if row["path"] is not None]
        state.commit(
            [_move(plan, file) for file in files],
            next_offsets=_by_topic((each.topic, each.partition, each.end) for each in ranges),
            rows=_summed((file["topic"], file["rows"]) for file in files),
            dead=_summed((row["error_class"], row["rows"]) for row in told if row["error_class"] is not None),
        )
        shutil.rmtree(work)
        records = sum(each.end - each.start for each in ranges)
        read += records
        on_progress(records)
    return Exported(read, state.rows, state.dead)


def left_to_read(plan: ExportPlan) -> int:
    """Offsets between what the folder has and the ends."""
    state = ExportState.open(plan.folder, plan.shape)
    return sum(each.end - each.start for ranges in rounds(plan, state.next_offsets) for each in ranges)


def rounds(plan: ExportPlan, done: Offsets) -> Iterator[list[Range]]:
    """What is left, a round at a time: an equal share of every partition that has something left."""
    left = {
        (topic, partition): (max(start, done.get(topic, {}).get(partition, start)), plan.ends[topic][partition])
        for topic, starts in plan.starts.items()
        for partition, start in starts.items()
    }
    while left := {place: (start, end) for place, (start, end) in left.items() if start < end}:
        share = max(1, plan.round_records // len(left))
        yield [
            Range(topic, partition, start, min(start + share, end)) for (topic, partition), (start, end) in left.items()
        ]
        left = {place: (start + share, end) for place, (start, end) in left.items()}


def _bounds(ranges: list[Range]) -> dict[str, str]:
    """As options of Spark's Kafka source."""
    starts = _by_topic((each.topic, each.partition, each.start) for each in ranges)
    ends = _by_topic((each.topic, each.partition, each.end) for each in ranges)
    return {
        "assign": json.dumps({topic: sorted(partitions) for topic, partitions in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }


def _move(plan: ExportPlan, file: dict[str, Any]) -> Move:
    name = f"part-{file['partition']:05d}-{file['first_offset']:020d}-{file['last_offset']:020d}.parquet"
    folder = Path(file["topic"]) if file["day"] is None else Path(file["topic"], f"day={file['day']}")
    return Move(str(Path(file["path"]).relative_to(plan.folder)), str(folder / name))


def _by_topic(places: Iterable[tuple[str, int, int]]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for topic, partition, offset in places:
        found.setdefault(topic, {})[partition] = offset
    return found


def _summed(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for name, count in counts:
        summed[name] = summed.get(name, 0) + count
    return summed
