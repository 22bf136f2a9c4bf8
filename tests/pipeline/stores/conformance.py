"""What every store has to do, as one suite. Whoever runs it gives the fixture `store`: empty, with its tables made."""

import random

import pyarrow as pa
import pytest

from ottla.pipeline.ledger.ledger_rules import reward_entry_id
from ottla.pipeline.stores.arrow_rows import schema_of
from ottla.pipeline.stores.port import Appended, Condition, Origin, Posted, Store
from ottla.pipeline.tables import LATE_EVENT, TABLES, USER_REGION
from tests.pipeline.stores.rows import (
    CREDITS,
    DAY_MS,
    LOGINS,
    MONDAY,
    MONDAY_MS,
    TASKS,
    TUESDAY,
    batch,
    contents,
    entries,
    entry,
    event,
    events,
    ids_in,
    rows_in,
    step,
    steps,
)


def region(account_id: str, country: str | None, updated_ms: int = 0) -> pa.Table:
    row = {"account_id": account_id, "country": country, "updated_ms": updated_ms}
    return pa.Table.from_pylist([row], schema=schema_of(USER_REGION))


class EventsConformance:
    def test_every_declared_table_is_there_and_empty(self, store: Store) -> None:
        assert set(store.tables()) == set(TABLES)
        assert all(not rows for rows in contents(store).values())

    def test_tables_are_made_again_without_harm(self, store: Store) -> None:
        store.append_arrow(events([event(1)]), batch(0))
        store.initialise()
        assert ids_in(store) == ["event-1"]

    def test_a_batch_without_events_leaves_nothing(self, store: Store) -> None:
        assert store.append_arrow(events([]), batch(0)) == Appended({}, {}, [])

    def test_events_go_to_their_tables_and_days_with_all_fields(self, store: Store) -> None:
        login = event(
            2, topic=LOGINS, phone_hash="h", login_kind="sms", extra='{"a": 1}', event_time=MONDAY_MS + DAY_MS
        )
        appended = store.append_arrow(events([event(1, reason="daily"), login]), batch(0))
        assert appended.written == {"credit_log": 1, "login_log": 1}
        columns = ["day", "event_id", "account_id", "credit", "reason", "task_id", "fingerprint"]
        assert rows_in(store, "credit_log", columns) == [(MONDAY, "event-1", "account-1", 5, "daily", None, None)]
        columns = ["day", "event_id", "device_id", "phone_hash", "login_kind", "extra", "body_hash"]
        assert rows_in(store, "login_log", columns) == [
            (TUESDAY, "event-2", "device-1", "h", "sms", '{"a": 1}', login["body_hash"])
        ]

    def test_an_id_counts_once_in_one_batch(self, store: Store) -> None:
        first = event(1, "a")
        appended = store.append_arrow(events([first, {**first, "offset": 2}, {**first, "offset": 3}]), batch(0))
        assert (appended.written, appended.duplicates) == ({"credit_log": 1}, {"credit_log": 2})
        assert ids_in(store) == ["a"]

    def test_an_id_counts_once_in_other_batches_and_runs(self, store: Store) -> None:
        for number, run in enumerate(["run", "run", "another"]):
            appended = store.append_arrow(events([event(number, "a"), event(9 + number)]), batch(number, run=run))
        assert appended.duplicates == {"credit_log": 1}
        assert appended.conflicts == []
        assert ids_in(store) == ["a", "event-10", "event-11", "event-9"]

    def test_an_id_that_comes_again_after_other_days_counts_once(self, store: Store) -> None:
        store.append_arrow(events([event(1, "a")]), batch(0))
        for day in range(1, 4):
            store.append_arrow(events([event(day + 1, event_time=MONDAY_MS + day * DAY_MS)]), batch(day))
        assert store.append_arrow(events([event(9, "a")]), batch(4)).duplicates == {"credit_log": 1}
        assert len(ids_in(store)) == 4

    def test_one_id_in_two_tables_is_two_events(self, store: Store) -> None:
        appended = store.append_arrow(events([event(1, "a"), event(1, "a", topic=TASKS)]), batch(0))
        assert appended.written == {"credit_log": 1, "task_log": 1}
        assert appended.conflicts == []

    def test_an_id_with_another_body_is_told_by_its_origin_and_not_kept(self, store: Store) -> None:
        store.append_arrow(events([event(1, "a", credit=5)]), batch(0))
        appended = store.append_arrow(events([event(7, "a", credit=6), event(8, "b")]), batch(1))
        assert appended.conflicts == [Origin(CREDITS, 0, 7)]
        assert (appended.written, appended.duplicates) == ({"credit_log": 1}, {"credit_log": 0})
        assert rows_in(store, "credit_log", ["event_id", "credit"]) == [("a", 5), ("b", 5)]

    def test_another_body_of_another_account_and_time_of_the_day_is_a_conflict(self, store: Store) -> None:
        store.append_arrow(events([event(1, "a")]), batch(0))
        other = event(2, "a", account_id="account-2", event_time=MONDAY_MS + 5000)
        assert store.append_arrow(events([other]), batch(1)).conflicts == [Origin(CREDITS, 0, 2)]
        assert rows_in(store, "credit_log", ["account_id"]) == [("account-1",)]

    def test_of_several_bodies_in_a_batch_the_first_by_origin_stays(self, store: Store) -> None:
        bodies = [event(3, "a", credit=3), event(1, "a", credit=1), event(2, "a", credit=2), event(4, "a", credit=1)]
        bodies[3]["body_hash"] = bodies[1]["body_hash"]
        appended = store.append_arrow(events(bodies), batch(0))
        assert appended.conflicts == [Origin(CREDITS, 0, 2), Origin(CREDITS, 0, 3)]
        assert appended.duplicates == {"credit_log": 1}
        assert rows_in(store, "credit_log", ["credit"]) == [(1,)]

    def test_a_batch_that_is_run_again_leaves_and_tells_the_same(self, store: Store) -> None:
        store.append_arrow(events([event(1, "a")]), batch(0))
        rows = events([event(2, "a"), event(3, "b"), event(4, "b", credit=9), event(5, "a", credit=1), event(6, "b")])
        first = store.append_arrow(rows, batch(1))
        held = contents(store)
        assert store.append_arrow(rows, batch(1)) == first
        assert contents(store) == held

    def test_a_batch_that_is_run_again_with_other_events_loses_none(self, store: Store) -> None:
        store.append_arrow(events([event(1), event(2)]), batch(0))
        store.append_arrow(events([event(3)]), batch(1))
        store.append_arrow(events([event(1), event(2), event(3), event(4)]), batch(0))
        store.append_arrow(events([event(5)]), batch(1))
        assert ids_in(store) == [f"event-{number}" for number in range(1, 6)]

    def test_batches_of_another_checkpoint_replace_nothing(self, store: Store) -> None:
        store.append_arrow(events([event(1)]), batch(0, run="old"))
        store.append_arrow(events([event(2)]), batch(0, run="new"))
        assert ids_in(store) == ["event-1", "event-2"]

    def test_rows_do_not_hang_on_order_and_batches(self, store: Store) -> None:
        rows = [event(n, event_time=MONDAY_MS + n % 3 * DAY_MS, account_id=f"account-{n % 7}") for n in range(60)]
        mixed = [*rows, *random.Random(1).sample(rows, 20)]
        random.Random(2).shuffle(mixed)
        for number in range(8):
            store.append_arrow(events(mixed[number * 10 : number * 10 + 10]), batch(number))
        with_other_batches = store.shadow("other")
        with_other_batches.append_arrow(events(rows), batch(0))
        assert list(store.compare(with_other_batches)) == []
        with_other_batches.close()

    def test_a_table_that_nobody_declared_is_named(self, store: Store) -> None:
        with pytest.raises(ValueError, match="no table nonsense"):
            store.scan("nonsense")


