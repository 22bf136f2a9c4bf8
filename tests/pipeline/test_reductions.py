"""What the detectors' jobs take from executors: few rows for many events, and nothing of it lost."""

from typing import Any

import pyarrow as pa

from ottla.pipeline.detection.intake import LIFE_TOPICS, LOOKED_AT_TOPICS, lives_of
from ottla.pipeline.events.parsing import ParsingRules
from ottla.pipeline.events.payloads import PayloadWriter, Received, read_payloads
from ottla.pipeline.events.preparing import ArrowFunction
from ottla.pipeline.jobs.invite_fraud import MOMENTS, PERSONS, LifeReduction
from ottla.pipeline.jobs.phone_region import NEWEST, NewestNumbers, newest
from ottla.pipeline.settings import Settings
from ottla.pipeline.topics import EXPOSURE, LOGIN, VERIFY
from ottla.pipeline.traffic.events import Event, encode_value
from ottla.pipeline.traffic.generator import Settings as TrafficSettings
from ottla.pipeline.traffic.generator import generate

RULES = ParsingRules.of(Settings())
FAR_MS = 1 << 50  # no event is of the future


def source_batch(records: list[tuple[str, bytes]]) -> pa.RecordBatch:
    count = len(records)
    return pa.RecordBatch.from_pydict(
        {
            "topic": [topic for topic, _ in records],
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([FAR_MS * 1000] * count, pa.timestamp("us", "UTC")),
            "key": pa.array([b"key"] * count),
            "value": pa.array([value for _, value in records]),
        }
    )


def traffic() -> list[Event]:
    return [event for event in generate(TrafficSettings(4, 40, 1)) if event.topic in LOOKED_AT_TOPICS]


def value_of(event: Event) -> dict[str, Any]:
    assert isinstance(event.value, dict)
    return event.value


def received(tasks: list[ArrowFunction], parts: list[list[pa.RecordBatch]], *schemas: pa.Schema) -> Received:
    """What the driver makes of the payloads of these tasks."""
    payloads = [row for task, own in zip(tasks, parts, strict=True) for row in PayloadWriter(task)(own)]
    return read_payloads(pa.Table.from_batches(payloads), schemas)


def test_events_of_use_become_two_moments_an_account_and_persons_stay_whole() -> None:
    events = traffic()
    records = [(event.topic, encode_value(event)) for event in events]
    records.insert(3, (EXPOSURE.name, b"no JSON"))
    parts = [source_batch(records[start : start + 200]) for start in range(0, len(records), 200)]

    # Two tasks, each with topics mixed in its batches.
    task = LifeReduction(RULES, now_ms=FAR_MS)
    (persons, moments), read = received([task, task], [parts[::2], parts[1::2]], PERSONS, MOMENTS)

    assert read.rows_read == len(records)
    of_use: dict[str, set[int]] = {}
    highs: dict[str, int] = {}
    for event in events:
        highs[event.topic] = max(event.event_time_ms, highs.get(event.topic, 0))
        if event.topic in LIFE_TOPICS:
            of_use.setdefault(value_of(event)["account_id"], set()).add(event.event_time_ms)
    assert read.highs_ms == highs
    assert moments.num_rows <= 4 * len(of_use)
    assert {account_id: [ms for ms in life if ms is not None] for account_id, life in lives_of(moments).items()} == {
        account_id: sorted(times)[:2] for account_id, times in of_use.items()
    }
    expected = sorted(value_of(event)["event_id"] for event in events if event.topic not in LIFE_TOPICS)
    assert sorted(persons.column("event_id").to_pylist()) == expected


def test_a_batch_without_sound_events_has_no_clock() -> None:
    batch = source_batch([(LOGIN.name, b"{}"), (EXPOSURE.name, b"[]")])
    (persons, moments), read = received([LifeReduction(RULES, now_ms=FAR_MS)], [[batch]], PERSONS, MOMENTS)

    assert read.highs_ms == {}
    assert read.rows == {LOGIN.name: 1, EXPOSURE.name: 1}
    assert persons.num_rows == moments.num_rows == 0


def test_of_each_account_the_newest_proven_number_is_taken_in_any_order() -> None:
    events = [event for event in traffic() if event.topic in (LOGIN.name, VERIFY.name)]
    expected: dict[str, int] = {}
    for event in events:
        value = value_of(event)
        if event.topic == LOGIN.name or value["outcome"] == "ok":
            expected[value["account_id"]] = max(event.event_time_ms, expected.get(value["account_id"], 0))
    task = NewestNumbers(RULES, now_ms=FAR_MS)
    for ordered in (events, events[::-1]):
        batch = source_batch([(event.topic, encode_value(event)) for event in ordered])
        (rows,), read = received([task], [[batch]], NEWEST)
        assert read.rows_read == len(events)
        assert {row["account_id"]: row["event_time"] for row in rows.to_pylist()} == expected
        assert rows.num_rows == len(expected)


def test_of_two_numbers_at_one_time_the_one_with_the_greater_hash_counts() -> None:
    rows = [{"account_id": "a", "event_time": 1, "phone": hash_, "phone_hash": hash_} for hash_ in ("x", "z", "y")]

    assert newest(pa.Table.from_pylist(rows)).column("phone_hash").to_pylist() == ["z"]
    assert newest(pa.Table.from_pylist(rows[:1])).num_rows == 1
    assert newest(pa.Table.from_pylist(rows).slice(0, 0)).num_rows == 0
