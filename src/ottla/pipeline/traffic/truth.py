"""The truth about a generated run, kept apart from its events: who cheats, who only looks like it, and totals.

Labels say what was planted. The truth also has the rules that are exactly met, evaluated on the plan: scores use the
labels, explanations the rules.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ottla.pipeline.traffic.population import DAY_MS, MINUTE_MS, Account, Device
from ottla.pipeline.traffic.regions import CITIES, address_table

MANY_ACCOUNTS: Final = 3
PING_PONG_RETURNS: Final = 4
PING_PONG_SPAN_MS: Final = 10 * MINUTE_MS
BURST_INVITES: Final = 5  # more than these
BURST_SPAN_MS: Final = 300_000
DAILY_INVITES: Final = 15  # more than these in 24 h are unlikely
GROUP_INVITEES: Final = 5
GROUP_SHARE: Final = 0.8
NEIGHBOURS: Final = 3
NEIGHBOUR_SPAN: Final = 20
IDLE_SPAN_MS: Final = DAY_MS


class DeviceLogin(NamedTuple):
    """One login on a device."""

    time_ms: int
    account_id: str


class Invited(NamedTuple):
    """One invitation, with what the rules of invite fraud need."""

    time_ms: int
    invitee: Account
    shares_device: bool
    shares_fingerprint_and_network: bool
    is_idle: bool


class DeviceLabel(NamedTuple):
    """A device that several accounts use; a switching device if its logins meet a rule and it is not a decoy's."""

    device: Device
    kind: str
    is_decoy: bool = False


class InviterLabel(NamedTuple):
    """An account that invites for the reward: what was planted, and which rules it meets."""

    account: Account
    kind: str
    rules: dict[str, int]  # rule -> when it can be known
    invited: list[Invited]


class DecoyLabel(NamedTuple):
    """Honest users who look like cheats."""

    kind: str
    accounts: list[str]
    devices: list[str]
    inviter_id: str | None
    rules: dict[str, int]  # met to the letter, though honest


def device_rules(logins: Iterable[DeviceLogin]) -> dict[str, int]:
    """The rules of device switching that these logins of one device meet, and when.

    A return is a login of the account before last, with another one in between: A, B, A counts one, A, B, A, B two.
    """
    ordered = sorted(logins)
    rules: dict[str, int] = {}
    for index, login in enumerate(ordered):
        recent = {other.account_id for other in ordered[: index + 1] if login.time_ms - other.time_ms < DAY_MS}
        if len(recent) >= MANY_ACCOUNTS:
            rules["many_accounts"] = login.time_ms
            break
    returns = [
        (ordered[index - 2].time_ms, ordered[index].time_ms)
        for index in range(2, len(ordered))
        if ordered[index].account_id == ordered[index - 2].account_id != ordered[index - 1].account_id
    ]
    for index in range(PING_PONG_RETURNS - 1, len(returns)):
        if returns[index][1] - returns[index - PING_PONG_RETURNS + 1][0] < PING_PONG_SPAN_MS:
            rules["ping_pong"] = returns[index][1]
            break
    return rules


def invite_rules(invited: Sequence[Invited]) -> dict[str, int]:
    """The rules of invite fraud, rings aside, that one inviter's invitations meet, and when that can be known."""
    ordered = sorted(invited, key=lambda each: (each.time_ms, each.invitee.account_id))
    rules: dict[str, int] = {}
    for each in ordered:
        if each.shares_device:
            rules.setdefault("shared_device", each.time_ms)
        if each.shares_fingerprint_and_network:
            rules.setdefault("shared_fingerprint_ip", each.time_ms)
    _mark_crowd(rules, "burst", ordered, more_than=BURST_INVITES, span_ms=BURST_SPAN_MS)
    _mark_crowd(rules, "daily_volume", ordered, more_than=DAILY_INVITES, span_ms=DAY_MS)
    last_ms = ordered[-1].time_ms if ordered else 0
    if len(ordered) >= GROUP_INVITEES:
        if sum(each.is_idle for each in ordered) >= GROUP_SHARE * len(ordered):
            rules["idle_invitees"] = last_ms + IDLE_SPAN_MS
        if sum(not each.invitee.is_phone_from_home for each in ordered) >= GROUP_SHARE * len(ordered):
            rules["region_mismatch"] = last_ms
    by_number = sorted((int(each.invitee.phone[1:]), each.time_ms) for each in ordered)
    for first, *between, last in (by_number[i : i + NEIGHBOURS] for i in range(len(by_number) - NEIGHBOURS + 1)):
        if last[0] - first[0] <= NEIGHBOUR_SPAN:
            known_ms = max(time_ms for _, time_ms in (first, *between, last))
            rules["neighbour_numbers"] = min(known_ms, rules.get("neighbour_numbers", known_ms))
    return rules


