"""What the detectors remember of events: sets of small facts, so that repeats and order don't matter.

Each kind has its table. A fact holds only what rules need: of a phone number a private form and its region.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.pipeline.detection.private_numbers import PrivateNumber

DAY_MS: Final = 24 * 3_600_000
HOUR_MS: Final = 3_600_000
UNKNOWN_COUNTRY: Final = "ZZ"


class Login(NamedTuple):
    """An account on a device at a time. Sorts in the order in which verdicts read logins."""

    event_time_ms: int
    event_id: str
    device_id: str
    account_id: str


class Sighting(NamedTuple):
    """An account was seen on a device of this model, from this network; unknown values are empty."""

    account_id: str
    device_id: str
    fingerprint: str
    network: str


class Region(NamedTuple):
    """Of a phone number or an address; the country `ZZ` means unknown."""

    country: str
    province: str

    @property
    def is_known(self) -> bool:
        return self.country not in ("", UNKNOWN_COUNTRY)


class Invite(NamedTuple):
    """One account invited another, and was paid for it."""

    event_time_ms: int
    event_id: str
    inviter_id: str
    invitee_id: str
    number: PrivateNumber
    region: Region


class Place(NamedTuple):
    """An account was seen with a number of this region."""

    account_id: str
    region: Region


class Life(NamedTuple):
    """The first two moments at which an account used the app: enough to decide whether it "did nothing".

    Two of these merge into the two smallest of all their moments, in any order and any number of times.
    """

    first_ms: int
    second_ms: int | None

    def merged(self, other: "Life") -> "Life":
        moments = {self.first_ms, other.first_ms}
        moments.update(moment for moment in (self.second_ms, other.second_ms) if moment is not None)
        first, *rest = sorted(moments)
        return Life(first, rest[0] if rest else None)

    def signs_until(self, until_ms: int) -> int:
        """How many of the moments, two at most, lie before."""
        return (self.first_ms < until_ms) + (self.second_ms is not None and self.second_ms < until_ms)


class InviteBatch(NamedTuple):
    """The facts of a batch for the invite fraud detector."""

    invites: Sequence[Invite] = ()
    sightings: Sequence[Sighting] = ()
    places: Sequence[Place] = ()
    lives: Mapping[str, Life] = {}
