"""Device switching: the rules at their limits, and honest devices on the other side of them."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.detection.device_step import device_step
from ottla.pipeline.detection.device_switching import day_of, days_touched, device_alerts
from ottla.pipeline.detection.facts import DAY_MS, Login
from ottla.pipeline.detection.in_memory import MemoryStore
from ottla.pipeline.detection.thresholds import default_thresholds
from ottla.pipeline.tables import DEVICE_ALERT
from ottla.pipeline.topics import LOGIN
from ottla.pipeline.traffic.events import Event
from tests.pipeline.traffic.oracle import switching_devices

LIMITS = default_thresholds().device_switching
START_MS = 1_756_656_000_000
HOUR_MS = 3_600_000


def logins(*stays: tuple[float, str], device_id: str = "d") -> list[Login]:
    """Hours after the start, and who."""
    return [
        Login(START_MS + int(hours * HOUR_MS), f"e{number}", device_id, account)
        for number, (hours, account) in enumerate(stays)
    ]


def rules(found: list[Login]) -> set[str]:
    days = {day for login in found for day in days_touched(login.event_time_ms, LIMITS)}
    return {alert.rule for alert in device_alerts(found, days, LIMITS)}


def test_three_accounts_within_a_day_are_an_alert() -> None:
    assert rules(logins((0, "a"), (12, "b"), (23.9, "c"))) == {"many_accounts"}


def test_three_accounts_a_day_and_more_apart_are_none() -> None:
    assert rules(logins((0, "a"), (12, "b"), (24, "c"))) == set()


def test_a_family_that_shares_a_phone_by_turns_is_none() -> None:
    assert rules(logins(*((hour / 2, "ab"[hour % 2]) for hour in range(60)))) == set()


def test_a_phone_that_is_sold_is_none() -> None:
    assert rules(logins((0, "seller"), (5, "seller"), (9, "buyer"), (30, "buyer"))) == set()


def test_four_returns_within_ten_minutes_are_an_alert_and_three_are_not() -> None:
    to_and_fro = [(index / 60, "ab"[index % 2]) for index in range(6)]
    assert rules(logins(*to_and_fro)) == {"ping_pong"}
    assert rules(logins(*to_and_fro[:5])) == set()


def test_logins_of_one_account_in_a_row_are_one_stay() -> None:
    assert rules(logins(*((index / 50, "aabbaabbaabb"[index]) for index in range(12)))) == set()
    assert rules(logins(*((index / 60, "aabbaabbaabb"[index]) for index in range(12)))) == {"ping_pong"}


def test_an_alert_tells_the_accounts_and_the_window_and_keeps_to_its_day() -> None:
    # From eight in the morning, UTC, on: the window of the next day's login reaches back into this one.
    found = logins((16, "a"), (17, "b"), (18, "c"), (19, "a"), (20, "d"))
    days = {day_of(START_MS + 16 * HOUR_MS)}
    (alert,) = device_alerts(found, days, LIMITS)
    assert alert.accounts == ["a", "b", "c", "d"]
    assert (alert.window_start_ms, alert.window_end_ms) == (found[0].event_time_ms, found[4].event_time_ms)
    assert alert.switches == 4
    assert json.loads(alert.row()["accounts"]) == alert.accounts
    assert alert.alert_id == device_alerts(list(reversed(found)), days, LIMITS)[0].alert_id


def test_of_a_busy_day_the_window_with_the_most_accounts_is_told_and_is_no_longer_than_the_rule() -> None:
    # UTC days begin eight and 32 hours after the start.
    found = logins((8, "a"), (9, "b"), (10, "c"), (20, "d"), (31.5, "e"), (32.5, "f"), (33.5, "a"), (34.5, "g"))
    days = {day_of(found[0].event_time_ms), day_of(found[-1].event_time_ms)}
    first, second = device_alerts(found, days, LIMITS)
    assert (first.accounts, first.window_start_ms, first.window_end_ms) == (
        ["a", "b", "c", "d", "e"],
        found[0].event_time_ms,
        found[4].event_time_ms,
    )
    # Each of the next day's windows holds five accounts: the first of them is the alert's, and stays it.
    assert (second.accounts, second.window_start_ms, second.window_end_ms) == (
        ["b", "c", "d", "e", "f"],
        found[1].event_time_ms,
        found[5].event_time_ms,
    )


STAYS = st.lists(st.tuples(st.integers(0, 400), st.sampled_from("abcd"), st.sampled_from("de")), max_size=40)


@settings(deadline=None, max_examples=150)
@given(stays=STAYS)
def test_the_devices_that_are_told_are_those_of_every_window(stays: list[tuple[int, str, str]]) -> None:
    # A login each some minutes, no two at once: the other reading of the rules has no order for those.
    found = [
        Login(
            START_MS + sum(gap for gap, _, _ in stays[: index + 1]) * 7_000 * (1 + index % 30) + index,
            f"e{index}",
            device,
            who,
        )
        for index, (_, who, device) in enumerate(stays)
    ]
    found.sort()
    # A stay is one login here: the other reading does not join them.
    alone = [login for index, login in enumerate(found) if not _follows_itself(found, index)]
    events = [
        Event(
            LOGIN.name,
            "",
            {"device_id": each.device_id, "event_time": each.event_time_ms, "account_id": each.account_id},
            0,
        )
        for each in alone
    ]
    reported: dict[str, set[str]] = {}
    for device_id in {login.device_id for login in alone}:
        of_device = [login for login in alone if login.device_id == device_id]
        if rules(of_device):
            reported[device_id] = rules(of_device)
    assert reported == switching_devices(events)


def _follows_itself(found: list[Login], index: int) -> bool:
    before = [login for login in found[:index] if login.device_id == found[index].device_id]
    return bool(before) and before[-1].account_id == found[index].account_id


@settings(deadline=None, max_examples=150)
@given(stays=STAYS)
def test_a_window_holds_its_evidence_and_no_window_of_its_day_holds_more(stays: list[tuple[int, str, str]]) -> None:
    found = sorted(
        Login(START_MS + minutes * 400_000, f"e{index}", "d", who) for index, (minutes, who, _) in enumerate(stays)
    )
    days = {day for login in found for day in days_touched(login.event_time_ms, LIMITS)}
    spans = {"many_accounts": LIMITS.many_accounts_span_ms, "ping_pong": LIMITS.ping_pong_span_ms}
    for alert in device_alerts(found, days, LIMITS):
        window = [each for each in found if alert.window_start_ms <= each.event_time_ms <= alert.window_end_ms]
        assert alert.window_end_ms - alert.window_start_ms < spans[alert.rule]
        assert day_of(alert.window_end_ms) == alert.day
        assert set(alert.accounts) <= {each.account_id for each in window}
        if alert.rule == "many_accounts":
            assert len(alert.accounts) >= LIMITS.many_accounts
            for end in (each.event_time_ms for each in found if day_of(each.event_time_ms) == alert.day):
                near = (each for each in found if 0 <= end - each.event_time_ms < LIMITS.many_accounts_span_ms)
                assert len({each.account_id for each in near}) <= len(alert.accounts)


@settings(deadline=None, max_examples=80)
@given(stays=STAYS, cut=st.integers(0, 40), order=st.randoms(use_true_random=False))
def test_any_order_and_any_batches_end_in_the_same_rows(
    stays: list[tuple[int, str, str]], cut: int, order: object
) -> None:
    found = [
        Login(START_MS + minutes * 90_000, f"e{index}", device, who)
        for index, (minutes, who, device) in enumerate(stays)
    ]
    shuffled = [*found, *found[:3]]
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    one, many = MemoryStore(), MemoryStore()
    one.apply(DEVICE_ALERT, device_step(one, found, LIMITS, detected_ms=1))
    for batch in (shuffled[:cut], shuffled[cut:], shuffled[:cut]):
        many.apply(DEVICE_ALERT, device_step(many, batch, LIMITS, detected_ms=1))
    assert one.rows == many.rows


def test_an_alert_that_stands_is_not_told_again_and_keeps_when_it_was_detected() -> None:
    store = MemoryStore()
    found = logins((0, "a"), (1, "b"), (2, "c"))
    first = device_step(store, found, LIMITS, detected_ms=5)
    store.apply(DEVICE_ALERT, first)
    assert first.alerts.num_rows == len(first.why) == 1
    assert device_step(store, found, LIMITS, detected_ms=9).alerts.num_rows == 0
    more = device_step(store, logins((0, "a"), (1, "b"), (2, "c"), (3, "d")), LIMITS, detected_ms=9)
    assert more.alerts.column("detected_ms").to_pylist() == [5]


def test_a_late_login_that_parts_the_returns_withdraws_the_alert() -> None:
    store = MemoryStore()
    to_and_fro = logins(*((index / 60, "ab"[index % 2]) for index in range(6)))
    store.apply(DEVICE_ALERT, device_step(store, to_and_fro, LIMITS, detected_ms=1))
    assert len(store.all_rows(DEVICE_ALERT)) == 1
    between = Login(to_and_fro[2].event_time_ms + 1, "late", "d", "a")
    outcome = device_step(store, [between], LIMITS, detected_ms=2)
    assert not outcome.withdrawn  # the same stay
    apart = [
        Login(to_and_fro[2].event_time_ms - 1, "late2", "d", "b2"),
        Login(to_and_fro[3].event_time_ms + 1, "late3", "d", "b3"),
    ]
    store.apply(DEVICE_ALERT, device_step(store, apart, LIMITS, detected_ms=2))
    assert {row["rule"] for row in store.all_rows(DEVICE_ALERT)} == {"many_accounts"}


def test_a_day_is_a_utc_day() -> None:
    assert day_of(0) == "1970-01-01"
    assert day_of(DAY_MS - 1) == "1970-01-01"
    assert day_of(DAY_MS) == "1970-01-02"