class LedgerConformance:
    def test_balances_are_the_fold_of_the_ledger(self, store: Store) -> None:
        rows = [entry("a", "one", 5), entry("b", "one", -2), entry("c", "two", 7, MONDAY_MS + DAY_MS)]
        assert store.post_arrow(entries(*rows), steps(), batch(0)) == Posted(3, 0, 0)
        store.post_arrow(entries(entry("d", "one", 100, MONDAY_MS + 3 * DAY_MS)), steps(), batch(1))
        assert rows_in(store, "balance") == [("one", 103, 3), ("two", 7, 1)]
        assert rows_in(store, "ledger", ["event_id", "rule", "amount"]) == [
            ("a", "credit", 5),
            ("b", "credit", -2),
            ("c", "credit", 7),
            ("d", "credit", 100),
        ]

    def test_an_entry_counts_once_however_far_apart_it_comes(self, store: Store) -> None:
        store.post_arrow(entries(entry("a", "one", 5), entry("a", "one", 5)), steps(), batch(0))
        store.post_arrow(entries(entry("b", "one", 1, MONDAY_MS + 5 * DAY_MS)), steps(), batch(1))
        posted = store.post_arrow(entries(entry("a", "one", 5), entry("c", "one", 1)), steps(), batch(0, run="new"))
        assert posted == Posted(1, 1, 0)
        assert rows_in(store, "balance") == [("one", 7, 3)]

    def test_a_batch_that_is_posted_again_leaves_and_tells_the_same(self, store: Store) -> None:
        store.post_arrow(entries(entry("a", "one", 5)), steps(step(1, 2)), batch(0))
        rows = entries(entry("a", "one", 5), entry("b", "one", 6)), steps(step(2, 2), step(1, 1, task="task-2"))
        first = store.post_arrow(*rows, batch(1))
        held = contents(store)
        assert first == Posted(1, 1, 2)
        assert store.post_arrow(*rows, batch(1)) == first
        assert contents(store) == held

    def test_of_an_entry_with_two_contents_the_first_stays(self, store: Store) -> None:
        store.post_arrow(entries(entry("a", "one", 5), entry("a", "two", 6, MONDAY_MS + 9)), steps(), batch(0))
        store.post_arrow(entries(entry("a", "three", 7)), steps(), batch(1))
        assert rows_in(store, "balance") == [("one", 5, 1)]
        assert rows_in(store, "ledger", ["account_id", "amount"]) == [("one", 5)]

    def test_a_task_pays_once_when_all_its_steps_are_done(self, store: Store) -> None:
        assert store.post_arrow(entries(), steps(step(3, 3), step(1, 3)), batch(0)).tasks_done == 0
        assert rows_in(store, "task_progress") == [("account-1", "task-1", 2, 3, 0, 0)]
        assert store.post_arrow(entries(), steps(step(2, 3), step(1, 3)), batch(1)).tasks_done == 1
        again = step(2, 3, event_id="again", event_time_ms=MONDAY_MS + 5)
        assert store.post_arrow(entries(), steps(again), batch(2)).tasks_done == 0
        assert rows_in(store, "task_progress") == [("account-1", "task-1", 3, 3, 1, 10)]
        paid = (reward_entry_id("account-1", "task-1"), "account-1", "task-1-3", "task_reward", 10, MONDAY_MS + 3)
        assert rows_in(store, "ledger") == [paid]
        assert rows_in(store, "balance") == [("account-1", 10, 1)]

    def test_a_step_that_is_no_step_of_the_task_does_not_count(self, store: Store) -> None:
        store.post_arrow(entries(), steps(step(1, 2), step(5, 2), step(0, 2)), batch(0))
        assert rows_in(store, "task_progress") == [("account-1", "task-1", 1, 2, 0, 0)]

    def test_a_reward_follows_the_set_of_steps_also_after_it_was_paid(self, store: Store) -> None:
        store.post_arrow(entries(entry("a", "account-1", 1)), steps(step(1, 1, reward=10)), batch(0))
        assert rows_in(store, "balance") == [("account-1", 11, 2)]
        earlier = step(1, 1, reward=30, event_id="earlier", event_time_ms=MONDAY_MS - DAY_MS)
        store.post_arrow(entries(), steps(earlier), batch(1))
        assert rows_in(store, "balance") == [("account-1", 31, 2)]
        assert rows_in(store, "ledger", ["event_id", "amount"]) == [("a", 1), ("earlier", 30)]
        store.post_arrow(entries(), steps(step(2, 3, reward=20)), batch(2))
        assert rows_in(store, "balance") == [("account-1", 1, 1)]
        assert rows_in(store, "task_progress") == [("account-1", "task-1", 2, 3, 0, 0)]
        store.post_arrow(entries(), steps(step(3, 3, reward=20)), batch(3))
        assert rows_in(store, "balance") == [("account-1", 31, 2)]

    def test_postings_do_not_hang_on_order_and_batches(self, store: Store) -> None:
        maker = random.Random(3)
        some_steps = [
            step(
                maker.randint(1, 3),
                maker.choice([2, 3, 3]),
                reward=maker.choice([5, 9]),
                task=f"task-{maker.randint(1, 4)}",
                event_id=f"s{number}",
                event_time_ms=MONDAY_MS + maker.randrange(3 * DAY_MS),
            )
            for number in range(30)
        ]
        some_entries = [entry(f"e{n}", f"account-{n % 3}", n, MONDAY_MS + n % 4 * DAY_MS) for n in range(40)]
        for number in range(5):
            parts = [*some_entries[number::5], *maker.sample(some_entries, 3)]
            store.post_arrow(
                entries(*parts), steps(*some_steps[number::5], *maker.sample(some_steps, 3)), batch(number)
            )
        at_once = store.shadow("other")
        at_once.post_arrow(entries(*reversed(some_entries)), steps(*reversed(some_steps)), batch(0))
        assert list(store.compare(at_once)) == []
        at_once.close()


