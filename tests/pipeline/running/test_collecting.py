"""`collect` from topics to tables on a real broker, with repeated, late, broken and conflicting events among them."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla import Admin, TopicPartition
from ottla.pipeline.topics import CREDIT, TOPIC_NAMES
from ottla.pipeline.traffic.events import Event
from tests.pipeline.running.rig import Pipeline, check_tables, expected_of, noisy_events
from tests.processes import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.slow]

NOW_MS = 1_756_700_000_000


def credit(event_id: str, *, amount: int = 1, time_ms: int = NOW_MS, **more: Any) -> Event:
    value = {"event_id": event_id, "schema_version": 1, "event_time": time_ms, "account_id": "u1", "credit": amount}
    return Event(CREDIT.name, "u1", {**value, **more}, time_ms)


@pytest.fixture
def pipeline(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> Pipeline:
    return Pipeline(start_broker().address, tmp_path)


def test_tables_hold_what_a_plain_reading_of_the_topics_gives(spark: "SparkSession", pipeline: Pipeline) -> None:
    pipeline.make_topics()
    events = noisy_events(seed=11)
    first = credit("conflict-1", amount=5, colour="blue")
    conflicting = [
        first,
        credit("conflict-1", amount=6),
        first,
        credit("conflict-2"),
        credit("conflict-2", time_ms=NOW_MS + 1),
    ]
    pipeline.send([*events, *conflicting])
    # Several batches, so that repeated events and highs go from one to the next.
    assert pipeline.run(spark, batches__max_events=500)
    records = pipeline.records(*TOPIC_NAMES)
    expected = expected_of(records)
    assert set(expected.dead.values()) >= {"not_json", "missing_field", "wrong_type", "future", "negative", "conflict"}
    assert expected.late
    assert expected.duplicates
    check_tables(pipeline, expected)

    progress = pipeline.progress["collect"]
    assert progress.batches > 1
    assert progress.rows_read == len(records)
    assert progress.rows_written == sum(len(rows) for rows in expected.logs.values())
    assert progress.duplicates == expected.duplicates
    assert progress.late == len(expected.late)
    assert progress.dead == Counter(expected.dead.values())
    document = json.loads((pipeline.folder / "metrics.json").read_text())["jobs"]["collect"]
    assert (document["state"], document["lag"], document["rows_read"]) == ("done", 0, len(records))
    counts: Counter[tuple[str, str]] = Counter()
    for row in pipeline.rows("dead_event_count"):
        counts[row["topic"], row["error_class"]] += row["events"]
    assert counts == Counter((origin[0], error_class) for origin, error_class in expected.dead.items())

    letter = next(each for each in pipeline.records(f"{CREDIT.name}.dlq") if each.headers["error_class"] == "conflict")
    origin = next(each for each in records if each[:3] == _origin(letter.headers))
    assert (letter.key, letter.value) == (origin.key, origin.value)
    assert int(letter.headers["origin_timestamp_ms"]) == origin.timestamp_ms
    assert "event_id" in letter.headers["error_reason"]
    assert letter.headers["pipeline_version"]

    with Admin(bootstrap_servers=pipeline.bootstrap) as admin:
        committed = admin.list_group_offsets("cassandra-logger-consumer")
    ends: Counter[TopicPartition] = Counter(TopicPartition(*record[:2]) for record in records)
    assert {topic_partition: each.offset for topic_partition, each in committed.items() if each.offset} == ends

    # Once more there is nothing to do; then only what is new.
    letters = len(pipeline.records(f"{CREDIT.name}.dlq"))
    assert pipeline.run(spark)
    assert pipeline.progress["collect"].batches == 0
    pipeline.send(
        [first, credit("new-1"), credit("conflict-1", amount=7), credit("old", time_ms=NOW_MS - 9 * 86_400_000)]
    )
    assert pipeline.run(spark)
    check_tables(pipeline, expected_of(pipeline.records(*TOPIC_NAMES)))
    assert len(pipeline.records(f"{CREDIT.name}.dlq")) == letters + 1


def test_topics_may_come_late_go_and_come_again_and_grow(spark: "SparkSession", pipeline: Pipeline) -> None:
    assert pipeline.run(spark)
    assert "do not exist, they are counted as empty: " + ", ".join(sorted(TOPIC_NAMES)) in pipeline.reported[0]
    pipeline.make_topics(CREDIT.name, "ml_task_log", partitions=1)
    task = {"event_id": "t", "schema_version": 1, "event_time": NOW_MS, "account_id": "u1", "task_id": "x"}
    task |= {"step": 1, "steps_total": 2, "reward": 3}
    pipeline.send([*(credit(f"a{number}") for number in range(5)), Event("ml_task_log", "u1", {**task}, NOW_MS)])
    assert pipeline.run(spark)
    assert ids(pipeline) == {f"a{number}" for number in range(5)}

    with Admin(bootstrap_servers=pipeline.bootstrap) as admin:
        admin.add_partitions({CREDIT.name: 3})
    pipeline.send([Event(CREDIT.name, key, credit(f"b{key}").value, NOW_MS) for key in "stuvwxyz"])
    assert pipeline.run(spark)
    assert ids(pipeline) == {f"a{number}" for number in range(5)} | {f"b{key}" for key in "stuvwxyz"}

    # Made anew with more records than before: offsets of the old one would skip some of them without a word.
    with Admin(bootstrap_servers=pipeline.bootstrap) as admin:
        admin.delete_topics([CREDIT.name])
        while CREDIT.name in admin.list_topics():
            pass
    pipeline.make_topics(CREDIT.name, partitions=1)
    pipeline.send(
        [*(credit(f"c{number}") for number in range(9)), Event("ml_task_log", "u1", {**task, "event_id": "t2"}, NOW_MS)]
    )
    pipeline.reported.clear()
    assert pipeline.run(spark)
    assert [line for line in pipeline.reported if f"created again, now read from the beginning: {CREDIT.name}" in line]
    assert ids(pipeline) >= {f"c{number}" for number in range(9)}
    assert pipeline.progress["collect"].rows_read == 10, "the other topic goes on from where it was"
    assert pipeline.run(spark)
    assert pipeline.progress["collect"].batches == 0


def ids(pipeline: Pipeline) -> set[str]:
    rows = pipeline.rows("credit_log")
    assert len({row["event_id"] for row in rows}) == len(rows)
    return {row["event_id"] for row in rows}


def _origin(headers: dict[str, str]) -> tuple[str, int, int]:
    return headers["origin_topic"], int(headers["origin_partition"]), int(headers["origin_offset"])
