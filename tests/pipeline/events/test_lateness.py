"""Lateness by its definition, and by any way of cutting a partition into batches."""

from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.events.lateness import find_late

ALLOWED_MS = 10

Row = tuple[str, int, int, int]  # topic, partition, offset, event time


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "topic": pa.array([row[0] for row in rows], pa.string()),
            "partition": pa.array([row[1] for row in rows], pa.int32()),
            "offset": pa.array([row[2] for row in rows], pa.int64()),
            "event_id": pa.array([f"{row[0]}-{row[1]}-{row[2]}" for row in rows], pa.string()),
            "event_time": pa.array([row[3] for row in rows], pa.int64()),
        }
    )


def by_definition(rows: list[Row]) -> dict[tuple[str, int, int], int]:
    """Origin -> how far behind, one event after the other."""
    late = {}
    for topic, partition, offset, time_ms in rows:
        earlier = [row[3] for row in rows if row[:2] == (topic, partition) and row[2] < offset]
        if earlier and max(earlier) - time_ms > ALLOWED_MS:
            late[topic, partition, offset] = max(earlier) - time_ms
    return late


def listed(late: pa.Table) -> dict[tuple[str, int, int], int]:
    return {(row["topic"], row["partition"], row["offset"]): row["behind_ms"] for row in late.to_pylist()}


def test_just_allowed_is_not_late_and_one_more_is() -> None:
    rows = [("t", 0, 0, 100), ("t", 0, 1, 90), ("t", 0, 2, 89), ("t", 1, 3, 0)]
    found = find_late(table(rows), before={}, allowed_ms=ALLOWED_MS)
    expected = {"topic": "t", "partition": 0, "offset": 2, "event_id": "t-0-2", "event_time_ms": 89, "behind_ms": 11}
    assert found.late.to_pylist() == [expected]
    assert found.highs == {("t", 0): 100, ("t", 1): 0}


def test_the_high_before_the_batch_counts_and_stays() -> None:
    found = find_late(table([("t", 0, 7, 50)]), before={("t", 0): 100, ("u", 3): 5}, allowed_ms=ALLOWED_MS)
    assert listed(found.late) == {("t", 0, 7): 50}
    assert found.highs == {("t", 0): 100, ("u", 3): 5}


def test_no_events_change_nothing() -> None:
    found = find_late(table([]), before={("t", 0): 3}, allowed_ms=ALLOWED_MS)
    assert found.late.num_rows == 0
    assert found.highs == {("t", 0): 3}


@st.composite
def _partitions(draw: st.DrawFn) -> list[Row]:
    """Events of a few partitions, with gaps between offsets."""
    rows: list[Row] = []
    for topic in ("a", "b"):
        for partition in range(draw(st.integers(0, 3))):
            offset = draw(st.integers(0, 5))
            for time_ms in draw(st.lists(st.integers(0, 40), max_size=12)):
                rows.append((topic, partition, offset, time_ms))
                offset += draw(st.integers(1, 3))
    return rows


@settings(deadline=None, max_examples=100)
@given(_partitions(), st.randoms(use_true_random=False))
def test_any_cutting_into_batches_finds_the_same_late_events(rows: list[Row], dice: Random) -> None:
    left = {
        topic_partition: [row for row in rows if row[:2] == topic_partition]
        for topic_partition in {row[:2] for row in rows}
    }
    highs: dict[tuple[str, int], int] = {}
    found: dict[tuple[str, int, int], int] = {}
    while any(left.values()):
        batch: list[Row] = []
        for topic_partition, waiting in sorted(left.items()):
            count = dice.randint(0, len(waiting))
            batch += waiting[:count]
            left[topic_partition] = waiting[count:]
        dice.shuffle(batch)
        lateness = find_late(table(batch), before=highs, allowed_ms=ALLOWED_MS)
        found |= listed(lateness.late)
        highs = lateness.highs
    assert found == by_definition(rows)
    assert highs == {
        topic_partition: max(row[3] for row in rows if row[:2] == topic_partition) for topic_partition in left
    }
