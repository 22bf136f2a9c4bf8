"""The cheats that the benchmark of live traffic plants: an alert falls with the last event of each, and not before."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.planted_cheats import KINDS, Cheat
from ottla.pipeline.detection.phone_region import PhoneRegions
from ottla.pipeline.scoring.offline import OfflineDetectors

NOW_MS = 1_756_700_000_000
REGIONS = PhoneRegions()


def subjects(detectors: OfflineDetectors) -> set[str]:
    device_alerts, invite_alerts = detectors.finish()
    return {row["device_id"] for row in device_alerts} | {row["inviter_id"] for row in invite_alerts}


def fed(events: list[tuple[str, dict[str, Any]]]) -> set[str]:
    detectors = OfflineDetectors(regions=REGIONS)
    detectors.feed(events)
    return subjects(detectors)


@pytest.mark.parametrize("plant", KINDS)
def test_the_last_event_of_a_planted_cheat_completes_its_rule(plant: Callable[[int], Cheat]) -> None:
    for number in (0, 7, 1_199):
        cheat = plant(number)
        events = [(event.topic, event.value) for event in cheat.events(NOW_MS) if isinstance(event.value, dict)]

        assert cheat.subject not in fed(events[:-1])
        assert cheat.subject in fed(events)


def test_planted_cheats_have_nothing_in_common() -> None:
    cheats = [KINDS[number % len(KINDS)](number) for number in range(40)]
    opening = [
        (event.topic, event.value)
        for cheat in cheats
        for event in cheat.events(NOW_MS)[:-1]
        if isinstance(event.value, dict)
    ]

    assert fed(opening) == set()
