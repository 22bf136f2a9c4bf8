"""Which devices change hands like tools: a pure function of one device's logins.

A day's verdict needs the logins of that day and of the rule's span before it, and nothing else: an alert for each rule
and UTC day.
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


def days_needed(days: Collection[str], limits: DeviceThresholds) -> set[str]:
    """The days whose logins the verdicts of these days rest on."""
    span_ms = max(limits.many_accounts_span_ms, limits.ping_pong_span_ms)
    needed = set(days)
    for day in days:
        start_ms = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
        needed.update(day_of(start_ms - back_ms) for back_ms in (*range(DAY_MS, span_ms, DAY_MS), span_ms))
    return needed


def days_touched(time_ms: int, limits: DeviceThresholds) -> set[str]:
    """The days whose verdicts a login at this time may change."""
    span_ms = max(limits.many_accounts_span_ms, limits.ping_pong_span_ms)
    return {day_of(time_ms + ahead_ms) for ahead_ms in (0, *range(DAY_MS, span_ms, DAY_MS), span_ms)}


def device_alerts(logins: Iterable[Login], days: Collection[str], limits: DeviceThresholds) -> list[DeviceAlert]:
    """The alerts of one device for these days; `logins` in any order, each any number of times."""
    ordered = sorted(set(logins))
    if len({login.account_id for login in ordered}) < 2:
        return []
    return [*_many_accounts(ordered, days, limits), *_ping_pong(ordered, days, limits)]


def _many_accounts(ordered: Sequence[Login], days: Collection[str], limits: DeviceThresholds) -> list[DeviceAlert]:
    """A window ends with each login. The windows of a day that hold enough accounts make one alert.

    It ends with the login that brought the day's last new account: more logins of the same ones don't change it.
    """
    found: dict[str, tuple[int, int, set[str]]] = {}
    in_window: Counter[str] = Counter()
    first = 0
    was_enough = False
    for index, login in enumerate(ordered):
        in_window[login.account_id] += 1
        while login.event_time_ms - ordered[first].event_time_ms >= limits.many_accounts_span_ms:
            in_window[ordered[first].account_id] -= 1
            if not in_window[ordered[first].account_id]:
                del in_window[ordered[first].account_id]
            first += 1
        is_enough = len(in_window) >= limits.many_accounts
        if is_enough:
            day = day_of(login.event_time_ms)
            start_index, _, known = found.get(day, (first, index, set()))
            # While windows follow each other, only this login can be new: a busy device must not cost its square.
            is_known = login.account_id in known if was_enough and known else in_window.keys() <= known
            if not is_known:
                found[day] = (start_index, index, known | in_window.keys())
        was_enough = is_enough
    return [
        _alert("many_accounts", day, accounts, ordered[start : end + 1], _changes(ordered[start : end + 1]))
        for day, (start, end, accounts) in sorted(found.items())
        if day in days
    ]


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
        (stays[place - 2][1], stays[place][0])
        for place in range(2, len(stays))
        if ordered[stays[place][0]].account_id == ordered[stays[place - 2][0]].account_id
    ]
    found: dict[str, tuple[int, int]] = {}
    for place in range(limits.ping_pong_returns - 1, len(returns)):
        start, end = returns[place - limits.ping_pong_returns + 1][0], returns[place][1]
        if ordered[end].event_time_ms - ordered[start].event_time_ms < limits.ping_pong_span_ms:
            found.setdefault(day_of(ordered[end].event_time_ms), (start, end))
    alerts = []
    for day, (start, end) in sorted(found.items()):
        if day in days:
            window = ordered[start : end + 1]
            alerts.append(_alert("ping_pong", day, {login.account_id for login in window}, window, _changes(window)))
    return alerts


def _changes(window: Sequence[Login]) -> int:
    return sum(before.account_id != after.account_id for before, after in pairwise(window))


def _alert(rule: str, day: str, accounts: set[str], window: Sequence[Login], switches: int) -> DeviceAlert:
    return DeviceAlert(
        window[0].device_id,
        rule,
        day,
        sorted(accounts),
        switches,
        window[0].event_time_ms,
        window[-1].event_time_ms,
    )
