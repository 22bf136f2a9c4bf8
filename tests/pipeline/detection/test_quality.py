"""The detectors on whole runs: the generator's, and traffic of another author."""

import json
from pathlib import Path

import pytest

from ottla.pipeline.detection.in_memory import MemoryStore
from ottla.pipeline.scoring.offline import OfflineDetectors, detect, measure
from ottla.pipeline.traffic import generator
from ottla.pipeline.traffic.generator import Settings, generate
from ottla.pipeline.traffic.scenarios import Hardness
from tests.pipeline.detection.other_habits import OtherTraffic

HALF_A_DAY_MS = 12 * 3_600_000


@pytest.mark.slow
def test_goals_are_met_at_medium_hardness() -> None:
    score = measure([31], Hardness.MEDIUM, accounts=500, days=4, batch_ms=HALF_A_DAY_MS)
    for line in score.detectors:
        assert line.counts.precision is not None
        assert line.counts.precision >= 0.95
        assert line.counts.recall is not None
        assert line.counts.recall >= 0.90


@pytest.mark.slow
def test_cheats_of_other_habits_are_found_and_honest_users_left_alone() -> None:
    right = wrong = missed = 0
    for seed in (41, 42):
        traffic = OtherTraffic(seed)
        alerts = detect(traffic.events, batch_ms=HALF_A_DAY_MS)
        reported = {row["inviter_id"] for row in alerts.invite_alerts}
        right += len(reported & traffic.cheating_inviters.keys())
        wrong += len(reported - traffic.cheating_inviters.keys())
        missed += len(traffic.cheating_inviters.keys() - reported)
        assert {row["device_id"] for row in alerts.device_alerts} == set(traffic.cheating_devices)
    assert right / (right + wrong) >= 0.95
    assert right / (right + missed) >= 0.90


def test_no_raw_number_is_in_any_fact_or_alert() -> None:
    store = MemoryStore()
    detectors = OfflineDetectors(store=store)
    events = [(event.topic, event.value) for event in generate(Settings(3, 120, 1)) if isinstance(event.value, dict)]
    detectors.feed(events)
    detectors.finish()
    phones = {str(value[name]) for _, value in events for name in ("phone", "invitee_phone") if name in value}
    kept = json.dumps([[repr(row) for row in rows.values()] for rows in store.rows.values()])
    assert phones
    assert not [phone for phone in phones if phone in kept or phone.removeprefix("+86") in kept]


def test_the_generator_knows_nothing_of_the_detectors() -> None:
    folder = Path(generator.__file__).parent
    assert not [path.name for path in folder.glob("*.py") if "pipeline.detection" in path.read_text(encoding="utf-8")]
