"""Conditions on rows as a user types them: `account_id = u1 and amount > 5` to conditions of a store.

Checks names and types against the table's declaration; reads no rows.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from ottla.pipeline.stores.port import Condition
from ottla.pipeline.tables import INTEGER, REAL, Table

# A quoted value may hold anything, a quote itself doubled; one without quotes goes up to the next `and` or comma.
_CONDITION: Final = re.compile(
    r"""\s*(?P<column>\w+)\s*(?P<operator>!=|<>|<=|>=|==|=|<|>)\s*
        (?:'(?P<quoted>(?:[^']|'')*)'|(?P<plain>.*?))\s*(?P<joint>\band\b|,|$)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_OPERATORS: Final = {"==": "=", "<>": "!="}


class BadCondition(ValueError):
    """The text is not a condition on this table."""


def parse_conditions(table: Table, texts: Iterable[str]) -> list[Condition]:
    """A row must meet all of them."""
    return [condition for text in texts for condition in _conditions(table, text)]


def column_of(table: Table, name: str) -> str:
    """The name, if the table has such a column; else BadCondition."""
    if name not in table.column_names:
        near = get_close_matches(name, table.column_names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(table.column_names)}"
        raise BadCondition(f"{table.name} has no column {name}; {hint}")
    return name


def _conditions(table: Table, text: str) -> Iterable[Condition]:
    types = {column.name: column.type for column in table.columns}
    place = 0
    while True:
        found = _CONDITION.match(text, place)
        if found is None:
            raise BadCondition(
                f"{text[place:].strip()!r} is not a condition; expected COLUMN OPERATOR VALUE with =, !=, <, <=, >, >="
            )
        column = column_of(table, found["column"])
        value = found["plain"] if found["quoted"] is None else found["quoted"].replace("''", "'")
        operator = _OPERATORS.get(found["operator"], found["operator"])
        yield Condition(column, operator, _typed(table, column, types[column], value))
        place = found.end()
        if not found["joint"]:
            return


def _typed(table: Table, column: str, type_: str, value: str) -> str | int | float:
    try:
        if type_ == INTEGER:
            return int(value)
        return float(value) if type_ == REAL else value
    except ValueError:
        raise BadCondition(f"{column} of {table.name} is a number, {value!r} is not") from None
