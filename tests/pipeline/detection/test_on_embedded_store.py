"""The detectors' steps over the real tables end as they do in memory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from ottla.pipeline.detection.outcome import Outcome
from ottla.pipeline.scoring.offline import OfflineDetectors
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.stores.port import Batch, Store
from ottla.pipeline.tables import DETECTOR_CLOCK, Table
from ottla.pipeline.traffic.generator import Settings, generate

BATCH_EVENTS = 4_000


class _Tables:
    """What a job does with outcomes, on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batches = 0

    def lookup(self, table: str, keys: Iterable[tuple[Any, ...]]) -> pa.Table:
        return self._store.lookup(table, keys)

    def apply(self, alert_table: Table, outcome: Outcome) -> None:
        self._batches += 1
        batch = Batch("detectors", "run", self._batches)
        for name, rows in outcome.facts.items():
            self._store.upsert(name, rows, batch)
        self._store.upsert(alert_table.name, outcome.alerts, batch)
        assert not outcome.withdrawn  # nothing comes late here
        self._store.upsert(DETECTOR_CLOCK.name, outcome.clock, batch)

    def all_rows(self, table: Table) -> list[dict[str, Any]]:
        rows = [row for batch in self._store.scan(table.name) for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: row["alert_id"])


def test_alerts_on_the_embedded_store_are_those_in_memory(tmp_path: Path) -> None:
    events = [(event.topic, event.value) for event in generate(Settings(5, 250, 2)) if isinstance(event.value, dict)]
    store = open_store("embedded", path=tmp_path / "tables", cassandra=None)
    try:
        store.initialise()
        on_store, in_memory = OfflineDetectors(store=_Tables(store)), OfflineDetectors()
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
