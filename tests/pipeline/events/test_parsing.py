"""Records to events: every kind of bad event, and any JSON at all against a plain reference. No Spark."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from ottla.pipeline.events.frames import PARSED
from ottla.pipeline.events.parsing import EVENTS, WITHOUT_PHONES, Parser, ParsingRules
from ottla.pipeline.settings import Settings
from ottla.pipeline.tables import LOG_TABLES
from ottla.pipeline.topics import BY_NAME, TOPIC_NAMES
from ottla.pipeline.traffic.events import encode_value
from ottla.pipeline.traffic.generator import Settings as TrafficSettings
from ottla.pipeline.traffic.generator import Traffic
from ottla.pipeline.traffic.noise import BAD_KINDS, broken
from ottla.pipeline.traffic.scenarios import Hardness
from tests.pipeline.events.event_reference import DAY_MS, judge, phone_hash

NOW_MS = 1_760_000_000_000
SAMPLES: dict[str, Any] = {
    "ml_obtain_credit_log": {"credit": -5, "reason": "correction", "task_id": "t"},
    "ml_ad_left_slide_log": {"ad_id": "a", "slot": "feed", "duration_ms": 7},
    "ml_ad_right_slide_log": {"ad_id": "a", "slot": 3, "duration_ms": 0},
    "ml_ad_exposure_log": {"ad_id": "a", "slot": None},
    "ml_app_install_log": {"package": "p", "ad_id": "a"},
    "ml_login_log": {"phone": "+8613800000000", "login_kind": "sms"},
    "ml_message_verify_log": {"phone": "+8613800000000", "outcome": "ok"},
    "ml_invite_log": {"inviter_id": "u1", "invitee_id": "u2", "invitee_phone": "+8613911111111", "channel": "wx"},
    "ml_task_log": {"task_id": "t", "step": 1, "steps_total": 3, "reward": 40},
}


def sample(topic: str, **changes: Any) -> dict[str, Any]:
    event = {"event_id": "e1", "event_type": BY_NAME[topic].event_type, "schema_version": 1, "event_time": NOW_MS}
    event |= {"account_id": "u1", "device_id": "d1", "fingerprint": "f", "ip": "10.0.0.1", "app_version": "1"}
    return event | SAMPLES[topic] | changes


def without(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != name}


def parse_values(
    topic: str,
    *values: Any,
    written_ms: int = NOW_MS,
    now_ms: int = NOW_MS,
    columns: tuple[str, ...] = WITHOUT_PHONES,
    given: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Rows of PARSED for these values: objects to encode, or bytes as they are."""
    encoded = [value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values]
    return parse_records([(topic, value) for value in encoded], written_ms, now_ms, columns, given)


