"""A pipeline on a real broker: events on topics, jobs on them, and what the tables must hold by a plain reading.

`records` reads the topics back, so that the expected rows come from the bytes that are there, in the order of offsets.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla import Admin, Consumer, Producer
from ottla.clients.topics import NewTopic
from ottla.core.types import TopicPartition
from ottla.pipeline.running.progress import JobProgress
from ottla.pipeline.running.runner import Runner, RunPlan
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.tables import TABLES
from ottla.pipeline.topics import BY_NAME, TOPIC_NAMES
from ottla.pipeline.traffic.events import Event, encode_value
from ottla.pipeline.traffic.generator import DEFAULT_START_MS, Traffic
from ottla.pipeline.traffic.generator import Settings as TrafficSettings
from ottla.pipeline.traffic.noise import NoiseRates, with_noise
from ottla.pipeline.traffic.scenarios import Hardness
from tests.pipeline.events.event_reference import judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALLOWED_MS = 3_600_000
Row = dict[str, Any]
# Spark gives its Python processes ten seconds to start, which a busy machine may exceed many times in a row.
PATIENT: Row = {"restarts.max": 60, "restarts.backoff_max_ms": 1000}


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]


def noisy_events(*, seed: int, accounts: int = 40) -> list[Event]:
    """A day of a few users with repeated, late and broken events among them."""
    traffic = Traffic(TrafficSettings(seed, accounts, 1, Hardness.EASY, DEFAULT_START_MS))
    rates = NoiseRates(duplicates=0.05, late=0.05, bad=0.05)
    return list(with_noise(traffic.events(), rates, seed=seed, counts={}))


def toml(**given: int) -> str:
    """A settings file; two underscores for a dot."""
    return "".join(f"{name.replace('__', '.')} = {value}\n" for name, value in {**PATIENT, **given}.items())


class Pipeline:
    """The topics of a broker and one embedded store."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.reported: list[str] = []
        self.progress: dict[str, JobProgress] = {}

    def make_topics(self, *names: str, partitions: int = 2) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions) for name in names or TOPIC_NAMES])

    def send(self, events: Iterable[Event]) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            sent = [producer.send(event.topic, encode_value(event), key=event.key.encode()) for event in events]
            for handle in sent:
                handle.result()

    def run(self, spark: "SparkSession", *, jobs: str = "collect", plan: Row | None = None, **given: Any) -> bool:
        """All that is on the topics, once. `given` are settings, with two underscores for a dot."""
        settings = Settings(PATIENT | {name.replace("__", "."): value for name, value in given.items()})
        whole: Row = {
            "bootstrap": self.bootstrap,
            "jobs": tuple(jobs.split(",")),
            "connector": "ottla",
            "trigger_ms": None,
            "checkpoint": self.folder / "checkpoint",
            "store_name": "embedded",
            "metrics_json": self.folder / "metrics.json",
        }
        runner = Runner(
            RunPlan(**(whole | (plan or {}))),
            settings,
            open_store=lambda: EmbeddedStore(self.folder / "store"),
            report=self.reported.append,
            show=lambda jobs: None,
        )
        is_well = runner.run(lambda: spark)
        self.progress = {each.job: each for each in runner.progress}
        return is_well

    def records(self, *topics: str) -> list[Record]:
        """All of these topics, by offset within each partition."""
        found: list[Record] = []
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            there = [name for name in admin.list_topics() if name in topics]
            described = admin.describe_topics(there) if there else {}
            topic_partitions = [
                TopicPartition(name, p.partition) for name, t in described.items() for p in t.partitions
            ]
            ends = {
                topic_partition: each.offset
                for topic_partition, each in admin.list_offsets(topic_partitions, Admin.LATEST).items()
            }
        with Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(topic_partitions)
            while any(consumer.position(topic_partition) < end for topic_partition, end in ends.items()):
                for record in consumer.poll(1000):
                    headers = {name: (value or b"").decode() for name, value in record.headers}
                    found.append(
                        Record(
                            record.topic,
                            record.partition,
                            record.offset,
                            record.timestamp_ms,
                            record.key,
                            record.value,
                            headers,
                        )
                    )
        return sorted(found, key=lambda record: record[:3])

    def rows(self, table: str) -> list[Row]:
        """What a table holds, wall-clock columns aside, in an order of its own."""
        store = EmbeddedStore(self.folder / "store")
        declared = TABLES[table]
        names = [name for name in declared.column_names if name not in declared.wall_clock]
        rows = [row for batch in store.scan(table, columns=names) for row in batch.to_pylist()]
        store.close()
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


