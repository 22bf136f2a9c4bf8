"""Alerts that were dropped for their age: neither sent again nor withdrawn when their subjects are judged anew."""

from ottla.pipeline.detection.clock import ClockState
from ottla.pipeline.detection.device_step import device_step
from ottla.pipeline.detection.facts import DAY_MS, Invite, InviteBatch, Login, Region, Sighting
from ottla.pipeline.detection.in_memory import MemoryStore
from ottla.pipeline.detection.invite_step import invite_step
from ottla.pipeline.detection.outcome import Outcome
from ottla.pipeline.detection.private_numbers import number_hider
from ottla.pipeline.detection.thresholds import default_thresholds
from ottla.pipeline.tables import DEVICE_ALERT, INVITE_ALERT

LIMITS = default_thresholds()
START_MS = 1_756_684_800_000  # midnight of 2025-09-01, UTC
MINUTE_MS = 60_000
hide = number_hider("a key of some length", plain=str)


def invites(day: int) -> list[Invite]:
    """Three with numbers of one box: enough for an alert."""
    return [
        Invite(
            START_MS + day * DAY_MS + number * MINUTE_MS,
            f"i-{day}-{number}",
            "me",
            f"guest-{day}-{number}",
            hide(f"+86139{day:04d}{number:04d}"),
            Region("CN", ""),
        )
        for number in range(3)
    ]


def step(store: MemoryStore, batch: InviteBatch, *, clock_day: int, alerts_from_ms: int = 0) -> Outcome:
    clock = ClockState({"topic": START_MS + clock_day * DAY_MS}, START_MS + clock_day * DAY_MS)
    limits = LIMITS.invite_fraud
    return invite_step(store, batch, limits, before=clock, after=clock, alerts_from_ms=alerts_from_ms)


def test_a_campaign_whose_alert_was_dropped_is_judged_no_more() -> None:
    store = MemoryStore()
    store.apply(INVITE_ALERT, step(store, InviteBatch(invites=[*invites(0), *invites(20)]), clock_day=20))
    old, new = sorted(store.all_rows(INVITE_ALERT), key=lambda row: row["first_event_ms"])
    touch = InviteBatch(sightings=[Sighting("guest-0-0", "their-phone", "", "")])
    from_ms = START_MS + 10 * DAY_MS

    # Noted, and not yet deleted: nothing is withdrawn.
    outcome = step(store, touch, clock_day=21, alerts_from_ms=from_ms)
    assert (outcome.alerts.num_rows, outcome.withdrawn) == (0, [])
    del store.rows[INVITE_ALERT.name][(old["alert_id"],)]
    outcome = step(store, touch, clock_day=21, alerts_from_ms=from_ms)
    assert (outcome.alerts.num_rows, outcome.withdrawn) == (0, [])
    assert step(store, touch, clock_day=21).alerts.column("alert_id").to_pylist() == [old["alert_id"]]

    # The other campaign is judged as ever.
    more = Invite(START_MS + 20 * DAY_MS + 3, "more", "me", "one-more", hide("+8613900200009"), Region("CN", ""))
    outcome = step(store, InviteBatch(invites=[more]), clock_day=21, alerts_from_ms=from_ms)
    assert outcome.alerts.column("alert_id").to_pylist() == [new["alert_id"]]


def test_a_day_whose_alerts_were_dropped_is_judged_no_more() -> None:
    store = MemoryStore()
    limits = LIMITS.device_switching
    logins = [Login(START_MS + number * MINUTE_MS, f"e{number}", "d", f"a{number}") for number in range(3)]
    next_day = [
        login._replace(event_time_ms=login.event_time_ms + 5 * DAY_MS, event_id=f"n-{login.event_id}")
        for login in logins
    ]
    from_ms = START_MS + DAY_MS
    outcome = device_step(store, [*logins, *next_day], limits, detected_ms=1, alerts_from_ms=from_ms)
    (alert,) = outcome.alerts.to_pylist()
    assert alert["window_start_ms"] == next_day[0].event_time_ms
    store.apply(DEVICE_ALERT, outcome)
    late = Login(START_MS + 5 * MINUTE_MS, "late", "d", "a9")
    outcome = device_step(store, [late], limits, detected_ms=1, alerts_from_ms=from_ms)
    assert (outcome.alerts.num_rows, outcome.withdrawn) == (0, [])
