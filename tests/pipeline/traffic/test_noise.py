"""Noise is added beside the sound events; those are all there, once beneath the repeats."""

import json
from collections import Counter

import pytest

from ottla.pipeline.traffic.events import Event, encode_value
from ottla.pipeline.traffic.generator import Settings, generate
from ottla.pipeline.traffic.noise import BAD_KINDS, NoiseRates, broken, with_noise

SETTINGS = Settings(3, 120, 2)


def noisy(**rates: float) -> tuple[list[Event], list[Event], dict[str, object]]:
    plain = list(generate(SETTINGS))
    counts: dict[str, object] = {}
    return plain, list(with_noise(iter(plain), NoiseRates(**rates), seed=3, counts=counts)), counts


def test_duplicates_are_the_same_bytes_again() -> None:
    plain, sent, counts = noisy(duplicates=0.1)
    repeats = Counter(encode_value(event) for event in sent)
    repeats.subtract(encode_value(event) for event in plain)
    assert set(repeats.values()) == {0, 1}
    assert sum(repeats.values()) == counts["duplicates"] == len(sent) - len(plain)
    assert 0.07 * len(plain) < len(sent) - len(plain) < 0.13 * len(plain)


def test_late_events_lie_more_than_an_hour_behind() -> None:
    plain, sent, counts = noisy(late=0.02)
    assert sorted(map(encode_value, sent)) == sorted(map(encode_value, plain))
    latest_ms = late = 0
    last_ms = plain[-1].event_time_ms
    held_to_the_end = 0
    for event in sent:
        latest_ms = max(latest_ms, event.event_time_ms)
        late += latest_ms - event.event_time_ms > 3_600_000
        held_to_the_end += event.event_time_ms < latest_ms and last_ms - event.event_time_ms <= 3_600_000
    # Of the last hour, which nothing follows, some can't be late.
    assert late <= int(str(counts["late"])) <= late + held_to_the_end


def test_bad_events_are_added_and_counted_by_kind() -> None:
    plain, sent, counts = noisy(bad=0.05)
    sound = {encode_value(event) for event in plain}
    added = [event for event in sent if encode_value(event) not in sound]
    by_kind = counts["bad"]
    assert isinstance(by_kind, dict)
    assert set(by_kind) == set(BAD_KINDS)
    assert sum(by_kind.values()) == len(added) == len(sent) - len(plain)


@pytest.mark.parametrize("kind", BAD_KINDS)
def test_a_broken_event_has_one_thing_wrong_and_its_own_id(kind: str) -> None:
    event = next(event for event in generate(SETTINGS) if event.topic == "ml_ad_left_slide_log")
    assert isinstance(event.value, dict)
    bad = broken(event, kind, number=1)
    if kind == "not_json":
        with pytest.raises(ValueError):
            json.loads(encode_value(bad))
        return
    value = json.loads(encode_value(bad))
    assert value.pop("event_id") != event.value["event_id"]
    assert len({*event.value.items()} - {*value.items()}) == 2  # its id, and what is wrong


def test_no_rates_change_nothing() -> None:
    plain, sent, _ = noisy()
    assert sent == plain
