"""Retention of tables by day: which days are old enough to go, and from when on a table is whole.

Days count back from the newest one that a table holds, so that a replay of old traffic keeps what the first run kept.
What was dropped is noted in the store: who proves something by the events must know that some are gone.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.pipeline.detection.facts import DAY_MS
from ottla.pipeline.detection.thresholds import load_thresholds
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.port import Batch, Condition, Store, StoreError
from ottla.pipeline.tables import LOGIN_FACT, PIPELINE_METRIC
from ottla.pipeline.viewing.table_view import arrow_schema, whole

_JOB: Final = "retention"
_KEPT_FROM: Final = "kept_from_ms"
_LOOK_EVERY_S: Final = 600.0


class Expiry(NamedTuple):
    """The days of one table, and those of them that go: all before `before_day`."""

    table: str
    before_day: str
    days: tuple[str, ...]


def retention_limits(settings: Settings) -> dict[str, int]:
    """Table -> how many days it keeps: log tables, and the detectors' facts that verdicts need for a span only."""
    limits = settings.retention_days()
    fact_days = settings.get_int("retention.fact_days")
    if fact_days:
        rules = load_thresholds(settings.get_text("detection.thresholds") or None).device_switching
        span_ms = max(rules.many_accounts_span_ms, rules.ping_pong_span_ms)
        # A verdict of the newest day needs its span, a late event that of the day before.
        limits[LOGIN_FACT.name] = max(fact_days, -(-span_ms // DAY_MS) + 2)
    return limits


def plan_expiry(store: Store, retention_days: Mapping[str, int]) -> list[Expiry]:
    """For each table with a limit, the days that are beyond it; tables without such days are left out."""
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
    """Carry the plan out; how many days were dropped. The note comes first: it may say too much, never too little."""
    dropped = 0
    for table, before_day, _ in plan:
        midnight = datetime.fromisoformat(before_day).replace(tzinfo=UTC)
        row = {
            "job": _JOB,
            "batch": table,
            "name": _KEPT_FROM,
            "value": midnight.timestamp() * 1000,
            "noted_ms": now_ms,
        }
        rows = pa.Table.from_pylist([row], schema=arrow_schema(PIPELINE_METRIC, PIPELINE_METRIC.column_names))
        store.upsert(PIPELINE_METRIC.name, rows, Batch(_JOB, table, now_ms))
        dropped += store.expire(table, before_day=before_day)
    return dropped


class RetentionKeeper:
    """Drops what is beyond the limits while jobs run: now and then, and when they are done. Owned by the runner."""

    def __init__(self, store: Store, retention_days: Mapping[str, int], *, tell: Callable[[str], None]) -> None:
        self._store = store
        self._retention_days = retention_days
        self._tell = tell
        self._looked_at_s: float | None = None

    def look(self, now_s: float, *, is_last: bool) -> None:
        """Cheap unless it is time. A store that can't drop days now is told of, and tried again later."""
        if not self._retention_days:
            return
        if self._looked_at_s is None:
            self._looked_at_s = now_s  # not in the first moments of a run, which have enough to do
        if not is_last and now_s - self._looked_at_s < _LOOK_EVERY_S:
            return
        self._looked_at_s = now_s
        try:
            plan = plan_expiry(self._store, self._retention_days)
            expire(self._store, plan, now_ms=time.time_ns() // 1_000_000)
        except StoreError as error:
            self._tell(f"old days were not dropped: {error}")
            return
        for table, before_day, days in plan:
            self._tell(f"{table}: dropped {len(days)} days before {before_day}")


def kept_from_ms(store: Store, table: str) -> int | None:
    """Events of this table before this time were dropped; None when none were."""
    where = [Condition("job", "=", _JOB), Condition("batch", "=", table), Condition("name", "=", _KEPT_FROM)]
    noted = whole(store, PIPELINE_METRIC, ["value"], where).column("value").to_pylist()
    return int(max(noted)) if noted else None
