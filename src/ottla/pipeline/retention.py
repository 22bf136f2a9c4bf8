"""Retention: which days of tables are old enough to drop, since when a table is complete, and when a run drops what.

Days count back from the newest one in a table, so that a replay of old traffic keeps what the first run kept. The store
notes what was dropped: a proof by the events must know that some are gone. `trimming` drops rows by other rules.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.pipeline.detection.device_switching import day_of
from ottla.pipeline.detection.facts import DAY_MS
from ottla.pipeline.detection.thresholds import load_thresholds
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.port import Batch, Condition, Store, StoreError
from ottla.pipeline.tables import DEVICE_ALERT, INVITE_ALERT, INVITE_DUE, LOGIN_FACT, PIPELINE_METRIC
from ottla.pipeline.trimming import RETENTION_JOB, Trim, TrimRules, plan_trims
from ottla.pipeline.viewing.table_view import arrow_schema, whole

_KEPT_FROM: Final = "kept_from_ms"
_LOOK_EVERY_S: Final = 600.0
_TRIM_EVERY_S: Final = 6 * 3600.0  # it reads whole tables
_TRIMMED: Final = "trimmed_ms"
_ALL_TABLES: Final = "*"
_DELETED_AT_ONCE: Final = 20_000


class Expiry(NamedTuple):
    """The days of one table, and those to drop: all before `before_day`."""

    table: str
    before_day: str
    days: tuple[str, ...]


def retention_limits(settings: Settings) -> dict[str, int]:
    """Table -> days to keep: for log tables, and for facts that verdicts need only for a span."""
    limits = settings.retention_days()
    fact_days = settings.get_int("retention.fact_days")
    if fact_days:
        rules = load_thresholds(settings.get_text("detection.thresholds") or None).device_switching
        span_ms = max(rules.many_accounts_span_ms, rules.ping_pong_span_ms)
        # A verdict of the newest day needs its span, a late event that of the day before.
        limits[LOGIN_FACT.name] = max(fact_days, -(-span_ms // DAY_MS) + 2)
    return limits


def plan_expiry(store: Store, retention_days: Mapping[str, int]) -> list[Expiry]:
    """For each table with a limit, the days beyond it; tables without such days are left out."""
    plan = []
    for name, limit in sorted(retention_days.items()):
        days = store.days(name)
        if not days:
            continue
        before_day = (date.fromisoformat(days[-1]) - timedelta(days=limit - 1)).isoformat()
        old = tuple(day for day in days if day < before_day)
        if old:
            plan.append(Expiry(name, before_day, old))
    return plan


def expire(store: Store, plan: list[Expiry], *, now_ms: int) -> int:
    """Drop the days; returns how many. The note comes first: it may name too many days, never too few."""
    dropped = 0
    for table, before_day, _ in plan:
        midnight = datetime.fromisoformat(before_day).replace(tzinfo=UTC)
        _note(store, table, _KEPT_FROM, int(midnight.timestamp() * 1000), now_ms=now_ms)
        dropped += store.expire(table, before_day=before_day)
    return dropped


def trim(store: Store, plan: Sequence[Trim], *, now_ms: int) -> int:
    """Delete the rows; returns how many. Dropped alerts are noted first, as nobody may send them again.

    The note that it was done comes last.
    """
    for table, before_ms, keys in plan:
        if table in (DEVICE_ALERT.name, INVITE_ALERT.name):
            _note(store, table, _KEPT_FROM, before_ms, now_ms=now_ms)
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            store.delete(table, keys[start : start + _DELETED_AT_ONCE], Batch(RETENTION_JOB, table, now_ms))
    _note(store, _ALL_TABLES, _TRIMMED, now_ms, now_ms=now_ms)
    return sum(len(each.keys) for each in plan)


def _note(store: Store, table: str, name: str, value_ms: int, *, now_ms: int) -> None:
    row = {"job": RETENTION_JOB, "batch": table, "name": name, "value": float(value_ms), "noted_ms": now_ms}
    rows = pa.Table.from_pylist([row], schema=arrow_schema(PIPELINE_METRIC, PIPELINE_METRIC.column_names))
    store.upsert(PIPELINE_METRIC.name, rows, Batch(RETENTION_JOB, table, now_ms))


class RetentionKeeper:
    """Drops rows beyond the limits while jobs run: now and then, and when they are done. Owned by the runner."""

    def __init__(
        self,
        store: Store,
        retention_days: Mapping[str, int],
        trim_rules: TrimRules | None = None,
        *,
        report: Callable[[str], None],
    ) -> None:
        self._store = store
        self._retention_days = retention_days
        self._trim_rules = trim_rules
        self._report = report
        self._looked_at_s: float | None = None
        self._trimmed_at_s: float | None = None

    def look(self, now_s: float, *, is_last: bool) -> None:
        """Cheap unless it is time. Reports a store that can't drop rows now, and tries again later."""
        if self._looked_at_s is None or self._trimmed_at_s is None:
            # Not at the start of a run, which is busy enough.
            self._looked_at_s = self._trimmed_at_s = now_s
        try:
            if is_last or now_s - self._looked_at_s >= _LOOK_EVERY_S:
                self._looked_at_s = now_s
                self._drop_days()
            if is_last or now_s - self._trimmed_at_s >= _TRIM_EVERY_S:
                self._trimmed_at_s = now_s
                self._trim(is_last=is_last)
        except StoreError as error:
            self._report(f"old rows were not dropped: {error}")

    def _drop_days(self) -> None:
        plan = plan_expiry(self._store, self._retention_days)
        expire(self._store, plan, now_ms=time.time_ns() // 1_000_000)
        for table, before_day, days in plan:
            self._report(f"{table}: dropped {len(days)} days before {before_day}")

    def _trim(self, *, is_last: bool) -> None:
        if self._trim_rules is None:
            return
        now_ms = time.time_ns() // 1_000_000
        # Runs that follow each other every few minutes need not do it each time.
        if is_last and now_ms - (_noted(self._store, _ALL_TABLES, _TRIMMED) or 0) < _TRIM_EVERY_S * 1000:
            return
        plan = plan_trims(self._store, self._trim_rules, now_ms=now_ms)
        trim(self._store, plan, now_ms=now_ms)
        for table, before_ms, keys in plan:
            if table != INVITE_DUE.name:  # housekeeping that loses nothing
                self._report(f"{table}: dropped {len(keys):,} rows from before {day_of(before_ms)}")


def kept_from_ms(store: Store, table: str) -> int | None:
    """Rows of this table from before this time were dropped; None if none were."""
    return _noted(store, table, _KEPT_FROM)


def _noted(store: Store, table: str, name: str) -> int | None:
    where = [Condition("job", "=", RETENTION_JOB), Condition("batch", "=", table), Condition("name", "=", name)]
    noted = whole(store, PIPELINE_METRIC, ["value"], where).column("value").to_pylist()
    return int(max(noted)) if noted else None
