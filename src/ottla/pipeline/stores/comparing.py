"""Compares two stores of any kind, table by table: rows that only one of them has, and rows that differ.

Log tables are compared day by day, so only one day of a table has to fit into memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.pipeline.row_difference import row_difference
from ottla.pipeline.stores.arrow_rows import schema_of
from ottla.pipeline.stores.port import Condition, Difference, Store
from ottla.pipeline.tables import LOG_TABLES, TABLES, Table

EXAMPLES_MAX: Final = 20


def compare_stores(here: Store, there: Store) -> Iterator[Difference]:
    for table in TABLES.values():
        # A key that names a batch differs from run to run, so every row would.
        if set(table.key) & set(table.wall_clock):
            continue
        difference = _compare_table(here, there, table)
        if difference.only_here or difference.only_there or difference.changed:
            yield difference


def _compare_table(here: Store, there: Store, table: Table) -> Difference:
    parts: list[list[Condition]] = [[]]
    if table.name in LOG_TABLES:
        days = sorted({*here.days(table.name), *there.days(table.name)})
        parts = [[Condition("day", "=", day)] for day in days]
    only_here = only_there = changed = 0
    examples: list[Mapping[str, Any]] = []
    for where in parts:
        found = row_difference(_rows(here, table, where), _rows(there, table, where), key=table.key)
        only_here += found.missing.num_rows
        only_there += found.surplus.num_rows
        changed += found.changed.num_rows
        for rows in (found.missing, found.surplus, found.changed):
            examples += rows.select(list(table.key)).slice(0, EXAMPLES_MAX - len(examples)).to_pylist()
    return Difference(table.name, only_here, only_there, changed, examples)


def _rows(store: Store, table: Table, where: Sequence[Condition]) -> pa.Table:
    columns = [name for name in table.column_names if name not in table.wall_clock]
    return pa.Table.from_batches(store.scan(table.name, columns=columns, where=where), schema=schema_of(table, columns))
