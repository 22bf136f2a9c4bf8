"""Cheats of which it is known which event completes the rule: the last of each. Before it no alert may fall.

Every one has accounts, devices and numbers of its own. How many events a rule needs is taken from the thresholds.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.pipeline.detection.thresholds import default_thresholds
from ottla.pipeline.topics import INVITE, LOGIN, Topic
from ottla.pipeline.traffic.events import SCHEMA_VERSION, Event
from ottla.pipeline.traffic.regions import CITIES, NUMBERS_PER_CITY, mobile_number

_NUMBERS_APART: Final = 100  # between the numbers of two cheats: never neighbours


class Cheat(NamedTuple):
    """`subject` is the key of its alert. The first events have times a second apart, up to `now_ms`."""

    rule: str
    subject: str
    steps: Sequence[tuple[Topic, dict[str, object]]]

    def events(self, now_ms: int) -> list[Event]:
        made = []
        for index, (topic, fields) in enumerate(self.steps):
            time_ms = now_ms - 1_000 * (len(self.steps) - 1 - index)
            value = {
                "event_id": f"planted-{self.subject}-{index}",
                "event_type": topic.event_type,
                "schema_version": SCHEMA_VERSION,
                "event_time": time_ms,
                "fingerprint": f"f-{self.subject}",
                "app_version": "5.0.0",
                **fields,
            }
            made.append(Event(topic.name, str(value[topic.key_field]), value, time_ms))
        return made


def many_accounts(number: int) -> Cheat:
    device = f"planted-d{number}"
    accounts = [f"planted-u{number}-{each}" for each in range(default_thresholds().device_switching.many_accounts)]
    return Cheat("many_accounts", device, [_login(device, account, number) for account in accounts])


def ping_pong(number: int) -> Cheat:
    """A, B, A is one return, and every further switch is another."""
    device = f"planted-d{number}"
    logins = default_thresholds().device_switching.ping_pong_returns + 2
    return Cheat(
        "ping_pong", device, [_login(device, f"planted-u{number}-{each % 2}", number) for each in range(logins)]
    )


def neighbour_numbers(number: int) -> Cheat:
    inviter = f"planted-u{number}"
    count = default_thresholds().invite_fraud.neighbours
    steps = [_invite(inviter, f"planted-u{number}-{each}", _phone(number, each)) for each in range(count)]
    return Cheat("neighbour_numbers", inviter, steps)


def ring(number: int) -> Cheat:
    """Each invites the other; it is the second whose alert is looked for."""
    one, other = f"planted-u{number}-0", f"planted-u{number}"
    steps = [_invite(one, other, _phone(number, 0)), _invite(other, one, _phone(number, 50))]
    return Cheat("ring_cycle", other, steps)


KINDS: Final[tuple[Callable[[int], Cheat], ...]] = (many_accounts, neighbour_numbers, ping_pong, ring)


def _login(device: str, account: str, number: int) -> tuple[Topic, dict[str, object]]:
    fields: dict[str, object] = {"account_id": account, "device_id": device, "ip": _address(number)}
    return LOGIN, {**fields, "phone": _phone(number, 0), "login_kind": "switch"}


def _invite(inviter: str, invitee: str, phone: str) -> tuple[Topic, dict[str, object]]:
    fields: dict[str, object] = {"account_id": inviter, "inviter_id": inviter, "invitee_id": invitee}
    return INVITE, {**fields, "invitee_phone": phone, "channel": "link"}


def _phone(number: int, neighbour: int) -> str:
    return mobile_number(number % len(CITIES), number * _NUMBERS_APART % NUMBERS_PER_CITY + neighbour)


def _address(number: int) -> str:
    return f"100.{100 + number // 65_536 % 20}.{number // 256 % 256}.{number % 256}"
