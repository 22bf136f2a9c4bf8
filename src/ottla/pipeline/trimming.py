"""Finds rows of serving tables that nobody needs any more: old notes of the jobs, moments that the detectors' clock has
passed, old alerts. `retention` drops them, and whole days of the other tables.

It never names a fact that a rule may still need (docs/pipeline-stores.md has the rule of every table).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.pipeline.detection.fact_reading import invites_in, rows_of
from ottla.pipeline.detection.facts import DAY_MS, HOUR_MS
from ottla.pipeline.detection.invite_fraud import campaigns
from ottla.pipeline.detection.invite_step import stored_clock
from ottla.pipeline.detection.thresholds import Thresholds, load_thresholds
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.port import Condition, Store
from ottla.pipeline.tables import (
    DEAD_EVENT_COUNT,
    DEVICE_ALERT,
    INVITE_ALERT,
    INVITE_DUE,
    INVITE_FACT,
    LATE_EVENT,
    PIPELINE_METRIC,
    Table,
)

RETENTION_JOB: Final = "retention"  # its notes in PIPELINE_METRIC say what was dropped, and stay


class Trim(NamedTuple):
    """Rows of one table to delete, by their keys: their times are before `before_ms`."""

    table: str
    before_ms: int
    keys: Sequence[tuple[Any, ...]]


class TrimRules(NamedTuple):
    """Days that notes and alerts are kept; 0 keeps all."""

    note_days: int
    alert_days: int
    thresholds: Thresholds

    @classmethod
    def of(cls, settings: Settings) -> "TrimRules":
        thresholds = load_thresholds(settings.get_text("detection.thresholds") or None)
        alert_days = settings.get_int("retention.alert_days")
        if alert_days:
            alert_days = max(alert_days, _days_in_motion(thresholds))
        return cls(settings.get_int("retention.note_days"), alert_days, thresholds)


def _days_in_motion(thresholds: Thresholds) -> int:
    """How long events that come in time may still change an alert: until its campaign or its day is over, and then the
    day of the invitees.
    """
    devices, invites = thresholds.device_switching, thresholds.invite_fraud
    spans_ms = (devices.many_accounts_span_ms + DAY_MS, invites.campaign_gap_ms + invites.idle_span_ms)
    return -(-max(spans_ms) // DAY_MS) + 2


def plan_trims(store: Store, rules: TrimRules, *, now_ms: int) -> list[Trim]:
    """Tables without such rows are left out."""
    plan = [_passed_moments(store)]
    if rules.note_days:
        span_ms = rules.note_days * DAY_MS
        for table in (DEAD_EVENT_COUNT, PIPELINE_METRIC):
            plan.append(_older(store, table, "noted_ms", now_ms - span_ms))
        newest_ms = _newest(store, LATE_EVENT, "event_time_ms")
        plan.append(_older(store, LATE_EVENT, "event_time_ms", newest_ms - span_ms))
    if rules.alert_days:
        span_ms = rules.alert_days * DAY_MS
        # From midnight on, as an alert stands for a day.
        newest_ms = _newest(store, DEVICE_ALERT, "window_end_ms")
        plan.append(_older(store, DEVICE_ALERT, "window_end_ms", (newest_ms - span_ms) // DAY_MS * DAY_MS))
        plan.append(_ended_campaigns(store, rules, stored_clock(store).now_ms - span_ms))
    return [each for each in plan if each.keys]


def _passed_moments(store: Store) -> Trim:
    """Hours before the clock's own are never needed again, not even by a batch that runs again."""
    hour = stored_clock(store).now_ms // HOUR_MS
    keys = _keys(store, INVITE_DUE, [Condition("hour", "<", hour)])
    return Trim(INVITE_DUE.name, hour * HOUR_MS, keys)


def _older(store: Store, table: Table, time_column: str, before_ms: int) -> Trim:
    keys = _keys(store, table, [Condition(time_column, "<", before_ms)]) if before_ms > 0 else []
    if table is PIPELINE_METRIC:
        keys = [key for key in keys if key[0] != RETENTION_JOB]
    return Trim(table.name, before_ms, keys)


def _ended_campaigns(store: Store, rules: TrimRules, before_ms: int) -> Trim:
    """Alerts of campaigns whose last invitation is older: a campaign that goes on keeps its alert, however old."""
    old = [
        (row["alert_id"], row["inviter_id"], row["first_event_ms"])
        for batch in store.scan(
            INVITE_ALERT.name,
            columns=["alert_id", "inviter_id", "first_event_ms"],
            where=[Condition("first_event_ms", "<", before_ms)],
        )
        for row in batch.to_pylist()
    ]
    invites = invites_in(rows_of(store, INVITE_FACT, {(inviter_id,) for _, inviter_id, _ in old}))
    last_ms: Mapping[tuple[str, int], int] = {
        (inviter_id, campaign[0].event_time_ms): campaign[-1].event_time_ms
        for inviter_id, theirs in invites.items()
        for campaign in campaigns(theirs, rules.thresholds.invite_fraud)
    }
    keys = [
        (alert_id,)
        for alert_id, inviter_id, first_ms in old
        if last_ms.get((inviter_id, first_ms), first_ms) < before_ms
    ]
    return Trim(INVITE_ALERT.name, before_ms, keys)


def _newest(store: Store, table: Table, time_column: str) -> int:
    """0 for an empty table."""
    times = (time_ms for batch in store.scan(table.name, columns=[time_column]) for time_ms in batch[0].to_pylist())
    return max(times, default=0)


def _keys(store: Store, table: Table, where: Sequence[Condition]) -> list[tuple[Any, ...]]:
    keys: list[tuple[Any, ...]] = []
    for batch in store.scan(table.name, columns=table.key, where=where):
        keys.extend(zip(*(batch.column(name).to_pylist() for name in table.key), strict=True))
    return keys
