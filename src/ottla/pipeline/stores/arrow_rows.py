"""The tables in Arrow: schemas, days, and events to rows. Imports no store."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa

from ottla.pipeline.tables import INTEGER, REAL, TEXT, Table

DAY_MS: Final = 86_400_000
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_ARROW_TYPES: Final = {TEXT: pa.string(), INTEGER: pa.int64(), REAL: pa.float64()}


def schema_of(table: Table, columns: Sequence[str] | None = None) -> pa.Schema:
    """Of all columns, or of these in this order."""
    types = {column.name: _ARROW_TYPES[column.type] for column in table.columns}
    return pa.schema([(name, types[name]) for name in columns or table.column_names])


def in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of the schema, in its order and types; null where a column is missing."""
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            column = rows.column(field.name)
            columns.append(column if column.type == field.type else column.cast(field.type))
        else:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
    return pa.Table.from_arrays(columns, schema=schema)


def rows_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    """As tuples, for a database's driver."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def day_name(day_number: int) -> str:
    """Days since 1970 to `YYYY-MM-DD`."""
    return date.fromordinal(_EPOCH_ORDINAL + day_number).isoformat()


def day_number(day: str) -> int:
    return date.fromisoformat(day).toordinal() - _EPOCH_ORDINAL


def day_of(event_time_ms: int) -> str:
    return datetime.fromtimestamp(event_time_ms / 1000, UTC).date().isoformat()
