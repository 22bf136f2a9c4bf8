"""Rows as someone asked for them: conditions as they are typed, an order, a limit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.row_difference import row_difference
from ottla.pipeline.stores.port import Condition
from ottla.pipeline.tables import BALANCE, INVITE_ALERT, LEDGER
from ottla.pipeline.viewing.conditions import BadCondition, parse_conditions
from ottla.pipeline.viewing.table_view import Order, arrow_schema, view
from tests.pipeline.fake_store import FakeStore


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("amount>5", [Condition("amount", ">", 5)]),
        ("amount >= -5 AND rule == credit", [Condition("amount", ">=", -5), Condition("rule", "=", "credit")]),
        ("rule = 'a and b', rule <> 'it''s'", [Condition("rule", "=", "a and b"), Condition("rule", "!=", "it's")]),
        ("account_id=candy", [Condition("account_id", "=", "candy")]),
        ("account_id = ''", [Condition("account_id", "=", "")]),
    ],
)
def test_conditions_are_read_as_they_are_typed(text: str, conditions: list[Condition]) -> None:
    assert parse_conditions(LEDGER, [text]) == conditions


def test_numbers_have_the_type_of_their_column() -> None:
    assert parse_conditions(INVITE_ALERT, ["score >= 0.5"]) == [Condition("score", ">=", 0.5)]


@pytest.mark.parametrize("text", ["", "amount", "amount >", "amount ~ 3", "amount > 3 and", "other = 3"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(BadCondition):
        parse_conditions(LEDGER, [text])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-5, 5), max_size=30), st.integers(1, 8), st.booleans())
def test_a_limit_shows_the_first_rows_of_the_whole_order(numbers: list[int], limit: int, is_descending: bool) -> None:
    store = FakeStore()
    store.put("balance", *({"account_id": f"{n:03d}", "balance": each} for n, each in enumerate(numbers)))

    shown = view(store, BALANCE, columns=["balance"], order=[Order("balance", is_descending)], limit=limit)

    assert shown.rows.column("balance").to_pylist() == sorted(numbers, reverse=is_descending)[:limit]
    assert shown.found == len(numbers)


@settings(deadline=None, max_examples=40)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(0, 2))),
    st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(0, 2))),
)
def test_differences_are_those_of_two_dicts(here: dict[str, int | None], there: dict[str, int | None]) -> None:
    schema = arrow_schema(BALANCE, ["account_id", "balance"])
    tables = [
        schema.empty_table() if not rows else view(_store(rows), BALANCE, columns=["account_id", "balance"]).rows
        for rows in (here, there)
    ]

    found = row_difference(*tables, key=["account_id"])

    assert set(found.missing.column("account_id").to_pylist()) == here.keys() - there.keys()
    assert set(found.surplus.column("account_id").to_pylist()) == there.keys() - here.keys()
    both = here.keys() & there.keys()
    assert set(found.changed.column("account_id").to_pylist()) == {key for key in both if here[key] != there[key]}


def _store(rows: dict[str, int | None]) -> FakeStore:
    store = FakeStore()
    store.put("balance", *({"account_id": key, "balance": value} for key, value in rows.items()))
    return store
