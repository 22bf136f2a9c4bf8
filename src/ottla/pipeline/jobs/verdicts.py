"""What a detector's job does with the outcome of a batch: tell it, and store it, in the order that bears repeating."""

from typing import Final

from ottla.pipeline.detection.alert_office import AlertOffice
from ottla.pipeline.detection.alerts import alert_message, withdrawal_message
from ottla.pipeline.detection.outcome import Outcome
from ottla.pipeline.jobs.port import JobContext
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.tables import DETECTOR_CLOCK, Table

ALERTS: Final = "alerts"
WITHDRAWN: Final = "withdrawn"
SUBJECTS: Final = "subjects_judged"


class Verdicts:
    """Of one detector. A replay tells nothing: what it finds was told when its events first came."""

    def __init__(self, context: JobContext, detector: str, table: Table) -> None:
        self._store = context.store
        self._detector = detector
        self._table = table
        self._tells = context.sends_letters
        partitions = context.settings.get_int("detection.alert_partitions")
        self._office = AlertOffice(context.bootstrap, partitions=partitions)

    def carry_out(self, outcome: Outcome, batch: Batch) -> int:
        """How many rows were written. See `Outcome` for the order."""
        if self._tells:
            self._tell(outcome)
        if outcome.withdrawn:
            self._store.delete(self._table.name, [(each.alert_id,) for each in outcome.withdrawn], batch)
        ordered = {self._table.name: outcome.alerts, **outcome.facts, DETECTOR_CLOCK.name: outcome.clock}
        rows_by_table = {name: rows for name, rows in ordered.items() if rows.num_rows}
        if rows_by_table:
            self._store.upsert_all(rows_by_table, batch)
        return sum(rows.num_rows for name, rows in rows_by_table.items() if name != DETECTOR_CLOCK.name)

    def _tell(self, outcome: Outcome) -> None:
        """Before they are stored: an alert that is stored already is not found to be new again."""
        rows = outcome.alerts.to_pylist()
        messages = [
            alert_message(self._detector, row | {"why": why}) for row, why in zip(rows, outcome.why, strict=True)
        ]
        messages += [withdrawal_message(self._detector, *each) for each in outcome.withdrawn]
        self._office.send(messages)


def figures_of(outcome: Outcome) -> dict[str, int]:
    """For the metrics."""
    return {ALERTS: outcome.alerts.num_rows, WITHDRAWN: len(outcome.withdrawn), SUBJECTS: outcome.subjects}
