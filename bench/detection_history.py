"""What the detectors remember after some days of some accounts, put into a store at once in place of their events.

Accounts that the measured events are about are among them, with the devices that they use there; the others lie
between them by their keys, as those of a larger app would.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.pipeline.detection.device_switching import day_of
from ottla.pipeline.detection.facts import DAY_MS, HOUR_MS
from ottla.pipeline.detection.intake import LOOKED_AT_TOPICS
from ottla.pipeline.detection.invite_step import JOB
from ottla.pipeline.detection.networks import network_of
from ottla.pipeline.detection.outcome import arrow_rows
from ottla.pipeline.detection.thresholds import default_thresholds
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.tables import (
    DETECTOR_CLOCK,
    DEVICE_ACCOUNT_FACT,
    INVITE_FACT,
    INVITED_BY_FACT,
    LIFE_FACT,
    LOGIN_FACT,
    PLACE_FACT,
    SIGHTING_FACT,
    USER_REGION,
    Table,
)
from ottla.pipeline.topics import LOGIN
from ottla.pipeline.traffic.events import Event
from ottla.pipeline.traffic.generator import DEFAULT_START_MS, Settings, generate

if TYPE_CHECKING:
    from ottla.pipeline.stores.port import Store

_SEED: Final = 7
_STREAM_ACCOUNTS: Final = 10_000
_START_MS: Final = DEFAULT_START_MS
_ROWS_AT_ONCE: Final = 100_000
_ACCOUNT_NUMBERS: Final = 100_000_000
_OTHER_NETWORKS_A_DAY: Final = 0.4  # a part of the sessions comes from somewhere in the city
_ACCOUNTS_PER_INVITER: Final = 30
_INVITEES: Final = 2


class History(NamedTuple):
    days: int
    accounts: int

    @property
    def name(self) -> str:
        return f"days-{self.days}-accounts-{self.accounts}"


class _Person(NamedTuple):
    account_id: str
    device_id: str
    fingerprint: str
    network: str


def new_events(count: int) -> Iterator[Event]:
    """The events that are measured: the beginning of a generated day, the first after any history."""
    return islice(generate(Settings(_SEED, _STREAM_ACCOUNTS, 1, start_ms=_START_MS)), count)


def write_history(store: "Store", history: History, events: Iterable[Event]) -> None:
    """`events` are those that are to be measured."""
    logins = (each.value for each in events if each.topic == LOGIN.name and isinstance(each.value, dict))
    people = _people(history.accounts, logins)
    dice = np.random.default_rng(_SEED)
    _write_seen(store, history, people, dice)
    _write_logins(store, history, people, dice)
    _write_invitations(store, history, people, dice)
    clock = [(JOB, topic, _START_MS) for topic in (*LOOKED_AT_TOPICS, "")]
    _write(store, DETECTOR_CLOCK, clock)


def _people(accounts: int, logins: Iterable[Mapping[str, Any]]) -> list[_Person]:
    """Sorted by account, as rows are best written."""
    known: dict[str, _Person] = {}
    for each in logins:
        account_id = str(each["account_id"])
        known.setdefault(
            account_id,
            _Person(account_id, str(each["device_id"]), str(each["fingerprint"]), network_of(str(each["ip"]))),
        )
    others = max(0, accounts - len(known))
    dice = np.random.default_rng(_SEED)
    # One number in so many: no two are the same.
    numbers = np.arange(others) * (_ACCOUNT_NUMBERS // max(others, 1)) + dice.integers(0, 50, others)
    devices = dice.integers(0, 1 << 52, others)
    nets = dice.integers(0, 1 << 16, others)
    for number, device, net in zip(numbers.tolist(), devices.tolist(), nets.tolist(), strict=True):
        account_id = f"u{number:08d}"
        if account_id not in known:
            network = f"100.{64 + net % 20}.{net >> 8}"
            known[account_id] = _Person(account_id, f"d{device:013x}", f"f{net:08x}", network)
    return [known[account_id] for account_id in sorted(known)]


def _write_seen(store: "Store", history: History, people: Sequence[_Person], dice: np.random.Generator) -> None:
    first_ms = _START_MS - history.days * DAY_MS
    last_ms = _START_MS - HOUR_MS
    others = int(_OTHER_NETWORKS_A_DAY * history.days)
    nets = dice.integers(0, 256, (len(people), others)).tolist()
    _write(
        store,
        SIGHTING_FACT,
        (
            (each.account_id, each.device_id, each.fingerprint, network)
            for each, theirs in zip(people, nets, strict=True)
            for network in sorted({each.network, *(f"{each.network.rpartition('.')[0]}.{net}" for net in theirs)})
        ),
    )
    _write(store, DEVICE_ACCOUNT_FACT, sorted((each.device_id, each.account_id) for each in people))
    _write(store, PLACE_FACT, ((each.account_id, "CN", "Guangdong") for each in people))
    _write(store, LIFE_FACT, ((each.account_id, first_ms, first_ms + 20_000) for each in people))
    hashed = "0" * 56
    _write(
        store,
        USER_REGION,
        (
            (each.account_id, "CN", "Guangdong", "Guangzhou", f"{hashed}{each.account_id[1:]}", last_ms)
            for each in people
        ),
    )


def _write_logins(store: "Store", history: History, people: Sequence[_Person], dice: np.random.Generator) -> None:
    by_device = sorted(people, key=lambda each: each.device_id)
    times = dice.integers(0, DAY_MS, (len(people), history.days)).tolist()
    _write(
        store,
        LOGIN_FACT,
        (
            (each.device_id, day_of(time_ms), time_ms, f"h{day:03d}-{each.account_id}", each.account_id)
            for each, theirs in zip(by_device, times, strict=True)
            for day, time_ms in ((day, _START_MS - (history.days - day) * DAY_MS + ms) for day, ms in enumerate(theirs))
        ),
    )


def _write_invitations(store: "Store", history: History, people: Sequence[_Person], dice: np.random.Generator) -> None:
    """Long enough ago to be judged: the moments that they waited for have passed, and are dropped by retention."""
    limits = default_thresholds().invite_fraud
    last_ms = _START_MS - 2 * limits.idle_span_ms
    inviters = people[::_ACCOUNTS_PER_INVITER]
    invites = []
    for number, inviter in enumerate(inviters):
        for each in range(_INVITEES):
            invitee = people[(number * _ACCOUNTS_PER_INVITER + each + 1) % len(people)]
            time_ms = last_ms - int(dice.integers(0, history.days * DAY_MS))
            block, next_block, place = f"{number:024x}", f"{number + 1:024x}", each
            invites.append(
                (
                    inviter.account_id,
                    time_ms,
                    f"i{number}-{each}",
                    invitee.account_id,
                    block,
                    next_block,
                    place,
                    "CN",
                    "Guangdong",
                )
            )
    _write(store, INVITE_FACT, sorted(invites))
    _write(store, INVITED_BY_FACT, sorted((row[3], row[0]) for row in invites))


def _write(store: "Store", table: Table, rows: Iterable[Sequence[Any]]) -> None:
    waiting: list[Sequence[Any]] = []
    number = 0
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS_AT_ONCE:
            _store(store, table, arrow_rows(table, waiting), number)
            number += 1
            waiting.clear()
    if waiting:
        _store(store, table, arrow_rows(table, waiting), number)


def _store(store: "Store", table: Table, rows: pa.Table, number: int) -> None:
    store.upsert(table.name, rows, Batch("bench", "history", number))