def parse_records(
    records: list[tuple[str, bytes | None]],
    written_ms: int = NOW_MS,
    now_ms: int = NOW_MS,
    columns: tuple[str, ...] = WITHOUT_PHONES,
    given: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    count = len(records)
    batch = pa.record_batch(
        {
            "topic": pa.array([topic for topic, _ in records], pa.string()),
            "partition": pa.array([2] * count, pa.int32()),
            "offset": pa.array(range(100, 100 + count), pa.int64()),
            "timestamp": pa.array([written_ms * 1000] * count, pa.timestamp("us", "UTC")),
            "key": pa.array([b"key"] * count, pa.binary()),
            "value": pa.array([value for _, value in records], pa.binary()),
        }
    )
    schema = StructType([field for field in PARSED if field.name in columns])
    table = Parser(ParsingRules.of(Settings(given)), now_ms=now_ms, schema=schema).parse_batch(batch)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def nested_event(*, levels: int) -> dict[str, Any]:
    """A sound event with an unknown field; the event's own object is the first level."""
    deep: list[Any] = []
    for _ in range(levels - 2):
        deep = [deep]
    return sample("ml_task_log", deep=deep)


@pytest.mark.parametrize("topic", TOPIC_NAMES)
def test_a_sound_event_of_each_topic_has_the_columns_of_its_table(topic: str) -> None:
    (row,) = parse_values(topic, sample(topic))
    assert row["error_class"] is None
    assert (row["topic"], row["partition"], row["offset"], row["timestamp_ms"]) == (topic, 2, 100, NOW_MS)
    assert row["key"] is row["value"] is None
    _, expected = judge(topic, json.dumps(sample(topic)).encode(), written_ms=NOW_MS)
    assert expected is not None
    assert {name: row[name] for name in expected} == expected
    table = LOG_TABLES[BY_NAME[topic].table]
    assert {name for name in table.column_names if name != "day"} <= set(EVENTS)


@pytest.mark.parametrize(
    ("topic", "value", "error_class", "named"),
    [
        ("ml_task_log", b'{"event_id": "e', "not_json", "truncated"),
        ("ml_task_log", b"", "not_json", ""),
        ("ml_task_log", None, "not_json", "no value"),
        ("ml_task_log", b'{"event_id": "\xff\xfe"}', "not_json", "UTF-8"),
        ("ml_task_log", b"[" * 5000 + b"]" * 5000, "not_json", "nested"),
        ("ml_task_log", b"[" * 5000, "not_json", "nested"),
        ("ml_task_log", nested_event(levels=101), "not_json", "nested"),
        ("ml_task_log", [1, 2], "wrong_type", "a list"),
        ("ml_task_log", without(sample("ml_task_log"), "account_id"), "missing_field", "account_id is missing"),
        ("ml_task_log", sample("ml_task_log", event_id=""), "missing_field", "event_id is empty"),
        ("ml_task_log", without(sample("ml_task_log"), "reward"), "missing_field", "reward"),
        ("ml_obtain_credit_log", without(sample("ml_obtain_credit_log"), "credit"), "missing_field", "credit"),
        ("ml_ad_left_slide_log", sample("ml_ad_left_slide_log", ad_id=None), "missing_field", "ad_id"),
        ("ml_app_install_log", without(sample("ml_app_install_log"), "package"), "missing_field", "package"),
        ("ml_login_log", without(sample("ml_login_log"), "device_id"), "missing_field", "device_id"),
        ("ml_login_log", without(sample("ml_login_log"), "login_kind"), "missing_field", "login_kind"),
        ("ml_message_verify_log", without(sample("ml_message_verify_log"), "outcome"), "missing_field", "outcome"),
        ("ml_invite_log", without(sample("ml_invite_log"), "invitee_id"), "missing_field", "invitee_id"),
        ("ml_task_log", without(sample("ml_task_log"), "schema_version"), "missing_field", "schema_version"),
        ("ml_task_log", sample("ml_task_log", event_time="yesterday"), "wrong_type", "event_time"),
        ("ml_task_log", sample("ml_task_log", event_time=1.5), "wrong_type", "event_time"),
        ("ml_task_log", sample("ml_task_log", event_time=True), "wrong_type", "event_time"),
        ("ml_task_log", sample("ml_task_log", reward=2**63), "wrong_type", "64 bits"),
        ("ml_task_log", sample("ml_task_log", account_id=7), "wrong_type", "account_id"),
        ("ml_task_log", sample("ml_task_log", event_type="login"), "wrong_type", "event_type"),
        ("ml_task_log", sample("ml_task_log", schema_version="1"), "wrong_type", "schema_version"),
        ("ml_ad_left_slide_log", sample("ml_ad_left_slide_log", slot=1.5), "wrong_type", "slot"),
        ("ml_task_log", sample("ml_task_log", event_time=-1), "negative", "event_time"),
        ("ml_task_log", sample("ml_task_log", step=-1), "negative", "step"),
        ("ml_ad_left_slide_log", sample("ml_ad_left_slide_log", duration_ms=-1), "negative", "duration_ms"),
        ("ml_task_log", sample("ml_task_log", event_time=NOW_MS + DAY_MS + 1), "future", "event_time"),
        ("ml_task_log", sample("ml_task_log", schema_version=99), "unknown_schema_version", "99"),
        # Of another version nothing else is known, so nothing else is said.
        ("ml_task_log", {"schema_version": 2}, "unknown_schema_version", "2"),
    ],
)
def test_bad_events_have_their_class_and_a_reason_that_names_the_field(
    topic: str, value: Any, error_class: str, named: str
) -> None:
    sound, dead = parse_values(topic, sample(topic), value)
    assert sound["error_class"] is None
    assert dead["error_class"] == error_class
    assert named in dead["error_reason"]
    assert dead["key"] == b"key"
    assert dead["value"] == (value if isinstance(value, bytes | None) else json.dumps(value).encode())
    assert {dead[name] for name in EVENTS if name not in ("topic", "partition", "offset", "timestamp_ms")} == {None}


@pytest.mark.parametrize(
    "value", ["[{" * 500, '"' + "[{" * 500, "\\" * 501 + "[" * 500], ids=["text", "quoted", "escaped"]
)
def test_brackets_in_texts_and_a_hundred_levels_are_no_deep_nesting(value: str) -> None:
    (row,) = parse_values("ml_task_log", {**nested_event(levels=100), "note": value})
    assert row["error_class"] is None
    assert json.loads(row["extra"])["note"] == value


def test_reasons_hold_no_phone_numbers() -> None:
    number = "+8613812345678"
    bad = (
        sample("ml_login_log", phone=13812345678),
        sample("ml_login_log", phone=[number], event_type=number),
        sample("ml_login_log", login_kind={"phone": number}),
        json.dumps(sample("ml_login_log", phone=number)).encode()[:-40],
        sample("ml_login_log", schema_version=13812345678),
        sample("ml_login_log", event_time=8613812345678),
    )
    for row in parse_values("ml_login_log", *bad):
        assert row["error_class"] is not None
        assert "13812345678" not in row["error_reason"]


def test_generated_noise_dies_of_what_is_wrong_with_it() -> None:
    traffic = Traffic(TrafficSettings(3, 40, 1, Hardness.EASY, NOW_MS - DAY_MS))
    events = list(traffic.events())
    rows = parse_records([(event.topic, encode_value(event)) for event in events])
    assert {row["error_class"] for row in rows} == {None}
    kinds = [BAD_KINDS[index % len(BAD_KINDS)] for index in range(len(events))]
    bad = [broken(event, kind, number=index) for index, (event, kind) in enumerate(zip(events, kinds, strict=True))]
    rows = parse_records([(event.topic, encode_value(event)) for event in bad])
    assert [row["error_class"] for row in rows] == kinds


def test_unknown_fields_are_kept_and_phones_in_them_hashed() -> None:
    number = "+8613812345678"
    event = sample("ml_task_log", zeta=[1, 2.5], alpha={"b": None, "a": "é"}, phone=number, deep={"my_Phone": [number]})
    (row,) = parse_values("ml_task_log", event)
    assert row["error_class"] is None
    kept = json.loads(row["extra"])
    assert list(kept) == ["alpha", "deep", "phone", "zeta"]
    assert kept["alpha"] == {"a": "é", "b": None}
    assert kept["phone"] == phone_hash(number)
    assert number not in row["extra"]


@pytest.mark.parametrize(
    ("more", "is_hashed"),
    [
        ({"backup": "+86 138 1234 5678"}, True),  # with its calling code, whatever the field is called
        ({"deep": [{"mobile": "13812345678"}]}, True),
        ({"msisdn": 13812345678}, True),
        ({"user_tel": "(138) 1234-5678"}, True),
        ({"emergency_contact": {"numbers": ["138 1234 5678"]}}, True),
        ({"my_phone": "unknown"}, True),
        ({"order": "13812345678"}, False),
        ({"hotel": 13812345678}, False),
        ({"mobile_os": "android 14"}, False),
        ({"offset": "+08:00"}, False),
    ],
)
def test_what_has_the_form_of_a_number_in_unknown_fields_is_hashed(more: dict[str, Any], is_hashed: bool) -> None:
    (row,) = parse_values("ml_task_log", sample("ml_task_log", **more))
    as_it_was = json.dumps(more, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert row["error_class"] is None
    assert (row["extra"] != as_it_was) == is_hashed
    assert (phone_hash("+8613812345678") in row["extra"]) == (is_hashed and "unknown" not in as_it_was)


@pytest.mark.parametrize("more", [{}, {"more": {"b": 1, "a": [2]}}])
def test_the_same_event_has_one_body_hash_however_it_is_written(more: dict[str, Any]) -> None:
    event = sample("ml_login_log", **more)
    shuffled = dict(reversed(list(event.items()))) | ({"more": {"a": [2], "b": 1}} if more else {})
    ways = (
        json.dumps(event).encode(),
        json.dumps(event, indent=3).encode(),
        json.dumps(event, ensure_ascii=False).encode(),
        json.dumps(shuffled).encode(),
        json.dumps(without(event, "event_type")).encode(),
        json.dumps({**event, "fingerprint": "f", "phone": "+86 138-0000-0000"}).encode(),
        json.dumps({**event, "phone": "138 0000 0000"}).encode(),
    )
    rows = parse_values("ml_login_log", *ways)
    assert len({row["body_hash"] for row in rows}) == 1
    absent, null = without(event, "ip"), {**event, "ip": None}
    first, second = parse_values("ml_login_log", absent, null)
    assert first["body_hash"] == second["body_hash"] != rows[0]["body_hash"]


def test_another_value_or_unknown_field_is_another_body() -> None:
    ways = (
        sample("ml_login_log"),
        sample("ml_login_log", ip="10.0.0.2"),
        sample("ml_login_log", phone="+8613800000001"),
        sample("ml_login_log", more=1),
        sample("ml_login_log", more="1"),
        sample("ml_login_log", mode=1),
    )
    rows = parse_values("ml_login_log", *ways)
    assert len({row["body_hash"] for row in rows}) == len(ways)


def test_raw_numbers_are_there_only_for_who_asks() -> None:
    (row,) = parse_values("ml_login_log", sample("ml_login_log"))
    assert "phone" not in row
    assert row["phone_hash"] == phone_hash("+8613800000000")
    wanted = ("topic", "partition", "offset", "phone", "phone_hash", "error_class")
    (asked,) = parse_values("ml_login_log", sample("ml_login_log"), columns=wanted)
    assert asked["phone"] == "+8613800000000"
    assert asked["phone_hash"] == row["phone_hash"]


def test_another_key_gives_other_hashes() -> None:
    (first,) = parse_values("ml_login_log", sample("ml_login_log"))
    (second,) = parse_values("ml_login_log", sample("ml_login_log"), given={"phones.hash_key": "k" * 16})
    assert first["phone_hash"] != second["phone_hash"]


def test_the_future_is_seen_from_when_the_record_was_written_and_from_now() -> None:
    ahead = sample("ml_task_log", event_time=NOW_MS + 2 * DAY_MS)
    assert [row["error_class"] for row in parse_values("ml_task_log", ahead)] == ["future"]
    # A producer that stamps records with the event's time can't hide behind that.
    assert parse_values("ml_task_log", ahead, written_ms=NOW_MS + 2 * DAY_MS)[0]["error_class"] == "future"
    # Read again years later it is as dead as it was.
    assert parse_values("ml_task_log", ahead, now_ms=NOW_MS + 900 * DAY_MS)[0]["error_class"] == "future"
    assert parse_values("ml_task_log", ahead, written_ms=-1, now_ms=NOW_MS + DAY_MS)[0]["error_class"] is None
    allowed = {"events.future_allowed_ms": 3 * DAY_MS}
    assert parse_values("ml_task_log", ahead, given=allowed)[0]["error_class"] is None


def test_schema_versions_are_what_the_settings_say() -> None:
    given = {"events.schema_versions": [1, 2]}
    rows = parse_values("ml_task_log", *(sample("ml_task_log", schema_version=v) for v in (1, 2, 3)), given=given)
    assert [row["error_class"] for row in rows] == [None, None, "unknown_schema_version"]
    assert [row["schema_version"] for row in rows] == [1, 2, None]


def test_topics_may_be_mixed_in_a_batch() -> None:
    topics = [*TOPIC_NAMES, *TOPIC_NAMES, "ml_task_log"]
    rows = parse_records([(topic, json.dumps(sample(topic)).encode()) for topic in topics])
    assert [row["topic"] for row in rows] == topics
    assert [row["event_type"] for row in rows] == [BY_NAME[topic].event_type for topic in topics]


_texts = st.text(st.characters(codec="utf-8"), max_size=6)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-2, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def _events(draw: st.DrawFn) -> tuple[str, bytes]:
    """A sound event with some fields changed, added or left out; or anything."""
    topic = draw(st.sampled_from(TOPIC_NAMES))
    event = sample(topic)
    names = st.sampled_from([*event, "unknown", "other"])
    for name in draw(st.lists(names, max_size=3)):
        if draw(st.booleans()):
            event[name] = draw(_values)
        else:
            event.pop(name, None)
    # Numbers of phones have one way of writing here; that there are others is another test's.
    for name in ("phone", "invitee_phone"):
        if isinstance(event.get(name), str) and event[name]:
            event[name] = "+8613800000000"
    encoded = json.dumps(event, ensure_ascii=draw(st.booleans())).encode()
    if draw(st.integers(0, 9)) == 0:
        encoded = encoded[: draw(st.integers(0, len(encoded)))]
    return topic, encoded


@settings(deadline=None, max_examples=300)
@given(st.lists(_events(), min_size=1, max_size=5))
def test_any_event_is_what_the_reference_says(records: list[tuple[str, bytes]]) -> None:
    rows = parse_records([*records])
    assert len(rows) == len(records)
    for (topic, value), row in zip(records, rows, strict=True):
        error_class, expected = judge(topic, value, written_ms=NOW_MS)
        assert (row["error_class"] or "") == error_class, (value, row["error_reason"])
        if expected is not None:
            extra = expected.pop("extra")
            assert {name: row[name] for name in expected} == expected
            assert (json.loads(row["extra"]) if row["extra"] else None) == extra
        else:
            assert row["value"] == value
