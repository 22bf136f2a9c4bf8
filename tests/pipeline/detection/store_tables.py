"""The detectors over a real store, without Spark: outcomes are carried out as the jobs do it."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ottla.pipeline.detection.outcome import Outcome
from ottla.pipeline.jobs.port import JobContext
from ottla.pipeline.jobs.verdicts import Verdicts
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.port import Batch, Store
from ottla.pipeline.tables import DEVICE_ALERT, INVITE_ALERT, Table


class StoreTables:
    """For `OfflineDetectors`. Stores alerts and sends none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batches = 0
        context = JobContext(store, Settings(), "127.0.0.1:1", is_replay=True)
        self._verdicts = {table: Verdicts(context, "either", table) for table in (DEVICE_ALERT, INVITE_ALERT)}

    def lookup(self, table: str, keys: Iterable[tuple[Any, ...]]) -> pa.Table:
        return self._store.lookup(table, keys)

    def apply(self, alert_table: Table, outcome: Outcome) -> None:
        self._batches += 1
        self._verdicts[alert_table].carry_out(outcome, Batch("either", "run", self._batches))

    def all_rows(self, table: Table) -> list[dict[str, Any]]:
        rows = [row for batch in self._store.scan(table.name) for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: row["alert_id"])
