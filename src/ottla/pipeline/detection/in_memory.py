"""A store of facts and alerts in memory: for measuring quality without Spark, and for tests."""

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
        declared, partitions = _TABLES[table], self.rows[table]
        asked = list(keys)
        if declared.clustering_key and declared.asked_by(asked) == declared.key:
            parted = len(declared.partition_key)
            places = ((partitions.get(key[:parted], {}), key[parted:]) for key in asked)
            return arrow_rows(declared, (rows[key] for rows, key in places if key in rows))
        return arrow_rows(declared, (row for key in asked for row in partitions.get(key, {}).values()))

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
