"""What is dropped between batches as early as it may be changes no verdict on events that come in time."""

from itertools import groupby
from pathlib import Path

from ottla.pipeline.retention import expire, plan_expiry, retention_limits, trim
from ottla.pipeline.scoring.offline import OfflineAlerts, OfflineDetectors
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.traffic.generator import Settings as TrafficSettings
from ottla.pipeline.traffic.generator import generate
from ottla.pipeline.trimming import TrimRules, plan_trims
from tests.pipeline.detection.store_tables import StoreTables

BATCH_MS = 9 * 3_600_000
# The least of everything: rules keep what they need all the same.
TIGHT = Settings({"retention.fact_days": 1, "retention.alert_days": 1, "retention.note_days": 1})


def alerts_of(folder: Path, settings: Settings) -> tuple[OfflineAlerts, set[str]]:
    """The alerts of some days of traffic, and the tables of which something went meanwhile."""
    store = EmbeddedStore(folder)
    store.initialise()
    detectors = OfflineDetectors(store=StoreTables(store))
    gone: set[str] = set()
    events = [
        (event.topic, event.value) for event in generate(TrafficSettings(5, 150, 6)) if isinstance(event.value, dict)
    ]
    for _, batch in groupby(events, key=lambda event: int(str(event[1]["event_time"])) // BATCH_MS):
        detectors.feed(batch)
        days, rows = plan_expiry(store, retention_limits(settings)), plan_trims(store, TrimRules.of(settings), now_ms=1)
        expire(store, days, now_ms=1)
        trim(store, rows, now_ms=1)
        gone |= {each.table for each in (*days, *rows)}
    alerts = detectors.finish()
    store.close()
    return alerts, gone


def test_verdicts_are_the_same_whatever_was_dropped_on_the_way(tmp_path: Path) -> None:
    kept, gone = alerts_of(tmp_path / "kept", Settings({"retention.note_days": 0}))
    assert gone == {"invite_due"}
    assert kept.device_alerts
    assert kept.invite_alerts

    trimmed, gone = alerts_of(tmp_path / "trimmed", TIGHT)

    assert gone == {"login_fact", "invite_due"}
    assert trimmed == kept
