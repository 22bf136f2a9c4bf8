"""Explains a verdict: an alert's evidence in words, and the time line of the facts behind it.

Reads the tables of any store and judges nothing again. The tables have no phone numbers: where they matter, it shows
their regions.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ottla.pipeline.detection.fact_reading import rows_of
from ottla.pipeline.stores.port import Condition, Store
from ottla.pipeline.tables import (
    DEVICE_ALERT,
    INVITE_ALERT,
    INVITE_FACT,
    INVITED_BY_FACT,
    LIFE_FACT,
    LOGIN_FACT,
    SIGHTING_FACT,
    USER_REGION,
    Table,
)


class Moment(NamedTuple):
    time_ms: int
    what: str


class Weight(NamedTuple):
    """What one rule added to a score."""

    rule: str
    weight: float
    why: str


class Explanation(NamedTuple):
    """For one alert, or for an account or a device without one: then `alert_id` is empty."""

    alert_id: str
    headline: str
    weights: tuple[Weight, ...]
    timeline: tuple[Moment, ...]


def explain(store: Store, word: str) -> list[Explanation]:
    """By the id of an alert, a device or an account; empty if no table has it."""
    by_id = [(DEVICE_ALERT, _of_device_alert), (INVITE_ALERT, _of_invite_alert)]
    for table, explain_row in by_id:
        for row in store.lookup(table.name, [(word,)]).to_pylist():
            return [explain_row(store, row)]
    found = [_of_device_alert(store, row) for row in _where(store, DEVICE_ALERT, "device_id", word)]
    found += [_of_invite_alert(store, row) for row in _where(store, INVITE_ALERT, "inviter_id", word)]
    if found:
        return found
    # Alerts of others may name it: on a device that many use, or as an invitee.
    found += [_of_device_alert(store, row) for row in _naming(store, DEVICE_ALERT, "accounts", word)]
    found += [_of_invite_alert(store, row) for row in _naming(store, INVITE_ALERT, "invitees", word)]
    return found or [each for each in (_of_device(store, word), _of_account(store, word)) if each.timeline]


def _of_device_alert(store: Store, row: Mapping[str, Any]) -> Explanation:
    accounts = json.loads(row["accounts"])
    start_ms, end_ms = row["window_start_ms"], row["window_end_ms"]
    minutes = (end_ms - start_ms) / 60_000
    headline = (
        f"device {row['device_id']} met {row['rule']}: {len(accounts)} accounts and {row['switches']} changes between "
        f"them in {minutes:,.0f} min"
    )
    logins = _logins(store, row["device_id"], start_ms=start_ms, end_ms=end_ms)
    return Explanation(row["alert_id"], headline, (), _changes_of_hands(logins))


def _of_device(store: Store, device_id: str) -> Explanation:
    logins = _logins(store, device_id, start_ms=0, end_ms=1 << 62)
    accounts = {account_id for _, account_id in logins}
    headline = f"device {device_id} has no alert: {len(accounts)} accounts, {len(logins)} logins"
    return Explanation("", headline, (), _changes_of_hands(logins))


def _logins(store: Store, device_id: str, *, start_ms: int, end_ms: int) -> list[tuple[int, str]]:
    rows = _where(store, LOGIN_FACT, "device_id", device_id)
    within = [row for row in rows if start_ms <= row["event_time_ms"] <= end_ms]
    ordered = sorted(within, key=lambda row: (row["event_time_ms"], row["event_id"]))
    return [(row["event_time_ms"], row["account_id"]) for row in ordered]


def _changes_of_hands(logins: list[tuple[int, str]]) -> tuple[Moment, ...]:
    moments = []
    seen: set[str] = set()
    before: str | None = None
    for time_ms, account_id in logins:
        how = "for the first time" if account_id not in seen else "again" if account_id == before else "is back"
        moments.append(Moment(time_ms, f"login of {account_id}, {how}"))
        seen.add(account_id)
        before = account_id
    return tuple(moments)


def _of_invite_alert(store: Store, row: Mapping[str, Any]) -> Explanation:
    rules = json.loads(row["rules"])
    weights = tuple(Weight(rule, each["weight"], each["why"]) for rule, each in rules.items())
    invitees = set(json.loads(row["invitees"]))
    inviter_id = row["inviter_id"]
    headline = (
        f"inviter {inviter_id} scored {row['score']:g} with {len(invitees)} invitees: "
        f"{' + '.join(f'{each.weight:g}' for each in weights)}"
    )
    timeline = _invitations(store, inviter_id, invitees, since_ms=row["first_event_ms"])
    return Explanation(row["alert_id"], headline, weights, timeline)


def _of_account(store: Store, account_id: str) -> Explanation:
    invites = _invitations(store, account_id, None, since_ms=0)
    inviters = [row[1] for row in rows_of(store, INVITED_BY_FACT, [(account_id,)])]
    regions = store.lookup(USER_REGION.name, [(account_id,)]).to_pylist()
    words = [f"account {account_id} has no alert"]
    if inviters:
        words.append(f"invited by {', '.join(sorted(inviters))}")
    if regions:
        index = [regions[0][name] for name in ("city", "province", "country") if regions[0][name]]
        words.append(f"from {', '.join(dict.fromkeys(index))}")
    life = _life(account_id, store)
    return Explanation("", "; ".join(words), (), tuple(sorted((*invites, *life))))


def _invitations(
    store: Store, inviter_id: str, invitees: Collection[str] | None, *, since_ms: int
) -> tuple[Moment, ...]:
    """Each invitation, whether the invitee was on the inviter's device, and when the invitee first used the app."""
    rows = [
        dict(zip(INVITE_FACT.column_names, row, strict=True)) for row in rows_of(store, INVITE_FACT, [(inviter_id,)])
    ]
    rows = [
        row for row in rows if row["event_time_ms"] >= since_ms and (invitees is None or row["invitee_id"] in invitees)
    ]
    accounts = {row["invitee_id"] for row in rows} | {inviter_id}
    devices: dict[str, set[str]] = {account_id: set() for account_id in accounts}
    for account_id, device_id, _, _ in rows_of(store, SIGHTING_FACT, ((each,) for each in accounts)):
        if device_id:
            devices[account_id].add(device_id)
    lives = {row[0]: row[1:] for row in rows_of(store, LIFE_FACT, ((each,) for each in accounts))}
    moments = []
    for row in rows:
        invitee_id = row["invitee_id"]
        words = [f"invited {invitee_id}"]
        if row["province"] or row["country"]:
            words.append(f"number from {row['province'] or row['country']}")
        if devices[invitee_id] & devices[inviter_id]:
            words.append("seen on the inviter's device")
        if invitee_id not in lives:
            words.append("never used the app")
        moments.append(Moment(row["event_time_ms"], ", ".join(words)))
        for index, moment_ms in enumerate(lives.get(invitee_id, ())):
            if moment_ms is not None:
                moments.append(
                    Moment(moment_ms, f"{invitee_id} used the app for the {'first' if index == 0 else 'second'} time")
                )
    return tuple(sorted(moments))


def _life(account_id: str, store: Store) -> list[Moment]:
    return [
        Moment(moment_ms, f"{account_id} used the app for the {'first' if index == 0 else 'second'} time")
        for row in rows_of(store, LIFE_FACT, [(account_id,)])
        for index, moment_ms in enumerate(row[1:])
        if moment_ms is not None
    ]


def _where(store: Store, table: Table, column: str, value: str) -> list[dict[str, Any]]:
    found = store.scan(table.name, where=[Condition(column, "=", value)])
    return _sorted(table, [row for batch in found for row in batch.to_pylist()])


def _naming(store: Store, table: Table, column: str, value: str) -> list[dict[str, Any]]:
    """Rows whose JSON list has the value. Alerts are few."""
    rows = [row for batch in store.scan(table.name) for row in batch.to_pylist()]
    return _sorted(table, [row for row in rows if value in json.loads(row[column])])


def _sorted(table: Table, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: tuple(row[name] for name in table.key))
