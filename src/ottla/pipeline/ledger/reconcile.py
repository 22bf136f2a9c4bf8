"""Proves the books: balances are the fold of the ledger, and the ledger follows from the collected events.

Reads a store and changes nothing. Counts every difference, and names the first ones of each kind. Jobs with different
lags cause differences: let them catch up with the topics first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.ledger.ledger_rules import CREDIT, TASK_REWARD, entry_id, reward_entry_id
from ottla.pipeline.retention import kept_from_ms
from ottla.pipeline.row_difference import RowDifference, row_difference
from ottla.pipeline.stores.port import Store
from ottla.pipeline.tables import BALANCE, LEDGER, LOG_TABLES, TASK_PROGRESS
from ottla.pipeline.topics import CREDIT as CREDIT_TOPIC
from ottla.pipeline.topics import TASK as TASK_TOPIC
from ottla.pipeline.viewing.table_view import whole

NAMED_OF_A_KIND: Final = 20

# What each kind of difference means, in the order of the report.
KINDS: Final = {
    "entry_missing": "credit events that were collected and have no entry in the ledger",
    "event_missing": "entries of the rule credit without a collected event",
    "entry_wrong": "entries that say something else than their event",
    "event_collected_twice": "event ids that stand on several days of credit_log",
    "entry_id_wrong": "entries whose id is not that of their event and rule",
    "entry_twice": "entry ids that the ledger has more than once",
    "rule_unknown": "entries of no known rule",
    "reward_missing": "tasks that are done and were not paid",
    "reward_not_due": "rewards of no task that is done",
    "reward_wrong": "rewards of another account or amount than is due",
    "task_missing": "tasks with collected steps and no progress",
    "task_surplus": "tasks with progress and no collected step",
    "task_wrong": "tasks whose progress is not that of their collected steps",
    "balance_missing": "accounts with entries and no balance",
    "balance_surplus": "accounts with a balance and no entry",
    "balance_wrong": "balances that are not the sum of their entries",
}

_TASK_KEY: Final = ["account_id", "task_id"]
_ENTRY_KEY: Final = ["event_id"]


class Finding(NamedTuple):
    """One difference: where it is, what is there, and what was expected."""

    kind: str
    table: str
    key: Mapping[str, Any]
    seen: Mapping[str, Any] | None
    expected: Mapping[str, Any] | None


class Report(NamedTuple):
    """`counts` has the kinds that were found; `unprovable` counts entries whose events are no longer kept."""

    checked: Mapping[str, int]
    totals: Mapping[str, int]
    counts: Mapping[str, int]
    findings: Sequence[Finding]
    unprovable: int

    @property
    def is_clean(self) -> bool:
        return not self.counts


class _Findings:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.named: list[Finding] = []
        self.unprovable = 0

    def add(self, kind: str, table: str, rows: pa.Table, key: Sequence[str], *, is_seen: bool) -> None:
        """Rows that only one side has."""
        self._count(kind, rows.num_rows)
        for row in rows.sort_by([(name, "ascending") for name in key]).slice(0, NAMED_OF_A_KIND).to_pylist():
            values = {name: value for name, value in row.items() if name not in key}
            where = {name: row[name] for name in key}
            self.named.append(Finding(kind, table, where, values if is_seen else None, None if is_seen else values))

    def add_changed(self, kind: str, table: str, difference: RowDifference, key: Sequence[str]) -> None:
        self._count(kind, difference.changed.num_rows)
        keys = difference.changed.select(list(key)).slice(0, NAMED_OF_A_KIND).to_pylist()
        for where, (expected, seen) in zip(keys, difference.changed_rows(NAMED_OF_A_KIND), strict=True):
            self.named.append(Finding(kind, table, where, seen, expected))

    def _count(self, kind: str, rows: int) -> None:
        assert kind in KINDS
        if rows:
            self.counts[kind] = self.counts.get(kind, 0) + rows


def reconcile(store: Store) -> Report:
    """Reads everything once, in columns: about 100 bytes of memory for an event of credits or tasks."""
    findings = _Findings()
    ledger = whole(store, LEDGER, LEDGER.column_names)
    _check_ledger(ledger, findings)
    earned = whole(store, LOG_TABLES[CREDIT_TOPIC.table], ["event_id", "account_id", "credit", "event_time"])
    _check_credits(earned, _of_rule(ledger, CREDIT), kept_from_ms(store, CREDIT_TOPIC.table), findings)
    steps = whole(store, LOG_TABLES[TASK_TOPIC.table], [*_TASK_KEY, "step", "steps_total", "reward"])
    progress = whole(store, TASK_PROGRESS, [*_TASK_KEY, "steps_done", "steps_total", "done", "reward_paid"])
    tasks = fold_tasks(steps)
    has_lost_days = kept_from_ms(store, TASK_TOPIC.table) is not None
    _check_rewards(tasks, _of_rule(ledger, TASK_REWARD), findings, has_lost_days=has_lost_days)
    _check_progress(tasks, progress, findings, has_lost_days=has_lost_days)
    balances = whole(store, BALANCE, ["account_id", "balance", "entries"])
    _check_balances(fold_ledger(ledger), balances, findings)
    return Report(
        checked={
            "credit_events": earned.num_rows,
            "task_events": steps.num_rows,
            "entries": ledger.num_rows,
            "tasks": progress.num_rows,
            "balances": balances.num_rows,
        },
        totals={"ledger": _sum(ledger, "amount"), "balances": _sum(balances, "balance")},
        counts={kind: findings.counts[kind] for kind in KINDS if kind in findings.counts},
        findings=sorted(findings.named, key=lambda finding: list(KINDS).index(finding.kind)),
        unprovable=findings.unprovable,
    )


def fold_ledger(ledger: pa.Table) -> pa.Table:
    """account_id, balance, entries."""
    folded = ledger.group_by("account_id").aggregate([("amount", "sum"), ("entry_id", "count")])
    return folded.select(["account_id", "amount_sum", "entry_id_count"]).rename_columns(
        ["account_id", "balance", "entries"]
    )


def fold_tasks(steps: pa.Table) -> pa.Table:
    """account_id, task_id, steps_done, steps_total, done, reward_paid: the union of each task's steps.

    Of events that disagree about the task, the greatest number of steps and the greatest reward count.
    """
    totals = steps.group_by(_TASK_KEY).aggregate([("steps_total", "max"), ("reward", "max")])
    once = steps.select([*_TASK_KEY, "step"]).group_by([*_TASK_KEY, "step"]).aggregate([])
    joined = once.join(totals, keys=_TASK_KEY)
    step = joined.column("step")
    counted = joined.filter(pc.and_(pc.greater_equal(step, 1), pc.less_equal(step, joined.column("steps_total_max"))))
    done = counted.group_by(_TASK_KEY).aggregate([("step", "count")])
    tasks = totals.join(done, keys=_TASK_KEY, join_type="left outer")
    steps_done = pc.fill_null(tasks.column("step_count"), 0)
    is_done = pc.and_(pc.equal(steps_done, tasks.column("steps_total_max")), pc.greater(steps_done, 0))
    columns = {
        "account_id": tasks.column("account_id"),
        "task_id": tasks.column("task_id"),
        "steps_done": steps_done,
        "steps_total": tasks.column("steps_total_max"),
        "done": pc.cast(is_done, pa.int64()),
        "reward_paid": pc.if_else(is_done, tasks.column("reward_max"), 0),
    }
    return pa.table(columns)


def _check_ledger(ledger: pa.Table, findings: _Findings) -> None:
    """Checks entries on their own."""
    repeated = ledger.group_by("entry_id").aggregate([("event_id", "count")])
    repeated = repeated.filter(pc.greater(repeated.column("event_id_count"), 1)).select(["entry_id", "event_id_count"])
    findings.add("entry_twice", LEDGER.name, repeated.rename_columns(["entry_id", "times"]), ["entry_id"], is_seen=True)
    is_known = pc.is_in(ledger.column("rule"), pa.array([CREDIT, TASK_REWARD]))
    findings.add("rule_unknown", LEDGER.name, ledger.filter(pc.invert(is_known)), ["entry_id"], is_seen=True)
    entries = _of_rule(ledger, CREDIT)
    event_ids = entries.column("event_id").to_pylist()
    expected = pa.array([entry_id(event_id or "", CREDIT) for event_id in event_ids], pa.string())
    wrong = entries.filter(pc.not_equal(entries.column("entry_id"), expected))
    findings.add("entry_id_wrong", LEDGER.name, wrong, ["entry_id"], is_seen=True)


def _check_credits(earned: pa.Table, entries: pa.Table, kept_from: int | None, findings: _Findings) -> None:
    expected = earned.rename_columns(["event_id", "account_id", "amount", "event_time_ms"])
    times = expected.group_by("event_id").aggregate([("amount", "count")])
    twice = times.filter(pc.greater(times.column("amount_count"), 1))
    if twice.num_rows:
        named = twice.select(["event_id", "amount_count"]).rename_columns(["event_id", "times"])
        findings.add("event_collected_twice", CREDIT_TOPIC.table, named, _ENTRY_KEY, is_seen=True)
        is_once = pc.invert(pc.is_in(expected.column("event_id"), pc.unique(twice.column("event_id"))))
        expected = expected.filter(is_once)
        entries = entries.filter(pc.invert(pc.is_in(entries.column("event_id"), pc.unique(twice.column("event_id")))))
    difference = row_difference(expected, _once(entries.select(expected.column_names), "event_id"), key=_ENTRY_KEY)
    surplus = difference.surplus
    if kept_from is not None:
        is_older = pc.less(surplus.column("event_time_ms"), kept_from)
        findings.unprovable += pc.sum(is_older, min_count=0).as_py()
        surplus = surplus.filter(pc.invert(is_older))
    findings.add("entry_missing", LEDGER.name, difference.missing, _ENTRY_KEY, is_seen=False)
    findings.add("event_missing", LEDGER.name, surplus, _ENTRY_KEY, is_seen=True)
    findings.add_changed("entry_wrong", LEDGER.name, difference, _ENTRY_KEY)


def _check_rewards(tasks: pa.Table, rewards: pa.Table, findings: _Findings, *, has_lost_days: bool) -> None:
    due = tasks.filter(pc.equal(tasks.column("done"), 1)).select([*_TASK_KEY, "reward_paid"])
    pairs = zip(due.column("account_id").to_pylist(), due.column("task_id").to_pylist(), strict=True)
    ids = pa.array([reward_entry_id(account_id, task_id) for account_id, task_id in pairs], pa.string())
    columns = ["entry_id", "account_id", "amount"]
    expected = pa.table([ids, due.column("account_id"), due.column("reward_paid")], names=columns)
    difference = row_difference(expected, _once(rewards.select(columns), "entry_id"), key=["entry_id"])
    # By task, which says more than a hash.
    task_of = pa.table([ids, due.column("task_id")], names=["entry_id", "task_id"])
    missing = difference.missing.join(task_of, keys=["entry_id"])
    findings.add("reward_missing", LEDGER.name, missing, _TASK_KEY, is_seen=False)
    if has_lost_days:
        findings.unprovable += difference.surplus.num_rows
    else:
        findings.add("reward_not_due", LEDGER.name, difference.surplus, ["account_id", "entry_id"], is_seen=True)
    findings.add_changed("reward_wrong", LEDGER.name, difference, ["entry_id"])


def _check_progress(tasks: pa.Table, progress: pa.Table, findings: _Findings, *, has_lost_days: bool) -> None:
    difference = row_difference(tasks, progress, key=_TASK_KEY)
    findings.add("task_missing", TASK_PROGRESS.name, difference.missing, _TASK_KEY, is_seen=False)
    if has_lost_days:
        # Steps of dropped days can't be counted: a task may be further than the remaining days show.
        changed = difference.changed
        is_behind = pc.less(changed.column("steps_done seen"), changed.column("steps_done"))
        difference = difference._replace(changed=changed.filter(is_behind))
    else:
        findings.add("task_surplus", TASK_PROGRESS.name, difference.surplus, _TASK_KEY, is_seen=True)
    findings.add_changed("task_wrong", TASK_PROGRESS.name, difference, _TASK_KEY)


def _check_balances(expected: pa.Table, balances: pa.Table, findings: _Findings) -> None:
    difference = row_difference(expected, balances, key=["account_id"])
    findings.add("balance_missing", BALANCE.name, difference.missing, ["account_id"], is_seen=False)
    findings.add("balance_surplus", BALANCE.name, difference.surplus, ["account_id"], is_seen=True)
    findings.add_changed("balance_wrong", BALANCE.name, difference, ["account_id"])


def _of_rule(ledger: pa.Table, rule: str) -> pa.Table:
    return ledger.filter(pc.equal(ledger.column("rule"), rule))


def _once(rows: pa.Table, key: str) -> pa.Table:
    """One row of each key: duplicates have been reported already."""
    if len(pc.unique(rows.column(key))) == rows.num_rows:
        return rows
    # `first` needs the order of the rows, which groups in threads don't keep.
    others = [name for name in rows.column_names if name != key]
    once = rows.group_by(key, use_threads=False).aggregate([(name, "first") for name in others])
    return once.select([key, *(f"{name}_first" for name in others)]).rename_columns([key, *others])


def _sum(rows: pa.Table, column: str) -> int:
    return int(pc.sum(rows.column(column), min_count=0).as_py())
