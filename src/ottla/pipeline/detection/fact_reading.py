"""Facts as the step of a batch sees them: those of the store, and over them those of the batch.

Every question goes to the store once, for many keys together. Nothing is written here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from ottla.pipeline.detection.facts import Invite, InviteBatch, Life, Region, Sighting
from ottla.pipeline.detection.private_numbers import PrivateNumber
from ottla.pipeline.tables import (
    DEVICE_ACCOUNT_FACT,
    INVITE_FACT,
    INVITED_BY_FACT,
    LIFE_FACT,
    PLACE_FACT,
    SIGHTING_FACT,
    Table,
)

T = TypeVar("T")
_KEYS_AT_ONCE: Final = 10_000


class Lookup(Protocol):
    """The part of a store that detectors read by."""

    def lookup(self, table: str, keys: Iterable[tuple[Any, ...]]) -> pa.Table: ...


def rows_of(port: Lookup, table: Table, keys: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of these partition keys, columns in the table's order."""
    wanted = sorted(set(keys))
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(wanted), _KEYS_AT_ONCE):
        found = port.lookup(table.name, wanted[start : start + _KEYS_AT_ONCE])
        rows.extend(zip(*(found.column(name).to_pylist() for name in table.column_names), strict=True))
    return rows


class _Known:
    """Sets of facts by one key: asked for once, with the batch's own laid over."""

    def __init__(
        self, port: Lookup, table: Table, entry: Callable[[tuple[Any, ...]], Any], own: Mapping[str, set[Any]]
    ) -> None:
        self._port = port
        self._table = table
        self._entry = entry
        self._own = own
        self.stored: dict[str, set[Any]] = {}
        self._all: dict[str, set[Any]] = {}

    def load(self, keys: Iterable[str]) -> None:
        missing = {key for key in keys if key not in self._all}
        for key in missing:
            self.stored[key] = set()
        for row in rows_of(self._port, self._table, ((key,) for key in missing)):
            self.stored[row[0]].add(self._entry(row))
        for key in missing:
            self._all[key] = self.stored[key] | self._own.get(key, set())

    def __call__(self, keys: Collection[str]) -> dict[str, set[Any]]:
        self.load(keys)
        return {key: self._all[key] for key in keys}

    def new(self) -> dict[str, set[Any]]:
        """The batch's facts that the store has not."""
        self.load(self._own)
        found = {key: entries - self.stored[key] for key, entries in self._own.items()}
        return {key: entries for key, entries in found.items() if entries}


class FactReading:
    """One batch's view; made for a step and dropped after it."""

    def __init__(self, port: Lookup, batch: InviteBatch) -> None:
        self.sightings = _Known(
            port,
            SIGHTING_FACT,
            lambda row: Sighting(*row),
            _grouped((each.account_id, each) for each in batch.sightings),
        )
        on_device = ((each.device_id, each.account_id) for each in batch.sightings if each.device_id)
        self.accounts_on = _Known(port, DEVICE_ACCOUNT_FACT, lambda row: row[1], _grouped(on_device))
        self.places = _Known(
            port,
            PLACE_FACT,
            lambda row: Region(row[1], row[2]),
            _grouped((each.account_id, each.region) for each in batch.places),
        )
        self.invites = _Known(port, INVITE_FACT, _invite, _grouped((each.inviter_id, each) for each in batch.invites))
        self.inviters = _Known(
            port,
            INVITED_BY_FACT,
            lambda row: row[1],
            _grouped((each.invitee_id, each.inviter_id) for each in batch.invites),
        )
        self._port = port
        self._own_lives = batch.lives
        self._lives: dict[str, Life | None] = {}
        self.changed_lives: dict[str, Life] = {}

    def lives(self, account_ids: Collection[str]) -> dict[str, Life]:
        """Accounts without a sign of life are left out."""
        missing = [account_id for account_id in account_ids if account_id not in self._lives]
        stored = {
            account_id: Life(first_ms, second_ms)
            for account_id, first_ms, second_ms in rows_of(self._port, LIFE_FACT, ((each,) for each in missing))
        }
        for account_id in missing:
            before, own = stored.get(account_id), self._own_lives.get(account_id)
            merged = before.merged(own) if before is not None and own is not None else before or own
            self._lives[account_id] = merged
            if merged is not None and merged != before:
                self.changed_lives[account_id] = merged
        return {each: life for each in account_ids if (life := self._lives[each]) is not None}


def _grouped(pairs: Iterable[tuple[str, T]]) -> dict[str, set[T]]:
    groups: dict[str, set[T]] = {}
    for key, entry in pairs:
        groups.setdefault(key, set()).add(entry)
    return groups


def _invite(row: tuple[Any, ...]) -> Invite:
    inviter_id, time_ms, event_id, invitee_id, block, next_block, place, country, province = row
    return Invite(
        time_ms, event_id, inviter_id, invitee_id, PrivateNumber(block, next_block, place), Region(country, province)
    )
