"""Facts as the step of a batch sees them: those of the store plus those of the batch.

Each lookup goes to the store once, for many keys together. Writes nothing.
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
    """The part of a store that detectors read from."""

    def lookup(self, table: str, keys: Iterable[tuple[Any, ...]]) -> pa.Table: ...


def rows_of(port: Lookup, table: Table, keys: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of these partition keys, or of these whole keys; columns in the table's order."""
    wanted = sorted(set(keys))
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(wanted), _KEYS_AT_ONCE):
        found = port.lookup(table.name, wanted[start : start + _KEYS_AT_ONCE])
        rows.extend(zip(*(found.column(name).to_pylist() for name in table.column_names), strict=True))
    return rows


class _Known:
    """Sets of facts by one key: those of the store, looked up once, and the batch's own."""

    def __init__(
        self,
        port: Lookup,
        table: Table,
        own: Mapping[str, set[Any]],
        *,
        entry: Callable[[tuple[Any, ...]], Any],
        row: Callable[[str, Any], tuple[Any, ...]],
    ) -> None:
        """`entry` turns a row into an entry, `row` turns a key and an entry into a row."""
        self._port = port
        self._table = table
        self._own = own
        self._entry = entry
        self._row = row
        self._all: dict[str, set[Any]] = {}
        self._new: dict[str, set[Any]] | None = None

    def load(self, keys: Iterable[str]) -> None:
        missing = {key for key in keys if key not in self._all}
        for key in missing:
            self._all[key] = set(self._own.get(key, ()))
        for row in rows_of(self._port, self._table, ((key,) for key in missing)):
            self._all[row[0]].add(self._entry(row))

    def __call__(self, keys: Collection[str]) -> dict[str, set[Any]]:
        self.load(keys)
        return {key: self._all[key] for key in keys}

    def new(self) -> dict[str, set[Any]]:
        """The batch's facts that the store doesn't have."""
        if self._new is None:
            # By whole keys: the facts of an account or a device grow with the days.
            wanted = (self._row(key, each)[: len(self._table.key)] for key, own in self._own.items() for each in own)
            stored = set(rows_of(self._port, self._table, wanted))
            found = {
                key: {each for each in entries if self._row(key, each) not in stored}
                for key, entries in self._own.items()
            }
            self._new = {key: entries for key, entries in found.items() if entries}
        return self._new


class FactReading:
    """One batch's view; made for a step and dropped after it."""

    def __init__(self, port: Lookup, batch: InviteBatch) -> None:
        self.sightings = _Known(
            port,
            SIGHTING_FACT,
            _grouped((each.account_id, each) for each in batch.sightings),
            entry=lambda row: Sighting(*row),
            row=lambda _, each: tuple(each),
        )
        self.accounts_on = _Known(
            port,
            DEVICE_ACCOUNT_FACT,
            _grouped((each.device_id, each.account_id) for each in batch.sightings if each.device_id),
            entry=lambda row: row[1],
            row=lambda device_id, account_id: (device_id, account_id),
        )
        self.places = _Known(
            port,
            PLACE_FACT,
            _grouped((each.account_id, each.region) for each in batch.places),
            entry=lambda row: Region(row[1], row[2]),
            row=lambda account_id, region: (account_id, *region),
        )
        self.invites = _Known(
            port,
            INVITE_FACT,
            _grouped((each.inviter_id, each) for each in batch.invites),
            entry=_invite,
            row=lambda _, each: invite_row(each),
        )
        self.inviters = _Known(
            port,
            INVITED_BY_FACT,
            _grouped((each.invitee_id, each.inviter_id) for each in batch.invites),
            entry=lambda row: row[1],
            row=lambda invitee_id, inviter_id: (invitee_id, inviter_id),
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


def invites_in(rows: Iterable[tuple[Any, ...]]) -> dict[str, set[Invite]]:
    """Rows of INVITE_FACT by inviter."""
    return _grouped((row[0], _invite(row)) for row in rows)


def invite_row(invite: Invite) -> tuple[Any, ...]:
    """As INVITE_FACT has it."""
    return (
        invite.inviter_id,
        invite.event_time_ms,
        invite.event_id,
        invite.invitee_id,
        *invite.number,
        *invite.region,
    )


def _invite(row: tuple[Any, ...]) -> Invite:
    inviter_id, time_ms, event_id, invitee_id, block, next_block, place, country, province = row
    return Invite(
        time_ms, event_id, inviter_id, invitee_id, PrivateNumber(block, next_block, place), Region(country, province)
    )
