"""Reconciliation on tables in memory: silent where the books are right, and by name where they are not."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.pipeline.ledger.ledger_rules import CREDIT, entry_id, reward_entry_id
from ottla.pipeline.ledger.reconcile import Report, reconcile
from ottla.pipeline.retention import expire, plan_expiry
from ottla.pipeline.stores.port import Batch
from tests.pipeline.fake_store import FakeStore, Row

DAY_MS = 86_400_000
FIRST_MS = 20_000 * DAY_MS
DAY = "2024-10-04"


def credit(number: int, *, account: str = "a", amount: int = 5, day: int = 0) -> Row:
    return {"event_id": f"c{number}", "account_id": account, "credit": amount, "event_time": FIRST_MS + day * DAY_MS}


def step(number: int, *, account: str = "a", task: str = "t", total: int = 2, reward: int = 30, day: int = 0) -> Row:
    row = {"event_id": f"{task}-{account}-{number}", "account_id": account, "task_id": task, "step": number}
    return row | {"steps_total": total, "reward": reward, "event_time": FIRST_MS + day * DAY_MS + number}


def day_of(row: Row) -> str:
    return f"2024-10-{4 + (row['event_time'] - FIRST_MS) // DAY_MS:02d}"


def books(earned: list[Row], steps: list[Row]) -> FakeStore:
    """Tables as the jobs leave them."""
    store = FakeStore()
    store.put("credit_log", *({**row, "day": day_of(row)} for row in earned))
    store.put("task_log", *({**row, "day": day_of(row)} for row in steps))
    entries = [
        {
            "entry_id": entry_id(row["event_id"], CREDIT),
            "account_id": row["account_id"],
            "event_id": row["event_id"],
            "rule": CREDIT,
            "amount": row["credit"],
            "event_time_ms": row["event_time"],
        }
        for row in earned
    ]
    store.post(entries, [{**row, "event_time_ms": row["event_time"]} for row in steps], Batch("income", "r", 1))
    return store


def usual() -> FakeStore:
    earned = [credit(1), credit(2, amount=-2), credit(3, account="b"), credit(4, account="b", day=1)]
    steps = [step(1), step(2), step(1, account="b"), step(1, task="u", total=1, reward=7, account="c")]
    return books(earned, steps)


def entry_of(store: FakeStore, event_id: str) -> Row:
    return next(row for row in store.all("ledger") if row["event_id"] == event_id)


def remove(store: FakeStore, table: str, **values: Any) -> None:
    kept = {key: row for key, row in store.rows[table].items() if any(row[n] != v for n, v in values.items())}
    assert len(kept) < len(store.rows[table])
    store.rows[table] = kept


def test_books_that_are_right_show_no_difference() -> None:
    report = reconcile(usual())

    assert report.is_clean
    assert report.findings == []
    assert report.checked == {"credit_events": 4, "task_events": 4, "entries": 6, "tasks": 3, "balances": 3}
    assert report.totals == {"ledger": 13 + 30 + 7, "balances": 50}


def test_empty_tables_show_no_difference() -> None:
    assert reconcile(FakeStore()).is_clean


def test_a_step_that_comes_twice_or_beyond_the_total_counts_once_or_not_at_all() -> None:
    again = {**step(2), "event_id": "again"}
    assert reconcile(books([], [step(1), step(2), again, step(9)])).is_clean


def lose_an_entry(store: FakeStore) -> None:
    remove(store, "ledger", event_id="c3")
    row = store.rows["balance"][("b",)]
    store.put("balance", {**row, "balance": 5, "entries": 1})


def invent_an_entry(store: FakeStore) -> None:
    row = entry_of(store, "c1")
    store.put("ledger", {**row, "event_id": "x", "entry_id": entry_id("x", CREDIT), "amount": 0})
    store.put("balance", {**store.rows["balance"][("a",)], "entries": 4})


def change_an_amount(store: FakeStore) -> None:
    store.put("ledger", {**entry_of(store, "c1"), "amount": 6})
    store.put("balance", {**store.rows["balance"][("a",)], "balance": 34})


def change_an_entry_id(store: FakeStore) -> None:
    row = entry_of(store, "c1")
    remove(store, "ledger", event_id="c1")
    store.put("ledger", {**row, "entry_id": "f" * 32})


def lose_a_reward(store: FakeStore) -> None:
    remove(store, "ledger", rule="task_reward", account_id="c")
    remove(store, "balance", account_id="c")


def pay_a_task_that_is_not_done(store: FakeStore) -> None:
    entry = reward_entry_id("b", "t")
    store.put("ledger", {**entry_of(store, "c3"), "entry_id": entry, "rule": "task_reward", "amount": 0})
    store.put("balance", {**store.rows["balance"][("b",)], "entries": 3})


def pay_too_much(store: FakeStore) -> None:
    row = next(row for row in store.all("ledger") if row["rule"] == "task_reward" and row["account_id"] == "c")
    store.put("ledger", {**row, "amount": 8})
    store.put("balance", {**store.rows["balance"][("c",)], "balance": 8})


def enter_another_rule(store: FakeStore) -> None:
    store.put("ledger", {**entry_of(store, "c1"), "entry_id": "e", "rule": "gift", "amount": 0})
    store.put("balance", {**store.rows["balance"][("a",)], "entries": 4})


def enter_twice(store: FakeStore) -> None:
    """As a table can whose key has the time in it."""
    row = entry_of(store, "c1")
    store.put("ledger", {**row, "event_time_ms": row["event_time_ms"] + 1})
    store.put("balance", {**store.rows["balance"][("a",)], "balance": 38, "entries": 4})


def collect_on_two_days(store: FakeStore) -> None:
    store.put("credit_log", {**credit(1, day=1), "day": "2024-10-05"})


PLANTED: list[tuple[Callable[[FakeStore], None], str, dict[str, Any]]] = [
    (lose_an_entry, "entry_missing", {"event_id": "c3"}),
    (invent_an_entry, "event_missing", {"event_id": "x"}),
    (change_an_amount, "entry_wrong", {"event_id": "c1"}),
    (change_an_entry_id, "entry_id_wrong", {"entry_id": "f" * 32}),
    (lose_a_reward, "reward_missing", {"account_id": "c", "task_id": "u"}),
    (pay_a_task_that_is_not_done, "reward_not_due", {"account_id": "b", "entry_id": reward_entry_id("b", "t")}),
    (pay_too_much, "reward_wrong", {"entry_id": reward_entry_id("c", "u")}),
    (enter_another_rule, "rule_unknown", {"entry_id": "e"}),
    (enter_twice, "entry_twice", {"entry_id": entry_id("c1", CREDIT)}),
    (collect_on_two_days, "event_collected_twice", {"event_id": "c1"}),
    (lambda s: remove(s, "task_progress", account_id="a"), "task_missing", {"account_id": "a", "task_id": "t"}),
    (
        lambda s: s.put("task_progress", {**s.rows["task_progress"]["b", "t"], "task_id": "z"}),
        "task_surplus",
        {"account_id": "b", "task_id": "z"},
    ),
    (
        lambda s: s.put("task_progress", {**s.rows["task_progress"]["b", "t"], "steps_done": 2}),
        "task_wrong",
        {"account_id": "b", "task_id": "t"},
    ),
    (lambda s: remove(s, "balance", account_id="a"), "balance_missing", {"account_id": "a"}),
    (
        lambda s: s.put("balance", {"account_id": "z", "balance": 1, "entries": 1}),
        "balance_surplus",
        {"account_id": "z"},
    ),
    (
        lambda s: s.put("balance", {**s.rows["balance"][("a",)], "balance": 34}),
        "balance_wrong",
        {"account_id": "a"},
    ),
]


@pytest.mark.parametrize(("plant", "kind", "key"), PLANTED, ids=[kind for _, kind, _ in PLANTED])
def test_a_planted_difference_is_found_and_named(
    plant: Callable[[FakeStore], None], kind: str, key: dict[str, Any]
) -> None:
    store = usual()
    plant(store)

    report = reconcile(store)

    assert report.counts == {kind: 1}
    assert [(finding.kind, finding.key) for finding in report.findings] == [(kind, key)]


def test_a_wrong_balance_is_told_with_what_was_expected() -> None:
    store = usual()
    store.put("balance", {**store.rows["balance"][("a",)], "balance": 34})

    (finding,) = reconcile(store).findings

    assert (finding.seen, finding.expected) == ({"balance": 34}, {"balance": 33})


def expired(report_of: FakeStore, table: str, days: int) -> Report:
    expire(report_of, plan_expiry(report_of, {table: days}), now_ms=1)
    return reconcile(report_of)


def test_entries_of_dropped_days_are_no_difference() -> None:
    store = books([credit(1), credit(2, day=1), credit(3, day=2)], [])

    report = expired(store, "credit_log", 2)

    assert report.is_clean
    assert report.unprovable == 1
    remove(store, "credit_log", event_id="c3")
    assert reconcile(store).counts == {"event_missing": 1}


def test_tasks_with_steps_on_dropped_days_are_no_difference() -> None:
    store = books([], [step(1), step(2, day=2), step(1, account="b", day=2)])

    report = expired(store, "task_log", 1)

    assert report.is_clean
    assert report.unprovable == 1
    store.put("task_progress", {**store.rows["task_progress"]["b", "t"], "steps_done": 0})
    assert reconcile(store).counts == {"task_wrong": 1}
