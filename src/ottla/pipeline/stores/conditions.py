"""Conditions on rows: checked against a table, and translated for pyarrow and SQL."""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Final

import pyarrow.compute as pc

from ottla.pipeline.stores.port import Condition
from ottla.pipeline.tables import INTEGER, REAL, Table

_OPERATORS: Final = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def checked(table: Table, where: Sequence[Condition]) -> list[Condition]:
    """With values in their column's type."""
    types = {column.name: column.type for column in table.columns}
    conditions = []
    for column, operator_, value in where:
        if column not in types:
            raise ValueError(f"{table.name} has no column {column}; it has {', '.join(types)}")
        if operator_ not in _OPERATORS:
            raise ValueError(f"{column} {operator_} {value}: the operators are {', '.join(_OPERATORS)}")
        conditions.append(Condition(column, operator_, _typed(types[column], value)))
    return conditions


def _typed(type_: str, value: str | int | float) -> str | int | float:
    if type_ not in (INTEGER, REAL):
        return str(value)
    if not isinstance(value, str):
        return value
    return int(value) if type_ == INTEGER else float(value)


def checked_columns(table: Table, columns: Sequence[str] | None) -> list[str]:
    """These columns, or all of them."""
    if columns is None:
        return list(table.column_names)
    unknown = [name for name in columns if name not in table.column_names]
    if unknown:
        raise ValueError(f"{table.name} has no column {unknown[0]}; it has {', '.join(table.column_names)}")
    return list(columns)


def as_expression(where: Sequence[Condition]) -> pc.Expression | None:
    """For pyarrow; a null meets no condition, as in SQL."""
    if not where:
        return None
    parts = [_OPERATORS[operator_](pc.field(column), value) for column, operator_, value in where]
    return reduce(operator.and_, parts)


def holds(value: str, condition: Condition) -> bool:
    return bool(_OPERATORS[condition.operator](value, condition.value))


def as_sql(where: Sequence[Condition]) -> tuple[str, list[str | int | float]]:
    """` WHERE …` with its values, or nothing."""
    if not where:
        return "", []
    parts = " AND ".join(f'"{column}" {operator_} ?' for column, operator_, _ in where)
    return f" WHERE {parts}", [condition.value for condition in where]
