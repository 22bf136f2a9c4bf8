"""Sees alerts as their readers do: by a consumer on `ml_alert` and lookups in the store; notes when each was seen."""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from bench.planted_cheats import Cheat
from ottla import Consumer
from ottla.clients.errors import ClientError
from ottla.core.types import TopicPartition
from ottla.pipeline.detection.alerts import ALERT_TOPIC
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.stores.port import StoreError
from ottla.pipeline.tables import DEVICE_ALERT, INVITE_ALERT

_POLL_MS: Final = 20


class Sighted(NamedTuple):
    """Of one planted cheat: when its last event was sent, and how long after that its alert and its row were seen."""

    rule: str
    sent_at_s: float
    alert_s: float | None
    row_s: float | None


class AlertWatch:
    """A thread of its own from `start` to `stop`. Times are of the wall clock, as events' are."""

    def __init__(self, bootstrap: str, store_dir: Path, *, partitions: int) -> None:
        self._places = [TopicPartition(ALERT_TOPIC, number) for number in range(partitions)]
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "fetch.max.wait.ms": "100"}
        )
        self._store = open_store("embedded", path=store_dir)
        self._lock = threading.Lock()
        self._completed: dict[str, tuple[Cheat, float]] = {}
        self._alerts: dict[str, tuple[str, float]] = {}  # subject -> alert id, when it was seen
        self._rows: dict[str, float] = {}  # alert id -> when its row was seen
        self._without_row: dict[str, str] = {}  # alert id -> table
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="alert-watch", daemon=True)
        self.failure: ClientError | StoreError | None = None

    def start(self) -> None:
        self._thread.start()

    def complete(self, cheat: Cheat, sent_at_s: float) -> None:
        """From here on its alert may come."""
        with self._lock:
            self._completed[cheat.subject] = (cheat, sent_at_s)

    @property
    def missing(self) -> int:
        """Completed cheats of which alert or row was not seen yet."""
        return sum(each.row_s is None for each in self.sighted())

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._consumer.close()
        self._store.close()

    def sighted(self) -> list[Sighted]:
        """In the order in which they were completed. RuntimeError for an alert that fell before its last event."""
        with self._lock:
            completed = list(self._completed.items())
            alerts, rows = dict(self._alerts), dict(self._rows)
        found = []
        for subject, (cheat, sent_at_s) in completed:
            alert_id, alert_at_s = alerts.get(subject, ("", None))
            row_at_s = rows.get(alert_id)
            if alert_at_s is not None and alert_at_s < sent_at_s:
                raise RuntimeError(f"{cheat.rule} of {subject}: its alert fell before the event that completes it")
            found.append(Sighted(cheat.rule, sent_at_s, _after(alert_at_s, sent_at_s), _after(row_at_s, sent_at_s)))
        return found

    def _watch(self) -> None:
        try:
            self._consumer.assign(self._places)
            while not self._is_stopping.is_set():
                records = self._consumer.poll(_POLL_MS)
                now_s = time.time()
                for record in records:
                    if record.value is not None:
                        self._note(json.loads(record.value), now_s)
                self._look_up()
        except (ClientError, StoreError) as failure:
            self.failure = failure  # for the thread that asks

    def _note(self, alert: Mapping[str, str], now_s: float) -> None:
        subject = alert.get("device_id") or alert.get("inviter_id")
        if subject is None or not subject.startswith("planted-") or subject in self._alerts:
            return
        table = DEVICE_ALERT if "device_id" in alert else INVITE_ALERT
        with self._lock:
            self._alerts[subject] = (alert["alert_id"], now_s)
        self._without_row[alert["alert_id"]] = table.name

    def _look_up(self) -> None:
        """An alert is told before it is stored: rows are looked for from then on."""
        for table in {*self._without_row.values()}:
            wanted = [(alert_id,) for alert_id, name in self._without_row.items() if name == table]
            there = self._store.lookup(table, wanted).column("alert_id").to_pylist()
            now_s = time.time()
            with self._lock:
                self._rows.update(dict.fromkeys(there, now_s))
            for alert_id in there:
                del self._without_row[alert_id]


def _after(moment_s: float | None, sent_at_s: float) -> float | None:
    return None if moment_s is None else moment_s - sent_at_s
