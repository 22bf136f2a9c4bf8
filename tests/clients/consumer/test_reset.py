"""`auto.offset.reset` in all its forms."""

import pytest

from ottla.clients.consumer.reset import EARLIEST, LATEST, NOWHERE, parse_duration_ms, parse_reset


def test_the_named_ones() -> None:
    assert parse_reset("earliest") == EARLIEST
    assert parse_reset("Latest") == LATEST
    assert parse_reset("none") == NOWHERE
    assert (EARLIEST.timestamp_at(5), LATEST.timestamp_at(5), NOWHERE.timestamp_at(5)) == (-2, -1, None)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("PT1H", 3_600_000), ("P1DT2H", 93_600_000), ("PT0.5S", 500), ("p7d", 604_800_000), ("PT1M30S", 90_000)],
)
def test_durations_as_java_writes_them(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms
    assert parse_reset(f"by_duration:{text}").timestamp_at(1_000_000_000) == 1_000_000_000 - expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "PT1X", "P1M", "PT1H2", "by_duration:", "-PT1H"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_reset(f"by_duration:{text}")


def test_what_is_no_reset() -> None:
    with pytest.raises(ValueError, match="expected earliest"):
        parse_reset("smallest")