class Expected(NamedTuple):
    """What must be in the tables and on the dead-letter topics."""

    logs: dict[str, list[Row]]
    late: dict[tuple[str, int, int], int]
    dead: dict[tuple[str, int, int], str]
    duplicates: int


def expected_of(records: Iterable[Record]) -> Expected:
    """By a plain reading, one record after the other in the order of offsets."""
    logs: dict[str, dict[str, Row]] = {topic.table: {} for topic in BY_NAME.values()}
    late: dict[tuple[str, int, int], int] = {}
    dead: dict[tuple[str, int, int], str] = {}
    highs: dict[tuple[str, int], int] = {}
    duplicates = 0
    for record in records:
        origin = record[:3]
        error_class, row = judge(record.topic, record.value, written_ms=record.timestamp_ms)
        if row is None:
            dead[origin] = error_class
            continue
        time_ms = row["event_time"]
        high = highs.get(record[:2])
        if high is not None and high - time_ms > ALLOWED_MS:
            late[origin] = high - time_ms
        highs[record[:2]] = max(time_ms, high or 0)
        known = logs[BY_NAME[record.topic].table]
        earlier = known.get(row["event_id"])
        if earlier is None:
            known[row["event_id"]] = row
        elif earlier == row:
            duplicates += 1
        else:
            dead[origin] = "conflict"
    return Expected({name: list(rows.values()) for name, rows in logs.items()}, late, dead, duplicates)


def check_tables(pipeline: Pipeline, expected: Expected) -> None:
    """Log tables, late events and dead letters are those, each once; letters may have come more than once."""
    for name, rows in expected.logs.items():
        found = [{**row, "extra": json.loads(row["extra"]) if row["extra"] else None} for row in pipeline.rows(name)]
        for row in found:
            assert row.pop("day") == _day(row["event_time"])
            assert len(row.pop("body_hash")) == 32
        assert Counter(map(_text, found)) == Counter(map(_text, rows)), name
    late = {(row["topic"], row["partition"], row["offset"]): row["behind_ms"] for row in pipeline.rows("late_event")}
    assert late == expected.late
    letters = pipeline.records(*(f"{topic}.dlq" for topic in TOPIC_NAMES))
    reported = {
        (h["origin_topic"], int(h["origin_partition"]), int(h["origin_offset"])): h["error_class"]
        for h in (letter.headers for letter in letters)
    }
    assert reported == expected.dead


def _day(event_time_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(event_time_ms / 1000, UTC).strftime("%Y-%m-%d")


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True)


def expected_balances(logs: dict[str, list[Row]]) -> dict[str, int]:
    """Account -> its credits and the rewards of the tasks that it has finished, from the rows of the log tables."""
    balances: Counter[str] = Counter()
    for row in logs["credit_log"]:
        balances[row["account_id"]] += row["credit"]
    tasks: dict[tuple[str, str], list[Row]] = {}
    for row in logs["task_log"]:
        tasks.setdefault((row["account_id"], row["task_id"]), []).append(row)
    for (account_id, _), steps in tasks.items():
        total = max(step["steps_total"] for step in steps)
        if {step["step"] for step in steps} >= set(range(1, total + 1)):
            balances[account_id] += max(step["reward"] for step in steps)
    return dict(balances)
