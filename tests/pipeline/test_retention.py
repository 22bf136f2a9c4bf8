"""Which days of log tables go, and when a run drops them."""

from ottla.pipeline.detection.thresholds import default_thresholds
from ottla.pipeline.retention import Expiry, RetentionKeeper, kept_from_ms, plan_expiry, retention_limits
from ottla.pipeline.settings import Settings
from ottla.pipeline.trimming import TrimRules
from tests.pipeline.fake_store import FakeStore


def store_with_days(*days: str) -> FakeStore:
    store = FakeStore()
    store.put("credit_log", *({"account_id": "a", "day": day, "event_time": 1, "event_id": day} for day in days))
    return store


def test_days_count_back_from_the_newest_one_with_gaps_among_them() -> None:
    store = store_with_days("2025-08-27", "2025-08-30", "2025-09-01")

    assert plan_expiry(store, {"credit_log": 3}) == [Expiry("credit_log", "2025-08-30", ("2025-08-27",))]
    assert plan_expiry(store, {"credit_log": 6}) == []
    assert plan_expiry(store, {"task_log": 1}) == []


def test_a_run_drops_days_every_ten_minutes_and_at_its_end() -> None:
    store = store_with_days("2025-08-31", "2025-09-01")
    reported: list[str] = []
    keeper = RetentionKeeper(store, {"credit_log": 1}, report=reported.append)

    keeper.look(1_000.0, is_last=False)
    keeper.look(1_599.0, is_last=False)
    assert store.days("credit_log") == ["2025-08-31", "2025-09-01"]
    keeper.look(1_600.0, is_last=False)
    assert store.days("credit_log") == ["2025-09-01"]
    assert reported == ["credit_log: dropped 1 days before 2025-09-01"]

    store.put("credit_log", {"account_id": "a", "day": "2025-09-02", "event_time": 2, "event_id": "new"})
    keeper.look(1_601.0, is_last=True)
    assert store.days("credit_log") == ["2025-09-02"]
    assert kept_from_ms(store, "credit_log") == 1_756_771_200_000


def test_without_limits_nothing_is_dropped() -> None:
    store = store_with_days("2020-01-01", "2025-09-01")
    RetentionKeeper(store, {}, report=print).look(1.0, is_last=True)

    assert len(store.days("credit_log")) == 2
    assert kept_from_ms(store, "credit_log") is None


def test_rows_are_trimmed_every_six_hours_and_at_the_end_of_a_run_that_is_the_first_in_six_hours() -> None:
    store = FakeStore()
    rules = TrimRules(note_days=1, alert_days=0, thresholds=default_thresholds())
    reported: list[str] = []
    old = {"job": "collect", "batch": "b", "name": "rows_read", "value": 1.0, "noted_ms": 1}

    def jobs() -> set[str]:
        return {row["job"] for row in store.all("pipeline_metric")}

    store.put("pipeline_metric", old)
    RetentionKeeper(store, {}, rules, report=reported.append).look(0.0, is_last=True)
    assert jobs() == {"retention"}
    assert reported[0].startswith("pipeline_metric: dropped 1 rows from before ")

    store.put("pipeline_metric", old)
    keeper = RetentionKeeper(store, {}, rules, report=reported.append)
    keeper.look(0.0, is_last=True)
    keeper.look(6 * 3600.0 - 1, is_last=False)
    assert jobs() == {"collect", "retention"}
    keeper.look(6 * 3600.0, is_last=False)
    assert jobs() == {"retention"}


def test_alerts_keep_no_less_than_they_may_change_in() -> None:
    assert TrimRules.of(Settings()).alert_days == 0
    assert TrimRules.of(Settings({"retention.alert_days": 1})).alert_days == 6
    assert TrimRules.of(Settings({"retention.alert_days": 30})).alert_days == 30


def test_facts_of_logins_keep_no_less_than_the_rules_need() -> None:
    assert retention_limits(Settings()) == {}
    assert retention_limits(Settings({"retention.fact_days": 1})) == {"login_fact": 3}
    assert retention_limits(Settings({"retention.fact_days": 30, "retention.days": 90}))["login_fact"] == 30