class ReadingConformance:
    def test_rows_are_put_by_key_and_the_newest_batch_wins(self, store: Store) -> None:
        for number, country in enumerate(["CN", "DE"]):
            store.upsert("user_region", region("one", country, number), batch(number))
        store.upsert("user_region", region("two", "FR"), batch(2))
        assert rows_in(store, "user_region", ["account_id", "country", "updated_ms"]) == [
            ("one", "DE", 1),
            ("two", "FR", 0),
        ]

    def test_an_upsert_takes_a_value_back(self, store: Store) -> None:
        store.upsert("user_region", region("one", "CN"), batch(0))
        store.upsert("user_region", region("one", None), batch(1))
        assert rows_in(store, "user_region", ["account_id", "country"]) == [("one", None)]

    def test_names_that_databases_reserve_are_columns_like_others(self, store: Store) -> None:
        row = {"topic": "t", "partition": 3, "offset": 9, "event_id": "a", "event_time_ms": 1, "behind_ms": 2}
        store.upsert("late_event", pa.Table.from_pylist([row], schema=schema_of(LATE_EVENT)), batch(0))
        assert rows_in(store, "late_event", None, Condition("offset", ">=", 9)) == [("t", 3, 9, "a", 1, 2)]

    def test_several_tables_are_upserted_at_once(self, store: Store) -> None:
        late = {"topic": "t", "partition": 0, "offset": 7, "event_id": "e", "event_time_ms": 1, "behind_ms": 2}
        rows = {"late_event": pa.Table.from_pylist([late]), "user_region": region("one", "CN")}
        for number in range(2):
            store.upsert_all(rows, batch(number))
        assert rows_in(store, "user_region", ["account_id", "country"]) == [("one", "CN")]
        assert rows_in(store, "late_event", ["offset", "behind_ms"]) == [(7, 2)]
        with pytest.raises(ValueError, match="credit_log is a log table"):
            store.upsert_all({"user_region": region("two", "FR"), "credit_log": events([event(1)])}, batch(2))

    def test_log_tables_take_no_upserts(self, store: Store) -> None:
        with pytest.raises(ValueError, match="credit_log is a log table"):
            store.upsert("credit_log", events([event(1)]), batch(0))

    def test_conditions_hold_for_all_rows_that_come(self, store: Store) -> None:
        rows = [
            event(n, credit=n, event_time=MONDAY_MS + n % 2 * DAY_MS, reason="x" if n < 3 else None) for n in range(6)
        ]
        store.append_arrow(events(rows), batch(0))
        store.post_arrow(entries(*(entry(f"e{n}", f"account-{n}", n) for n in range(6))), steps(), batch(0))

        def credits_where(*where: Condition) -> list[int]:
            return [credit for (credit,) in rows_in(store, "credit_log", ["credit"], *where)]

        assert credits_where(Condition("day", "=", MONDAY)) == [0, 2, 4]
        assert credits_where(Condition("day", ">", MONDAY), Condition("credit", "<=", 3)) == [1, 3]
        assert credits_where(Condition("credit", "!=", "3"), Condition("credit", ">=", "2")) == [2, 4, 5]
        assert credits_where(Condition("reason", "!=", "y")) == [0, 1, 2]
        assert credits_where(Condition("event_id", "=", "it's")) == []
        assert rows_in(store, "balance", ["balance"], Condition("account_id", "=", "account-4")) == [(4,)]
        assert rows_in(store, "ledger", ["amount"], Condition("amount", "<", 2)) == [(0,), (1,)]
        with pytest.raises(ValueError, match="no column colour"):
            store.scan("balance", where=[Condition("colour", "=", 1)])

    def test_rows_are_looked_up_by_their_partition_keys(self, store: Store) -> None:
        rows = [event(n, account_id=f"account-{n % 3}", event_time=MONDAY_MS + n % 2 * DAY_MS) for n in range(12)]
        store.append_arrow(events(rows), batch(0))
        found = store.lookup("credit_log", [("account-1", MONDAY), ("account-2", TUESDAY), ("none", MONDAY)])
        assert sorted(found.column("event_id").to_pylist()) == ["event-10", "event-11", "event-4", "event-5"]
        store.post_arrow(entries(*(entry(f"e{n}", f"account-{n % 3}", n) for n in range(6))), steps(), batch(0))
        assert sorted(store.lookup("ledger", [("account-1",), ("account-1",)]).column("amount").to_pylist()) == [1, 4]
        assert store.lookup("balance", [("none",)]).num_rows == 0

    def test_rows_of_serving_tables_are_looked_up_by_whole_keys_too(self, store: Store) -> None:
        rows = [
            {"account_id": f"a{n % 2}", "device_id": f"d{n}", "fingerprint": "", "network": "10.0.0"} for n in range(6)
        ]
        store.upsert("sighting_fact", pa.Table.from_pylist(rows), batch(0))
        keys = [
            ("a0", "d2", "", "10.0.0"),
            ("a1", "d5", "", "10.0.0"),
            ("a1", "d5", "", "10.0.1"),
            ("a1", "d2", "", ""),
        ]
        assert sorted(store.lookup("sighting_fact", keys).column("device_id").to_pylist()) == ["d2", "d5"]
        assert store.lookup("sighting_fact", []).num_rows == 0
        with pytest.raises(ValueError, match="sighting_fact is asked by"):
            store.lookup("sighting_fact", [("a0",), ("a1", "d1", "", "10.0.0")])
        with pytest.raises(ValueError, match="sighting_fact is asked by"):
            store.lookup("sighting_fact", [("a0", "d2")])

    def test_highs_are_those_before_an_offset(self, store: Store) -> None:
        topic_partition = ("topic", 0)
        assert store.event_time_high("collect", {topic_partition: 0}) == {}
        store.note_event_time_high("collect", {topic_partition: (10, 500), ("topic", 1): (7, 900)})
        store.note_event_time_high("collect", {topic_partition: (20, 800)})
        assert store.event_time_high("collect", {topic_partition: 10, ("topic", 1): 7}) == {
            topic_partition: 500,
            ("topic", 1): 900,
        }
        assert store.event_time_high("collect", {topic_partition: 20}) == {topic_partition: 800}
        assert store.event_time_high("collect", {topic_partition: 9}) == {}
        assert store.event_time_high("income_and_tasks", {topic_partition: 20}) == {}

    def test_highs_of_a_job_that_begins_anew_are_kept(self, store: Store) -> None:
        topic_partition = ("topic", 0)
        for offset in range(1000, 1050):
            store.note_event_time_high("collect", {topic_partition: (offset, offset)})
        store.note_event_time_high("collect", {topic_partition: (5, 77)})
        assert store.event_time_high("collect", {topic_partition: 5}) == {topic_partition: 77}
        assert store.event_time_high("collect", {topic_partition: 1049}) == {topic_partition: 1049}

    def test_days_before_a_day_are_dropped(self, store: Store) -> None:
        rows = [event(n, event_time=MONDAY_MS + n * DAY_MS) for n in range(4)]
        store.append_arrow(events(rows), batch(0))
        assert store.days("credit_log") == [MONDAY, TUESDAY, "2026-01-03", "2026-01-04"]
        assert store.expire("credit_log", before_day="2026-01-03") == 2
        assert store.expire("credit_log", before_day="2026-01-03") == 0
        assert store.days("credit_log") == ["2026-01-03", "2026-01-04"]
        assert ids_in(store) == ["event-2", "event-3"]

    def test_days_of_login_facts_are_dropped_and_no_others(self, store: Store) -> None:
        days = (MONDAY, TUESDAY, "2026-01-03")
        facts = [
            {"device_id": f"device-{n}", "day": day, "event_time_ms": MONDAY_MS, "event_id": f"e{n}", "account_id": "a"}
            for n, day in enumerate((*days, MONDAY))
        ]
        store.upsert("login_fact", pa.Table.from_pylist(facts), batch(0))
        assert store.days("login_fact") == list(days)
        assert store.expire("login_fact", before_day=TUESDAY) == 1
        assert store.expire("login_fact", before_day=TUESDAY) == 0
        assert store.days("login_fact") == list(days[1:])
        keys = [(f"device-{n}", day) for n, day in enumerate((*days, MONDAY))]
        assert sorted(store.lookup("login_fact", keys).column("event_id").to_pylist()) == ["e1", "e2"]


