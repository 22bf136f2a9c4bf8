"""Topics to Parquet in parallel, for offline work: the driver's half of an export, round by round.

    FOLDER/<topic>/day=YYYY-MM-DD/part-<partition>-<first offset>-<last offset>.parquet     by day of the event
    FOLDER/<topic>/part-<partition>-<first offset>-<last offset>.parquet                    by offsets

A round takes some records of every partition and enters the export atomically (`export_state.py`). Records are as they
are on the topics, repeated ones too; bad records are only counted.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.pipeline.events.parsing import ParsingRules
from ottla.pipeline.events.payloads import ToDriver
from ottla.pipeline.export.export_files import FILES, DayRange, ExportTask
from ottla.pipeline.export.export_state import ExportState, Move
from ottla.spark.mapped_source import register_mapped
from ottla.spark.source import NAME as OTTLA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_DAY: Final = "day"
DEFAULT_ROUND_RECORDS: Final = 2_000_000
_ROUND: Final = "round"

Offsets = Mapping[str, Mapping[int, int]]  # topic -> partition -> offset


class ExportPlan(NamedTuple):
    """What to export, and how: each partition's records from its start to before its end."""

    folder: Path
    starts: Offsets
    ends: Offsets
    layout: str = BY_DAY
    days: DayRange = DayRange(None, None)
    round_records: int = DEFAULT_ROUND_RECORDS

    @property
    def shape(self) -> dict[str, Any]:
        """The settings that all runs into one folder share; only the ends may move."""
        return {"layout": self.layout, "first_day": self.days.first, "last_day": self.days.last}


class Exported(NamedTuple):
    """`read` counts the records of this run; `rows` and `dead` are for the whole export."""

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
    """Continue the export in the folder; starts Spark if there is something to do.

    `source` are the options of the connector that name the cluster.
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
        to_driver = ToDriver(task, FILES)
        name = connector
        if connector == OTTLA:
            name = f"{OTTLA}_export"
            register_mapped(spark, name, *to_driver.preparation)
        frame = spark.read.format(name).options(**source, **_bounds(ranges)).load()
        (reported,), counters = to_driver.receive(frame)
        files = reported.to_pylist()
        state.commit(
            [_move(plan, file) for file in files],
            next_offsets=_by_topic((each.topic, each.partition, each.end) for each in ranges),
            rows=_summed((file["topic"], file["rows"]) for file in files),
            dead=counters.dead,
        )
        shutil.rmtree(work)
        records = sum(each.end - each.start for each in ranges)
        read += records
        on_progress(records)
    return Exported(read, state.rows, state.dead)


def left_to_read(plan: ExportPlan) -> int:
    """Offsets between the state of the folder and the ends."""
    state = ExportState.open(plan.folder, plan.shape)
    return sum(each.end - each.start for ranges in rounds(plan, state.next_offsets) for each in ranges)


def rounds(plan: ExportPlan, done: Offsets) -> Iterator[list[Range]]:
    """What is left, round by round: an equal share of every partition that has records left."""
    left = {
        (topic, partition): (max(start, done.get(topic, {}).get(partition, start)), plan.ends[topic][partition])
        for topic, starts in plan.starts.items()
        for partition, start in starts.items()
    }
    while left := {topic_partition: (start, end) for topic_partition, (start, end) in left.items() if start < end}:
        share = max(1, plan.round_records // len(left))
        yield [
            Range(topic, partition, start, min(start + share, end)) for (topic, partition), (start, end) in left.items()
        ]
        left = {topic_partition: (start + share, end) for topic_partition, (start, end) in left.items()}


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


def _by_topic(offsets: Iterable[tuple[str, int, int]]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for topic, partition, offset in offsets:
        found.setdefault(topic, {})[partition] = offset
    return found


def _summed(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for name, count in counts:
        summed[name] = summed.get(name, 0) + count
    return summed
