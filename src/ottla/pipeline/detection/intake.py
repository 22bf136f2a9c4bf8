"""From parsed events, as Arrow columns, to facts. The many events of use become two moments per account, vectorised;
only logins, verifications and invitations, a small part of all, are processed one by one.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.detection.facts import Invite, InviteBatch, Life, Login, Place, Region, Sighting
from ottla.pipeline.detection.networks import network_of
from ottla.pipeline.detection.private_numbers import PrivateNumber
from ottla.pipeline.topics import EXPOSURE, INSTALL, INVITE, LEFT_SLIDE, LOGIN, RIGHT_SLIDE, VERIFY

# Signs of use. Tasks are paid, so they show no interest; credits follow from other events.
LIFE_TOPICS: Final = (LEFT_SLIDE.name, RIGHT_SLIDE.name, EXPOSURE.name, INSTALL.name)
PERSON_TOPICS: Final = (LOGIN.name, VERIFY.name, INVITE.name)
# The invite fraud detector reads these, and takes its clock from them.
LOOKED_AT_TOPICS: Final = LIFE_TOPICS + PERSON_TOPICS
LIFE_COLUMNS: Final = ("account_id", "event_time")
PERSON_COLUMNS: Final = (
    "topic",
    "event_id",
    "event_time",
    "account_id",
    "device_id",
    "fingerprint",
    "ip",
    "phone",
    "inviter_id",
    "invitee_id",
    "invitee_phone",
)
LOGIN_COLUMNS: Final = ("event_id", "event_time", "account_id", "device_id")
_INVITE_COLUMNS: Final = ("event_time", "event_id", "inviter_id", "invitee_id", "invitee_phone")
_SIGHTING_COLUMNS: Final = ["account_id", "device_id", "fingerprint", "ip"]
_PHONE_COLUMNS: Final = ["account_id", "phone"]
LIFE_SCHEMA: Final = pa.schema([("account_id", pa.string()), ("event_time", pa.int64())])


def first_moments(events: pa.Table | pa.RecordBatch) -> pa.Table:
    """Of each account the two smallest times, a row each (LIFE_SCHEMA). May be applied to its own results again."""
    accounts = _flat(events.column("account_id"))
    times = _flat(events.column("event_time"))
    is_there = pc.and_(pc.is_valid(accounts), pc.is_valid(times))
    accounts, times = accounts.filter(is_there), times.filter(is_there)
    encoded = accounts.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    moments = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
    order = np.lexsort((moments, codes))
    codes, moments = codes[order], moments[order]
    is_new_account = np.ones(len(codes), dtype=bool)
    is_new_account[1:] = codes[1:] != codes[:-1]
    is_new = is_new_account.copy()
    is_new[1:] |= moments[1:] != moments[:-1]
    codes, moments, is_new_account = codes[is_new], moments[is_new], is_new_account[is_new]
    is_second = np.zeros(len(codes), dtype=bool)
    is_second[1:] = is_new_account[:-1] & ~is_new_account[1:]
    kept = is_new_account | is_second
    names = encoded.dictionary.take(pa.array(codes[kept]))
    return pa.Table.from_arrays([names.cast(pa.string()), pa.array(moments[kept], pa.int64())], schema=LIFE_SCHEMA)


def reduce_moments(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over LIFE_COLUMNS: reduces a partition in its executor."""
    reduced = [first_moments(batch) for batch in batches]
    if reduced:
        yield from first_moments(pa.concat_tables(reduced)).to_batches()


def lives_of(moments: pa.Table) -> dict[str, Life]:
    """From rows of LIFE_SCHEMA, any number for each account."""
    reduced = first_moments(moments)
    lives: dict[str, Life] = {}
    for account_id, moment in zip(
        reduced.column("account_id").to_pylist(), reduced.column("event_time").to_pylist(), strict=True
    ):
        first = lives.get(account_id)
        lives[account_id] = Life(moment, None) if first is None else Life(first.first_ms, moment)
    return lives


def logins_of(events: pa.Table) -> set[Login]:
    """From sound login events (LOGIN_COLUMNS)."""
    columns = [events.column(name).to_pylist() for name in ("event_time", "event_id", "device_id", "account_id")]
    return {Login(*row) for row in zip(*columns, strict=True) if row[2] and row[3]}


class Intake:
    """Turns events of persons into facts; hides phone numbers and finds their regions."""

    def __init__(
        self, *, hide: Callable[[str | None], PrivateNumber], region_of: Callable[[str | None], Region]
    ) -> None:
        self._hide = hide
        self._region_of = region_of

    def facts_of(self, events: pa.Table, moments: pa.Table) -> InviteBatch:
        """`events`: PERSON_COLUMNS of sound events of PERSON_TOPICS; `moments`: LIFE_SCHEMA of those of LIFE_TOPICS."""
        is_invite = pc.equal(events.column("topic"), INVITE.name)
        invites = {
            Invite(time_ms, event_id, inviter_id, invitee_id, self._hide(phone), self._region_of(phone))
            for time_ms, event_id, inviter_id, invitee_id, phone in _rows(events.filter(is_invite), _INVITE_COLUMNS)
        }
        others = events.filter(pc.invert(is_invite))
        # The envelope belongs to the inviter's app, which reports the invitation; without an account, to nobody.
        is_own = pc.and_(is_invite, pc.equal(events.column("account_id"), events.column("inviter_id")))
        seen = pa.concat_tables([others, events.filter(pc.fill_null(is_own, False))])
        sightings = {
            Sighting(account_id, device_id or "", fingerprint or "", network_of(ip))
            for account_id, device_id, fingerprint, ip in _distinct(seen, _SIGHTING_COLUMNS)
            if device_id or ip
        }
        with_phones = ((each, self._region_of(phone)) for each, phone in _distinct(others, _PHONE_COLUMNS) if phone)
        places = {Place(account_id, region) for account_id, region in with_phones if region.is_known}
        return InviteBatch(sorted(invites), sorted(sightings), sorted(places), lives_of(moments))


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _rows(events: pa.Table, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(events.column(name).to_pylist() for name in names), strict=True)


def _distinct(events: pa.Table, names: list[str]) -> Iterator[tuple[Any, ...]]:
    """A batch has the same account on the same device many times."""
    return _rows(events.select(names).group_by(names, use_threads=False).aggregate([]), names)