class DeletionConformance:
    """Rows of serving tables that no longer hold."""

    def test_rows_go_by_their_whole_key_and_can_come_again(self, store: Store) -> None:
        rows = [{"alert_id": name, "inviter_id": "u1", "score": 0.5} for name in ("one", "two", "three")]
        store.upsert("invite_alert", pa.Table.from_pylist(rows), batch(0))
        for _ in range(2):
            store.delete("invite_alert", [("one",), ("three",), ("never there",)], batch(1))
            assert self._alerts(store) == ["two"]
        store.delete("invite_alert", [], batch(2))
        store.upsert("invite_alert", pa.Table.from_pylist(rows[:1]), batch(2))
        assert self._alerts(store) == ["one", "two"]

    def test_of_one_partition_only_the_named_rows_go(self, store: Store) -> None:
        rows = [{"device_id": "d", "account_id": name} for name in ("a", "b")]
        store.upsert("device_account_fact", pa.Table.from_pylist(rows), batch(0))
        store.delete("device_account_fact", [("d", "a")], batch(1))
        assert store.lookup("device_account_fact", [("d",)]).column("account_id").to_pylist() == ["b"]

    def test_rows_of_log_tables_are_not_deleted_so(self, store: Store) -> None:
        with pytest.raises(ValueError, match="log table"):
            store.delete("credit_log", [("a", MONDAY, 1, "e")], batch(0))

    def _alerts(self, store: Store) -> list[str]:
        return sorted(row["alert_id"] for part in store.scan("invite_alert") for row in part.to_pylist())


