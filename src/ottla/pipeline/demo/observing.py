"""What is to be seen of a run from outside: alerts and the ledger in the store, and how far the groups of jobs are.

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
    """One line why it fell."""

    alert_id: str
    detector: str
    why: str


class Books(NamedTuple):
    """The ledger as its balances tell it."""

    accounts: int
    entries: int
    credits: int


class Observer:
    """Owned by one thread, from the moment that the tables are there."""

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
        """Those that stand now: late events may have taken one back."""
        found = []
        for table, seen_as in ((DEVICE_ALERT, _device_alert), (INVITE_ALERT, _invite_alert)):
            found += [seen_as(row) for row in self.rows(table)]
        return found

    def new_alerts(self) -> list[SeenAlert]:
        """Those that were not there at an earlier call. An alert that changes since is still the same."""
        standing = self.alerts()
        self.alert_count = len(standing)
        new = [alert for alert in standing if alert.alert_id not in self._seen]
        self._seen.update(alert.alert_id for alert in new)
        return new

    def is_worked_off(self, groups: Iterable[str]) -> bool:
        """Whether each group's committed offsets are the ends of its partitions."""
        committed = [self._admin.list_group_offsets(group) for group in groups]
        places = {place for each in committed for place in each}
        ends = self._admin.list_offsets(places, Admin.LATEST) if places else {}
        return all(each and all(ends[place].offset == at.offset for place, at in each.items()) for each in committed)


def _device_alert(row: Mapping[str, Any]) -> SeenAlert:
    values = {name: row[name] for name in DeviceAlert._fields if name in row}
    alert = DeviceAlert(**{**values, "day": "", "accounts": json.loads(row["accounts"])})
    return SeenAlert(row["alert_id"], "device_switching", alert.why)


def _invite_alert(row: Mapping[str, Any]) -> SeenAlert:
    evidence = "; ".join(f"{each['why']}: {each['weight']:g}" for each in json.loads(row["rules"]).values())
    return SeenAlert(row["alert_id"], "invite_fraud", f"inviter {row['inviter_id']}: {row['score']:.2f}, {evidence}")
