"""The detectors' steps over the real tables end as they do in memory."""

from pathlib import Path

from ottla.pipeline.scoring.offline import OfflineDetectors
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.traffic.generator import Settings, generate
from tests.pipeline.detection.store_tables import StoreTables

BATCH_EVENTS = 4_000


def test_alerts_on_the_embedded_store_are_those_in_memory(tmp_path: Path) -> None:
    events = [(event.topic, event.value) for event in generate(Settings(5, 250, 2)) if isinstance(event.value, dict)]
    store = open_store("embedded", path=tmp_path / "tables", cassandra=None)
    try:
        store.initialise()
        on_store, in_memory = OfflineDetectors(store=StoreTables(store)), OfflineDetectors()
        for start in range(0, len(events), BATCH_EVENTS):
            for detectors in (on_store, in_memory):
                detectors.feed(events[start : start + BATCH_EVENTS])
        stored, remembered = on_store.finish(), in_memory.finish()
    finally:
        store.close()
    assert stored.device_alerts
    assert stored.invite_alerts
    assert stored.device_alerts == sorted(remembered.device_alerts, key=lambda row: row["alert_id"])
    assert stored.invite_alerts == sorted(remembered.invite_alerts, key=lambda row: row["alert_id"])
