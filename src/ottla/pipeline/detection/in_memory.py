"""A store of facts and alerts in memory, and whole runs over it: for measuring quality without Spark, and for tests."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ottla.pipeline.detection.outcome import Outcome, arrow_rows
from ottla.pipeline.tables import DEVICE_ALERT, FACT_TABLES, INVITE_ALERT, Table

_TABLES = {**FACT_TABLES, DEVICE_ALERT.name: DEVICE_ALERT, INVITE_ALERT.name: INVITE_ALERT}


class MemoryStore:
    """Rows by partition key, then by the rest of their key."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[Any, ...], dict[tuple[Any, ...], tuple[Any, ...]]]] = {
            name: {} for name in _TABLES
        }

    def lookup(self, table: str, keys: Iterable[tuple[Any, ...]]) -> pa.Table:
        partitions = self.rows[table]
        return arrow_rows(_TABLES[table], (row for key in keys for row in partitions.get(key, {}).values()))

    def upsert(self, table: str, rows: pa.Table) -> None:
        declared = _TABLES[table]
        for row in zip(*(rows.column(name).to_pylist() for name in declared.column_names), strict=True):
            partition, key = _keys(declared, row)
            self.rows[table].setdefault(partition, {})[key] = row

    def apply(self, alert_table: Table, outcome: Outcome) -> None:
        """What a job does with an outcome."""
        self.upsert(alert_table.name, outcome.alerts)
        for alert_id, _ in outcome.withdrawn:
            del self.rows[alert_table.name][(alert_id,)]
        for name, rows in outcome.facts.items():
            self.upsert(name, rows)
        self.upsert("detector_clock", outcome.clock)

    def all_rows(self, table: Table) -> list[dict[str, Any]]:
        rows = [row for partition in self.rows[table.name].values() for row in partition.values()]
        return [dict(zip(table.column_names, row, strict=True)) for row in sorted(rows)]


def _keys(table: Table, row: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    by_name = dict(zip(table.column_names, row, strict=True))
    partition = tuple(by_name[name] for name in table.partition_key)
    return partition, tuple(by_name[name] for name in table.clustering_key)
