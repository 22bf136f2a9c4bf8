"""One batch of logins for the device switching detector: the devices and days it touches, and the alerts that follow.

Reads by lookups and writes nothing: the job stores the outcome.
"""

from collections.abc import Collection

from ottla.pipeline.detection.alerts import DEVICE_RULES, DeviceAlert, device_alert_id
from ottla.pipeline.detection.device_switching import day_of, days_needed, days_touched, device_alerts
from ottla.pipeline.detection.fact_reading import Lookup, rows_of
from ottla.pipeline.detection.facts import Login
from ottla.pipeline.detection.outcome import Outcome, alert_changes, arrow_rows
from ottla.pipeline.detection.thresholds import DeviceThresholds
from ottla.pipeline.tables import DETECTOR_CLOCK, DEVICE_ALERT, LOGIN_FACT


def touched_devices(logins: Collection[Login], limits: DeviceThresholds) -> dict[str, set[str]]:
    """Device -> the days whose verdict these logins may change."""
    touched: dict[str, set[str]] = {}
    for login in logins:
        touched.setdefault(login.device_id, set()).update(days_touched(login.event_time_ms, limits))
    return touched


def device_step(
    port: Lookup, logins: Collection[Login], limits: DeviceThresholds, *, detected_ms: int, alerts_from_ms: int = 0
) -> Outcome:
    """`detected_ms`: the largest event time seen, or whatever clock the job keeps.

    `alerts_from_ms`: alerts of earlier days have expired, and those days are not judged again.
    """
    first_day = day_of(alerts_from_ms)
    touched = {
        device_id: {day for day in days if day >= first_day}
        for device_id, days in touched_devices(logins, limits).items()
    }
    keys = {(device_id, day) for device_id, days in touched.items() for day in days_needed(days, limits)}
    known: dict[str, set[Login]] = {}
    for device_id, _, time_ms, event_id, account_id in rows_of(port, LOGIN_FACT, keys):
        known.setdefault(device_id, set()).add(Login(time_ms, event_id, device_id, account_id))
    fresh = sorted(login for login in set(logins) if login not in known.get(login.device_id, ()))
    for login in fresh:
        known.setdefault(login.device_id, set()).add(login)
    found: list[DeviceAlert] = []
    possible: dict[str, str] = {}
    for device_id, days in touched.items():
        if len({login.account_id for login in known[device_id]}) < 2:
            continue  # most devices, by far
        found.extend(device_alerts(known[device_id], days, limits))
        possible.update((device_alert_id(device_id, rule, day), device_id) for rule in DEVICE_RULES for day in days)
    alerts, why, withdrawn = alert_changes(port, DEVICE_ALERT, found, possible, detected_ms=detected_ms)
    rows = [
        (each.device_id, day_of(each.event_time_ms), each.event_time_ms, each.event_id, each.account_id)
        for each in fresh
    ]
    facts = {LOGIN_FACT.name: arrow_rows(LOGIN_FACT, rows)}
    return Outcome(facts, alerts, why, withdrawn, arrow_rows(DETECTOR_CLOCK, ()), len(touched))
