"""Reading tables on Cassandra: whole, by condition, by key."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.pipeline.stores.arrow_rows import schema_of
from ottla.pipeline.stores.cassandra.connecting import Connection
from ottla.pipeline.stores.conditions import as_expression
from ottla.pipeline.stores.port import Condition
from ottla.pipeline.tables import Table

_FETCHED_ROWS: Final = 5000


def scan(
    connection: Connection, keyspace: str, table: Table, *, columns: Sequence[str], where: Sequence[Condition]
) -> Iterator[pa.RecordBatch]:
    """Filters here what the server can't filter: it has no !=, and no ranges of partition keys."""
    read = [*columns, *(condition.column for condition in where if condition.column not in columns)]
    read = list(dict.fromkeys(read))
    asked = [each for each in where if each.operator == "=" or _is_range_of_value(table, each)]
    statement = f"SELECT {_list(read)} FROM {keyspace}.{table.name}"
    if asked:
        conditions = " AND ".join(f'"{each.column}" {each.operator} ?' for each in asked)
        statement += f" WHERE {conditions} ALLOW FILTERING"
    schema = schema_of(table, read)
    expression = as_expression(where)
    for page in connection.read(statement, [each.value for each in asked], fetched_rows=_FETCHED_ROWS):
        rows = _rows(page, schema)
        if expression is not None:
            rows = rows.filter(expression)
        yield from (batch for batch in rows.select(list(columns)).to_batches() if batch.num_rows)


def lookup(connection: Connection, keyspace: str, table: Table, keys: Iterable[tuple[Any, ...]]) -> pa.Table:
    asked = list(dict.fromkeys(keys))
    conditions = " AND ".join(f'"{name}" = ?' for name in table.asked_by(asked))
    statement = f"SELECT {_list(table.column_names)} FROM {keyspace}.{table.name} WHERE {conditions}"
    found = connection.read_all(statement, asked)
    return _rows([row for rows in found for row in rows], schema_of(table))


def days_of(connection: Connection, keyspace: str, table: Table) -> list[tuple[str, str]]:
    """Subject and day of every partition of a log table."""
    statement = f"SELECT DISTINCT {_list(table.partition_key)} FROM {keyspace}.{table.name}"
    pages = connection.read(statement, fetched_rows=_FETCHED_ROWS)
    return [(subject, day) for page in pages for subject, day in page]


def _is_range_of_value(table: Table, condition: Condition) -> bool:
    return condition.operator != "!=" and condition.column not in table.key


def _rows(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    if not rows:
        return schema.empty_table()
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