def _mark_crowd(rules: dict[str, int], name: str, ordered: Sequence[Invited], *, more_than: int, span_ms: int) -> None:
    for index in range(more_than, len(ordered)):
        if ordered[index].time_ms - ordered[index - more_than].time_ms <= span_ms:
            rules[name] = ordered[index].time_ms
            return


class Totals:
    """Running sums over the generated events: the expected totals of a ledger."""

    __slots__ = ("balances", "entries", "events", "first_ms", "invite_bonus", "last_ms", "logins", "tasks_done")

    def __init__(self, topic_names: Sequence[str], watched_devices: Iterable[str]) -> None:
        self.events = dict.fromkeys(topic_names, 0)
        self.balances: dict[str, int] = {}
        self.entries: dict[str, int] = {}
        self.tasks_done: dict[str, int] = {}
        self.invite_bonus: dict[str, int] = {}
        self.logins: dict[str, list[DeviceLogin]] = {device_id: [] for device_id in watched_devices}
        self.first_ms: int | None = None
        self.last_ms = 0

    def pay(self, account_id: str, amount: int) -> None:
        """One entry of the ledger."""
        self.balances[account_id] = self.balances.get(account_id, 0) + amount
        self.entries[account_id] = self.entries.get(account_id, 0) + 1

    def finish_task(self, account_id: str, reward: int) -> None:
        self.tasks_done[account_id] = self.tasks_done.get(account_id, 0) + 1
        self.pay(account_id, reward)


class Labels:
    """What scenarios have planted."""

    __slots__ = ("decoys", "devices", "inviters")

    def __init__(self) -> None:
        self.devices: list[DeviceLabel] = []
        self.inviters: list[InviterLabel] = []
        self.decoys: list[DecoyLabel] = []


def truth_document(
    *, settings: dict[str, Any], accounts: Sequence[Account], labels: Labels, totals: Totals, noise: dict[str, Any]
) -> dict[str, Any]:
    """All of it as a JSON object."""
    return {
        "format": 1,
        "settings": settings,
        "event_time": {"first_ms": totals.first_ms, "last_ms": totals.last_ms},
        "events": totals.events,
        "noise": noise,
        "devices": _device_documents(labels.devices, totals),
        "inviters": [_inviter_document(label, totals) for label in labels.inviters],
        "decoys": [label._asdict() for label in labels.decoys],
        "accounts": {
            account.account_id: {
                "balance": totals.balances.get(account.account_id, 0),
                "entries": totals.entries.get(account.account_id, 0),
                "tasks_done": totals.tasks_done.get(account.account_id, 0),
                "invite_bonus": totals.invite_bonus.get(account.account_id, 0),
                "phone_city": "" if account.phone_city < 0 else CITIES[account.phone_city].name,
                "home_city": CITIES[account.home_city].name,
            }
            for account in accounts
        },
        "ip_regions": address_table(),
    }


def _device_documents(devices: Iterable[DeviceLabel], totals: Totals) -> list[dict[str, Any]]:
    documents = []
    for label in devices:
        logins = totals.logins[label.device.device_id]
        rules = device_rules(logins)
        if rules and not label.is_decoy:
            accounts = sorted({login.account_id for login in logins})
            device_id = label.device.device_id
            documents.append({"device_id": device_id, "kind": label.kind, "rules": rules, "accounts": accounts})
    return documents


def _inviter_document(label: InviterLabel, totals: Totals) -> dict[str, Any]:
    times = [each.time_ms for each in label.invited]
    # A cheat that meets no rule alone can be detected when everything planted has happened.
    shown_ms = max(each.time_ms + (IDLE_SPAN_MS if each.is_idle else 0) for each in label.invited)
    account_id = label.account.account_id
    return {
        "account_id": account_id,
        "kind": label.kind,
        "rules": label.rules,
        "invitees": [each.invitee.account_id for each in label.invited],
        "first_event_ms": min(times),
        "last_event_ms": max(times),
        "decidable_ms": min(label.rules.values(), default=shown_ms),
        "credits_wrongly_paid": totals.invite_bonus.get(account_id, 0),
    }
