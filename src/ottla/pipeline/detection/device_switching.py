"""Which devices many accounts share for profit: a pure function of one device's logins.

A day's verdict needs only the logins of that day and of the rule's span before it. There is at most one alert for each
rule and UTC day.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from ottla.pipeline.detection.alerts import DeviceAlert
from ottla.pipeline.detection.facts import DAY_MS, Login
from ottla.pipeline.detection.thresholds import DeviceThresholds


def day_of(time_ms: int) -> str:
    """The UTC day."""
    return _day_name(time_ms // DAY_MS)


@lru_cache(maxsize=4_096)
def _day_name(number: int) -> str:
    return datetime.fromtimestamp(number * DAY_MS / 1000, UTC).strftime("%Y-%m-%d")


def days_needed(days: Collection[str], limits: DeviceThresholds) -> frozenset[str]:
    """The days whose logins decide the verdicts of these days."""
    return _days_needed(frozenset(days), max(limits.many_accounts_span_ms, limits.ping_pong_span_ms))


@lru_cache(maxsize=4_096)
def _days_needed(days: frozenset[str], span_ms: int) -> frozenset[str]:
    """Cached: most devices of a batch have the same days."""
    starts_ms = [int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000) for day in days]
    return days | {day_of(start_ms - back_ms) for start_ms in starts_ms for back_ms in _steps_ms(span_ms)}


def days_touched(time_ms: int, limits: DeviceThresholds) -> set[str]:
    """The days whose verdicts a login at this time may change."""
    span_ms = max(limits.many_accounts_span_ms, limits.ping_pong_span_ms)
    return {day_of(time_ms), *(day_of(time_ms + ahead_ms) for ahead_ms in _steps_ms(span_ms))}


@lru_cache(maxsize=16)
def _steps_ms(span_ms: int) -> tuple[int, ...]:
    """Steps small enough to visit each day of the span, its end included."""
    return (*range(DAY_MS, span_ms, DAY_MS), span_ms)


def device_alerts(logins: Iterable[Login], days: Collection[str], limits: DeviceThresholds) -> list[DeviceAlert]:
    """The alerts of one device for these days; `logins` in any order, each any number of times."""
    ordered = sorted(set(logins))
    if len({login.account_id for login in ordered}) < 2:
        return []
    return [*_many_accounts(ordered, days, limits), *_ping_pong(ordered, days, limits)]


def _many_accounts(ordered: Sequence[Login], days: Collection[str], limits: DeviceThresholds) -> list[DeviceAlert]:
    """A window ends with each login and is shorter than the rule's span. The day's window with the most accounts makes
    the alert, the first one if several have as many: more logins of the same accounts don't change it.
    """
    fullest: dict[str, tuple[int, int, int]] = {}  # how many accounts; index of the first and of the last login
    in_window: Counter[str] = Counter()
    first = 0
    for index, login in enumerate(ordered):
        in_window[login.account_id] += 1
        while login.event_time_ms - ordered[first].event_time_ms >= limits.many_accounts_span_ms:
            in_window[ordered[first].account_id] -= 1
            if not in_window[ordered[first].account_id]:
                del in_window[ordered[first].account_id]
            first += 1
        if len(in_window) >= limits.many_accounts:
            day = day_of(login.event_time_ms)
            if day not in fullest or len(in_window) > fullest[day][0]:
                fullest[day] = (len(in_window), first, index)
    windows = [(day, ordered[start : end + 1]) for day, (_, start, end) in sorted(fullest.items()) if day in days]
    return [_alert("many_accounts", day, window) for day, window in windows]


def _ping_pong(ordered: Sequence[Login], days: Collection[str], limits: DeviceThresholds) -> list[DeviceAlert]:
    """A return is A, B, A. Logins of one account in a row count as one stay."""
    stays: list[tuple[int, int]] = []  # index of the first and of the last login
    for index, login in enumerate(ordered):
        if stays and ordered[stays[-1][1]].account_id == login.account_id:
            stays[-1] = (stays[-1][0], index)
        else:
            stays.append((index, index))
    # From the last login before A is left to the first one after the return.
    returns = [
        (stays[index - 2][1], stays[index][0])
        for index in range(2, len(stays))
        if ordered[stays[index][0]].account_id == ordered[stays[index - 2][0]].account_id
    ]
    found: dict[str, tuple[int, int]] = {}
    for index in range(limits.ping_pong_returns - 1, len(returns)):
        start, end = returns[index - limits.ping_pong_returns + 1][0], returns[index][1]
        if ordered[end].event_time_ms - ordered[start].event_time_ms < limits.ping_pong_span_ms:
            found.setdefault(day_of(ordered[end].event_time_ms), (start, end))
    windows = [(day, ordered[start : end + 1]) for day, (start, end) in sorted(found.items()) if day in days]
    return [_alert("ping_pong", day, window) for day, window in windows]


def _alert(rule: str, day: str, window: Sequence[Login]) -> DeviceAlert:
    """The alert names nothing outside its window."""
    return DeviceAlert(
        window[0].device_id,
        rule,
        day,
        sorted({login.account_id for login in window}),
        sum(before.account_id != after.account_id for before, after in pairwise(window)),
        window[0].event_time_ms,
        window[-1].event_time_ms,
    )
