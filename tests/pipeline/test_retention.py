"""Which days of log tables go, and when a run drops them."""

from ottla.pipeline.retention import Expiry, RetentionKeeper, kept_from_ms, plan_expiry, retention_limits
from ottla.pipeline.settings import Settings
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
    told: list[str] = []
    keeper = RetentionKeeper(store, {"credit_log": 1}, tell=told.append)

    keeper.look(1_000.0, is_last=False)
    keeper.look(1_599.0, is_last=False)
    assert store.days("credit_log") == ["2025-08-31", "2025-09-01"]
    keeper.look(1_600.0, is_last=False)
    assert store.days("credit_log") == ["2025-09-01"]
    assert told == ["credit_log: dropped 1 days before 2025-09-01"]

    store.put("credit_log", {"account_id": "a", "day": "2025-09-02", "event_time": 2, "event_id": "new"})
    keeper.look(1_601.0, is_last=True)
    assert store.days("credit_log") == ["2025-09-02"]
    assert kept_from_ms(store, "credit_log") == 1_756_771_200_000


def test_without_limits_nothing_is_dropped() -> None:
    store = store_with_days("2020-01-01", "2025-09-01")
    RetentionKeeper(store, {}, tell=print).look(1.0, is_last=True)

    assert len(store.days("credit_log")) == 2
    assert kept_from_ms(store, "credit_log") is None


def test_facts_of_logins_keep_no_less_than_the_rules_need() -> None:
    assert retention_limits(Settings()) == {}
    assert retention_limits(Settings({"retention.fact_days": 1})) == {"login_fact": 3}
    assert retention_limits(Settings({"retention.fact_days": 30, "retention.days": 90}))["login_fact"] == 30
