"""The rows of a table to show: a number of them, in an order, from any store.

Holds at most a few times as many rows as it shows, however large the table is.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.pipeline.stores.port import Condition, Store
from ottla.pipeline.tables import INTEGER, REAL, Table

_ARROW_TYPES: Final = {INTEGER: pa.int64(), REAL: pa.float64()}
_PRUNE_ROWS: Final = 100_000


class Order(NamedTuple):
    column: str
    is_descending: bool = False


class View(NamedTuple):
    """`found` counts the matching rows; `rows` are the first of them, or all."""

    rows: pa.Table
    found: int


def view(
    store: Store,
    table: Table,
    *,
    columns: Sequence[str] = (),
    where: Sequence[Condition] = (),
    order: Sequence[Order] = (),
    limit: int | None = None,
) -> View:
    """Rows sorted by `order`, then by the table's key, so that the same rows always come in the same order."""
    shown = list(columns or table.column_names)
    by = [*order, *(Order(name) for name in table.key if name not in {each.column for each in order})]
    needed = [*shown, *(each.column for each in by if each.column not in shown)]
    schema = arrow_schema(table, needed)
    kept = schema.empty_table()
    waiting: list[pa.RecordBatch] = []
    found = waiting_rows = 0
    for batch in store.scan(table.name, columns=needed, where=where):
        found += batch.num_rows
        waiting_rows += batch.num_rows
        waiting.append(batch)
        if limit is not None and waiting_rows > _PRUNE_ROWS:
            kept = _first(_joined(kept, waiting, schema), by, limit)
            waiting, waiting_rows = [], 0
    return View(_first(_joined(kept, waiting, schema), by, limit).select(shown), found)


def arrow_schema(table: Table, names: Sequence[str]) -> pa.Schema:
    types = {column.name: _ARROW_TYPES.get(column.type, pa.string()) for column in table.columns}
    return pa.schema([(name, types[name]) for name in names])


def whole(store: Store, table: Table, columns: Sequence[str], where: Sequence[Condition] = ()) -> pa.Table:
    """All rows of these columns, in the types that the table declares."""
    schema = arrow_schema(table, columns)
    return _joined(schema.empty_table(), list(store.scan(table.name, columns=columns, where=where)), schema)


def _joined(kept: pa.Table, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    tables = (pa.Table.from_batches([batch]).select(schema.names).cast(schema) for batch in batches)
    return pa.concat_tables([kept, *tables])


def _first(rows: pa.Table, by: Sequence[Order], limit: int | None) -> pa.Table:
    keys = [(each.column, "descending" if each.is_descending else "ascending") for each in by]
    ordered = rows.sort_by(keys)
    return ordered if limit is None else ordered.slice(0, limit)