class ShadowConformance:
    def test_a_shadow_is_apart_and_is_found_again(self, store: Store) -> None:
        store.append_arrow(events([event(1)]), batch(0))
        shadow = store.shadow("replay")
        assert ids_in(shadow) == []
        shadow.append_arrow(events([event(2)]), batch(0))
        shadow.close()
        assert ids_in(store) == ["event-1"]
        again = store.shadow("replay")
        assert ids_in(again) == ["event-2"]
        again.close()

    def test_differences_are_counted_and_named(self, store: Store) -> None:
        shadow = store.shadow("replay")
        store.append_arrow(events([event(1), event(2), event(3, credit=1)]), batch(0))
        other = {**event(3, credit=2), "body_hash": "x"}
        shadow.append_arrow(events([event(2), other, event(4, event_time=MONDAY_MS + DAY_MS)]), batch(0))
        store.post_arrow(entries(entry("a", "one", 5)), steps(), batch(0))
        shadow.post_arrow(entries(entry("a", "one", 6)), steps(), batch(0))
        found = {difference.table: difference for difference in store.compare(shadow)}
        shadow.close()
        assert set(found) == {"credit_log", "ledger", "balance"}
        assert found["credit_log"][1:4] == (1, 1, 1)
        assert {example["event_id"] for example in found["credit_log"].examples} == {"event-1", "event-3", "event-4"}
        assert found["balance"][1:] == (0, 0, 1, [{"account_id": "one"}])

    def test_a_shadow_takes_the_place_of_the_tables(self, store: Store) -> None:
        store.append_arrow(events([event(1)]), batch(0))
        store.post_arrow(entries(entry("a", "one", 5)), steps(), batch(0))
        shadow = store.shadow("replay")
        shadow.append_arrow(events([event(2)]), batch(0))
        shadow.close()
        store.swap("replay")
        assert ids_in(store) == ["event-2"]
        assert rows_in(store, "balance") == []
        before = store.shadow("replay-before")
        assert ids_in(before) == ["event-1"]
        assert rows_in(before, "balance") == [("one", 5, 1)]
        before.close()
        store.append_arrow(events([event(2), event(3)]), batch(1))
        assert ids_in(store) == ["event-2", "event-3"]

    def test_there_must_be_a_shadow_to_swap_in(self, store: Store) -> None:
        with pytest.raises(RuntimeError, match="no shadow nothing"):
            store.swap("nothing")


class StoreConformance(
    EventsConformance, LedgerConformance, ReadingConformance, DeletionConformance, ShadowConformance
):
    """All of it."""
