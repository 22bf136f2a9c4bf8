"""The outcome of a batch's step: rows to store, alerts that are new or changed, and alerts that no longer hold."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.pipeline.detection.alerts import DeviceAlert, InviteAlert
from ottla.pipeline.detection.fact_reading import Lookup, rows_of
from ottla.pipeline.tables import INTEGER, REAL, Table


class Withdrawal(NamedTuple):
    """A stored alert that no longer holds after later events."""

    alert_id: str
    subject: str


class Outcome(NamedTuple):
    """Store `alerts` and `withdrawn` first, then `facts`, then `clock`: a batch that runs again ends the same.

    New facts and the passing clock decide whom a batch judges. If they were stored first, a batch that was cut short
    after them would find nothing new when it runs again.
    """

    facts: Mapping[str, pa.Table]
    alerts: pa.Table
    why: Sequence[str]  # a line for each alert, in the order of `alerts`
    withdrawn: Sequence[Withdrawal]
    clock: pa.Table
    subjects: int  # how many were judged


def arrow_rows(table: Table, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows as tuples in the order of the table's columns."""
    types = {INTEGER: pa.int64(), REAL: pa.float64()}
    schema = pa.schema([(column.name, types.get(column.type, pa.string())) for column in table.columns])
    rows = list(rows)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(table.columns)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def alert_changes(
    port: Lookup,
    table: Table,
    found: Sequence[DeviceAlert | InviteAlert],
    possible_ids: Mapping[str, str],
    *,
    detected_ms: int,
) -> tuple[pa.Table, list[str], list[Withdrawal]]:
    """Compares the alerts that were found with those stored under `possible_ids` (alert id -> subject).

    An unchanged alert is not sent again; one whose evidence has changed keeps the time at which it was detected.
    """
    names = table.column_names
    id_index, detected_index = names.index("alert_id"), names.index("detected_ms")
    stored = {row[id_index]: row for row in rows_of(port, table, ((alert_id,) for alert_id in possible_ids))}
    rows = []
    why = []
    for alert in sorted(found, key=lambda each: each.alert_id):
        before = stored.pop(alert.alert_id, None)
        document = alert.row() | {"detected_ms": detected_ms if before is None else before[detected_index]}
        row = tuple(document[name] for name in names)
        if row != before:
            rows.append(row)
            why.append(alert.why)
    withdrawn = [Withdrawal(alert_id, possible_ids[alert_id]) for alert_id in sorted(stored)]
    return arrow_rows(table, rows), why, withdrawn
