"""A batch that fails at any of its writes and is run again leaves what it would have left at once."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla.pipeline.scoring.offline import OfflineDetectors
from ottla.pipeline.stores.port import Batch, StoreError
from ottla.pipeline.tables import DEVICE_ALERT, FACT_TABLES, INVITE_ALERT, Table
from ottla.pipeline.traffic.generator import Settings, generate
from tests.pipeline.detection.store_tables import StoreTables
from tests.pipeline.fake_store import FakeStore

BATCH_EVENTS = 1_500


class FailingStore(FakeStore):
    """Counts its writes, and fails the one of a number."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.fails_at: int | None = None

    def upsert(self, table: str, rows: pa.Table, batch: Batch) -> None:
        self._count()
        super().upsert(table, rows, batch)

    def delete(self, table: str, keys: Iterable[tuple[Any, ...]], batch: Batch) -> None:
        self._count()
        super().delete(table, keys, batch)

    def _count(self) -> None:
        self.writes += 1
        if self.writes == self.fails_at:
            raise StoreError("the disk is full")


def batches() -> Iterator[list[tuple[str, Any]]]:
    events = [(event.topic, event.value) for event in generate(Settings(5, 60, 2)) if isinstance(event.value, dict)]
    # The second half comes before the first: verdicts change with what comes late.
    middle = len(events) // 2
    events = events[middle:] + events[:middle]
    for start in range(0, len(events), BATCH_EVENTS):
        yield events[start : start + BATCH_EVENTS]


def tables_of(store: FakeStore) -> dict[str, Any]:
    return {name: store.rows[name] for name in (*FACT_TABLES, DEVICE_ALERT.name, INVITE_ALERT.name)}


def test_a_batch_that_failed_at_any_write_ends_the_same_when_it_is_run_again() -> None:
    whole = FailingStore()
    detectors = OfflineDetectors(store=StoreTables(whole))
    writes_after = []
    for batch in batches():
        detectors.feed(batch)
        writes_after.append(whole.writes)
    assert whole.rows[INVITE_ALERT.name]
    assert whole.rows[DEVICE_ALERT.name]

    for fails_at in range(1, writes_after[-1] + 1):
        store = FailingStore()
        store.fails_at = fails_at
        detectors = OfflineDetectors(store=StoreTables(store))
        failures = 0
        for batch in batches():
            try:
                detectors.feed(batch)
            except StoreError:
                failures += 1
                detectors.feed(batch)
        assert failures == 1
        assert tables_of(store) == tables_of(whole), f"cut short at write {fails_at}"


@pytest.mark.parametrize("table", [DEVICE_ALERT, INVITE_ALERT])
def test_without_anything_to_say_nothing_is_written(table: Table) -> None:
    store = FailingStore()
    OfflineDetectors(store=StoreTables(store)).feed(())

    assert store.writes == 0
    assert not store.rows[table.name]
