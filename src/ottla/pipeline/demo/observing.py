"""Observes a run from outside: alerts and the ledger in the store, and the lag of each job's group.

Reads only. The jobs write the same store from a process of their own.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc

from ottla.clients.admin import Admin
from ottla.pipeline.detection.alerts import DeviceAlert
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.tables import BALANCE, DEVICE_ALERT, INVITE_ALERT, Table
from ottla.pipeline.viewing.table_view import whole


class SeenAlert(NamedTuple):
    """An alert of the store, with its reasons in one line."""

    alert_id: str
    detector: str
    why: str


class Books(NamedTuple):
    """The sums of all balances."""

    accounts: int
    entries: int
    credits: int


class Observer:
    """Owned by one thread, as soon as the tables exist."""

    def __init__(self, store_dir: Path, admin: Admin) -> None:
        self.store = open_store("embedded", path=store_dir)
        self.alert_count = 0  # at the last look
        self._admin = admin
        self._seen: set[str] = set()

    def close(self) -> None:
        self.store.close()

    def books(self) -> Books:
        rows = whole(self.store, BALANCE, ["balance", "entries"])
        totals = (int(pc.sum(rows.column(name), min_count=0).as_py()) for name in ("entries", "balance"))
        return Books(rows.num_rows, *totals)

    def rows(self, table: Table) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = whole(self.store, table, table.column_names).to_pylist()
        return rows

    def alerts(self) -> list[SeenAlert]:
        """The current ones: late events may have withdrawn some."""
        found = []
        for table, seen_as in ((DEVICE_ALERT, _device_alert), (INVITE_ALERT, _invite_alert)):
            found += [seen_as(row) for row in self.rows(table)]
        return found

    def new_alerts(self) -> list[SeenAlert]:
        """Those that are new since the last call. An alert that has changed is not new."""
        standing = self.alerts()
        self.alert_count = len(standing)
        new = [alert for alert in standing if alert.alert_id not in self._seen]
        self._seen.update(alert.alert_id for alert in new)
        return new

    def lags(self, groups: Iterable[str]) -> dict[str, int | None]:
        """Records behind each group's committed offsets, as of now; None for a group that has committed none."""
        committed = {group: self._admin.list_group_offsets(group) for group in groups}
        partitions = {partition for offsets in committed.values() for partition in offsets}
        ends = self._admin.list_offsets(partitions, Admin.LATEST) if partitions else {}
        return {
            group: sum(ends[each].offset - at.offset for each, at in offsets.items()) if offsets else None
            for group, offsets in committed.items()
        }


def _device_alert(row: Mapping[str, Any]) -> SeenAlert:
    values = {name: row[name] for name in DeviceAlert._fields if name in row}
    alert = DeviceAlert(**{**values, "day": "", "accounts": json.loads(row["accounts"])})
    return SeenAlert(row["alert_id"], "device_switching", alert.why)


def _invite_alert(row: Mapping[str, Any]) -> SeenAlert:
    evidence = "; ".join(f"{each['why']} ({each['weight']:g})" for each in json.loads(row["rules"]).values())
    why = f"inviter {row['inviter_id']} scores {row['score']:.2f}: {evidence}"
    return SeenAlert(row["alert_id"], "invite_fraud", why)
