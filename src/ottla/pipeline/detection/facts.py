"""What the detectors remember of events: sets of small facts, so that twice is once and no order matters.

Each kind has its table. A fact holds what rules ask for and no more: of a phone number a private form and its region.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.pipeline.detection.private_numbers import PrivateNumber

DAY_MS: Final = 24 * 3_600_000
HOUR_MS: Final = 3_600_000
UNKNOWN_COUNTRY: Final = "ZZ"


class Login(NamedTuple):
    """An account on a device at a time; in the order in which verdicts look at them."""

    event_time_ms: int
    event_id: str
    device_id: str
    account_id: str


class Sighting(NamedTuple):
    """An account was seen on a device, of this model, from this network; what is unknown is empty."""

    account_id: str
    device_id: str
    fingerprint: str
    network: str


class Region(NamedTuple):
    """Of a phone number, or of an address; the country `ZZ` is an unknown one."""

    country: str
    province: str

    @property
    def is_known(self) -> bool:
        return self.country not in ("", UNKNOWN_COUNTRY)


class Invite(NamedTuple):
    """One account was paid for another."""

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
    """The first two moments at which an account used the app: all that "did nothing" can ask for.

    Two of these merge to the two smallest of all their moments, in any order and any number of times.
    """

    first_ms: int
    second_ms: int | None

    def merged(self, other: "Life") -> "Life":
        moments = {self.first_ms, other.first_ms}
        moments.update(moment for moment in (self.second_ms, other.second_ms) if moment is not None)
        first, *rest = sorted(moments)
        return Life(first, rest[0] if rest else None)

    def signs_until(self, until_ms: int) -> int:
        """How many of them, two at most, lie before."""
        return (self.first_ms < until_ms) + (self.second_ms is not None and self.second_ms < until_ms)


class InviteBatch(NamedTuple):
    """What a batch of events says to the detector of invite fraud."""

    invites: Sequence[Invite] = ()
    sightings: Sequence[Sighting] = ()
    places: Sequence[Place] = ()
    lives: Mapping[str, Life] = {}
