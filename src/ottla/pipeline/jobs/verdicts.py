"""What a detector's job does with the outcome of a batch: it sends the alerts, then stores everything, in an order that
allows it to be repeated.

Delivery to the topic `ml_alert` is at least once: a batch that runs again may send its alerts again, and `alert_id`
with the alert's content shows repeats.
"""

from collections.abc import Iterable
from typing import Final

from ottla import Producer
from ottla.clients.admin import Admin
from ottla.pipeline.detection.alerts import ALERT_TOPIC, alert_message, withdrawal_message
from ottla.pipeline.detection.outcome import Outcome
from ottla.pipeline.jobs.port import JobContext
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.tables import DETECTOR_CLOCK, Table
from ottla.pipeline.topic_creation import create_missing_topics

ALERTS: Final = "alerts"
WITHDRAWN: Final = "withdrawn"
SUBJECTS: Final = "subjects_judged"


class Verdicts:
    """Of one detector. A replay sends no alerts: the first run has sent them."""

    def __init__(self, context: JobContext, detector: str, table: Table) -> None:
        self._store = context.store
        self._detector = detector
        self._table = table
        self._is_replay = context.is_replay
        partitions = context.settings.get_int("detection.alert_partitions")
        self._sink = AlertSink(context.bootstrap, partitions=partitions)

    def carry_out(self, outcome: Outcome, batch: Batch) -> int:
        """How many rows were written. See `Outcome` for the order."""
        if not self._is_replay:
            self._send(outcome)
        if outcome.withdrawn:
            self._store.delete(self._table.name, [(each.alert_id,) for each in outcome.withdrawn], batch)
        ordered = {self._table.name: outcome.alerts, **outcome.facts, DETECTOR_CLOCK.name: outcome.clock}
        rows_by_table = {name: rows for name, rows in ordered.items() if rows.num_rows}
        if rows_by_table:
            self._store.upsert_all(rows_by_table, batch)
        return sum(rows.num_rows for name, rows in rows_by_table.items() if name != DETECTOR_CLOCK.name)

    def _send(self, outcome: Outcome) -> None:
        """Before they are stored: an alert that is stored is not new to the next attempt."""
        rows = outcome.alerts.to_pylist()
        messages = [
            alert_message(self._detector, row | {"why": why}) for row, why in zip(rows, outcome.why, strict=True)
        ]
        messages += [withdrawal_message(self._detector, *each) for each in outcome.withdrawn]
        self._sink.send(messages)


class AlertSink:
    """Writes alerts, and withdrawals of alerts, to their topic, keyed by subject; creates it first. Owned by a job."""

    def __init__(self, bootstrap: str, *, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._is_created = False

    def send(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Key and value of each. Returns when the cluster has them all."""
        waiting = list(messages)
        if not waiting:
            return
        if not self._is_created:
            with Admin(bootstrap_servers=self._bootstrap) as admin:
                create_missing_topics(admin, [ALERT_TOPIC], partitions=self._partitions)
            self._is_created = True
        # Alerts are rare: a connection that is kept for them would be idle for most of its life.
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            sent = [producer.send(ALERT_TOPIC, value, key=subject.encode()) for subject, value in waiting]
            producer.flush()
            for handle in sent:
                handle.result()


def figures_of(outcome: Outcome) -> dict[str, int]:
    """For the metrics."""
    return {ALERTS: outcome.alerts.num_rows, WITHDRAWN: len(outcome.withdrawn), SUBJECTS: outcome.subjects}
