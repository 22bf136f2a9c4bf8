"""What goes from the tables of any store with time, and what stays: deletion and expiry of facts, notes and alerts."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ottla.pipeline.detection.facts import DAY_MS, HOUR_MS
from ottla.pipeline.detection.thresholds import default_thresholds
from ottla.pipeline.retention import expire, kept_from_ms, plan_expiry, trim
from ottla.pipeline.stores.arrow_rows import schema_of
from ottla.pipeline.stores.port import Store
from ottla.pipeline.tables import TABLES
from ottla.pipeline.trimming import TrimRules, plan_trims
from tests.pipeline.stores.rows import MONDAY_MS, batch, rows_in

NOW_MS = MONDAY_MS + 200 * DAY_MS


def put(store: Store, table: str, *rows: dict[str, Any]) -> None:
    store.upsert(table, pa.Table.from_pylist(list(rows), schema=schema_of(TABLES[table])), batch(0))


def trimmed(store: Store, *, note_days: int = 0, alert_days: int = 0) -> dict[str, int]:
    """Table -> how many rows went."""
    rules = TrimRules(note_days, alert_days, default_thresholds())
    plan = plan_trims(store, rules, now_ms=NOW_MS)
    assert trim(store, plan, now_ms=NOW_MS) == sum(len(each.keys) for each in plan)
    assert plan_trims(store, rules, now_ms=NOW_MS) == []
    return {each.table: len(each.keys) for each in plan}


def set_clock(store: Store, now_ms: int) -> None:
    put(store, "detector_clock", {"job": "invite_fraud", "topic": "", "high_ms": now_ms})


def invite_rows(days: Sequence[float], inviter_id: str) -> list[dict[str, Any]]:
    return [
        {
            "inviter_id": inviter_id,
            "event_time_ms": MONDAY_MS + int(day * DAY_MS),
            "event_id": f"{inviter_id}-{day}",
            "invitee_id": f"{inviter_id}-guest-{day}",
        }
        | {"number_block": "", "number_next_block": "", "number_place": 0, "country": "CN", "province": ""}
        for day in days
    ]


class RetentionConformance:
    def test_facts_of_logins_go_by_day_and_the_newest_days_stay(self, store: Store) -> None:
        rows = [
            {
                "device_id": f"device-{number % 3}",
                "day": f"2026-01-{day:02d}",
                "event_time_ms": MONDAY_MS + (day - 1) * DAY_MS + number,
                "event_id": f"e-{day}-{number}",
                "account_id": f"account-{number}",
            }
            for day in range(1, 8)
            for number in range(7)
        ]
        put(store, "login_fact", *rows)
        plan = plan_expiry(store, {"login_fact": 3})
        assert [(each.table, each.before_day, len(each.days)) for each in plan] == [("login_fact", "2026-01-05", 4)]
        assert expire(store, plan, now_ms=NOW_MS) == 4
        kept = {row["event_id"] for row in rows if row["day"] >= "2026-01-05"}
        assert {event_id for (event_id,) in rows_in(store, "login_fact", ["event_id"])} == kept
        assert kept_from_ms(store, "login_fact") == MONDAY_MS + 4 * DAY_MS
        assert plan_expiry(store, {"login_fact": 3}) == []
        # A day that was dropped can be filled again: a fact comes with the batch's time, not with its own.
        put(store, "login_fact", rows[0])
        keys = [(rows[0]["device_id"], rows[0]["day"])]
        assert store.lookup("login_fact", keys).column("event_id").to_pylist() == [rows[0]["event_id"]]

    def test_moments_that_the_clock_has_passed_go(self, store: Store) -> None:
        hour = MONDAY_MS // HOUR_MS
        due = [{"hour": hour + ahead, "inviter_id": name} for ahead in (-30, -1, 0, 5) for name in ("one", "two")]
        put(store, "invite_due", *due)
        assert trimmed(store) == {}
        set_clock(store, MONDAY_MS + HOUR_MS - 1)
        assert trimmed(store) == {"invite_due": 4}
        left = [(hour + ahead, name) for ahead in (0, 5) for name in ("one", "two")]
        assert sorted(rows_in(store, "invite_due", ["hour", "inviter_id"])) == left

    def test_notes_go_by_their_age_and_what_was_dropped_stays_noted(self, store: Store) -> None:
        metric = {"name": "rows_read", "value": 1.0}
        put(
            store,
            "pipeline_metric",
            {"job": "collect", "batch": "run-1", "noted_ms": NOW_MS - 31 * DAY_MS, **metric},
            {"job": "collect", "batch": "run-2", "noted_ms": NOW_MS - 29 * DAY_MS, **metric},
            {"job": "retention", "batch": "credit_log", "name": "kept_from_ms", "value": 5.0, "noted_ms": 1},
        )
        dead = {"topic": "t", "error_class": "future", "events": 2}
        put(
            store,
            "dead_event_count",
            {**dead, "batch": "run-1", "noted_ms": NOW_MS - 31 * DAY_MS},
            {**dead, "batch": "run-2", "noted_ms": NOW_MS},
        )
        late = {"topic": "t", "partition": 0, "event_id": "e", "behind_ms": 1}
        # By event time, back from the newest: traffic of years ago keeps its own.
        put(
            store,
            "late_event",
            {**late, "offset": 1, "event_time_ms": MONDAY_MS},
            {**late, "offset": 2, "event_time_ms": MONDAY_MS + 10 * DAY_MS},
            {**late, "offset": 3, "event_time_ms": MONDAY_MS + 31 * DAY_MS},
        )
        assert trimmed(store) == {}
        assert trimmed(store, note_days=30) == {"pipeline_metric": 1, "dead_event_count": 1, "late_event": 1}
        assert rows_in(store, "pipeline_metric", ["batch"]) == [("*",), ("credit_log",), ("run-2",)]
        assert rows_in(store, "dead_event_count", ["batch", "events"]) == [("run-2", 2)]
        assert rows_in(store, "late_event", ["offset"]) == [(2,), (3,)]
        assert kept_from_ms(store, "credit_log") == 5

    def test_alerts_go_by_event_time_and_that_of_a_campaign_that_goes_on_stays(self, store: Store) -> None:
        devices = [
            {"alert_id": f"d-{day}", "device_id": "d", "rule": "many_accounts", "accounts": "[]", "switches": 1}
            | {"window_start_ms": 0, "window_end_ms": MONDAY_MS + day * DAY_MS + HOUR_MS, "detected_ms": 0}
            for day in (0, 9, 10, 20)
        ]
        put(store, "device_alert", *devices)
        put(store, "invite_fact", *invite_rows([0, 1], "ended"), *invite_rows([0, *range(2, 40, 2)], "goes-on"))
        alerts = [
            {"alert_id": name, "inviter_id": name, "score": 0.8, "rules": "{}", "invitees": "[]"}
            | {"first_event_ms": MONDAY_MS, "detected_ms": 0}
            for name in ("ended", "goes-on", "without-facts")
        ]
        put(store, "invite_alert", *alerts)
        set_clock(store, MONDAY_MS + 40 * DAY_MS)
        assert trimmed(store, alert_days=10) == {"device_alert": 2, "invite_alert": 2}
        assert rows_in(store, "device_alert", ["alert_id"]) == [("d-10",), ("d-20",)]
        assert rows_in(store, "invite_alert", ["alert_id"]) == [("goes-on",)]
        assert kept_from_ms(store, "device_alert") == MONDAY_MS + 10 * DAY_MS
        assert kept_from_ms(store, "invite_alert") == MONDAY_MS + 30 * DAY_MS
        assert len(rows_in(store, "invite_fact", ["event_id"])) == 22

    def test_many_rows_of_one_partition_go_and_others_of_it_stay(self, store: Store) -> None:
        rows = [{"account_id": "a", "device_id": f"d{n}", "fingerprint": "", "network": f"10.0.{n}"} for n in range(60)]
        put(store, "sighting_fact", *rows)
        gone = [tuple(row[name] for name in TABLES["sighting_fact"].key) for row in rows[:50]]
        store.delete("sighting_fact", gone, batch(1))
        left = store.lookup("sighting_fact", [("a",)]).column("device_id").to_pylist()
        assert sorted(left) == sorted(f"d{n}" for n in range(50, 60))
        put(store, "sighting_fact", rows[0])
        assert len(store.lookup("sighting_fact", [("a",)])) == 11
