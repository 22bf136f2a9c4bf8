"""The population: accounts, their phones, devices and homes, and the steps that scenarios have planned for them.

All randomness comes from one `Dice`, which uses only `Random.random()`: that is the same on every machine and in every
version of Python, while other methods and the functions of libm promise less.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple, TypeVar

from ottla.pipeline.traffic.regions import (
    CITIES,
    FOREIGN_RANGES,
    NUMBERS_PER_CITY,
    address,
    mobile_number,
)

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
ACCOUNTS_MAX: Final = 1_000_000
FOREIGN: Final = -1  # in place of a city

APP_VERSIONS: Final = ("4.8.2", "4.9.0", "4.9.1", "5.0.0")
_ACCOUNT_NUMBERS: Final = 100_000_000
_ACCOUNT_STRIDE: Final = 61_803_399  # no common factor with the line above: every index has a number of its own
_NUMBER_STRIDE: Final = 61_803  # likewise for the numbers of a city; near the golden ratio, so that none come close
_BLOCK: Final = 50  # numbers that stay free around a run of neighbours
_MODELS: Final = 3_000
_ID_BITS: Final = 1 << 52  # as many as one draw has

T = TypeVar("T")


class Dice:
    """The randomness of a whole run, in the order of the calls."""

    __slots__ = ("random",)

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.random() * len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        result = list(items)
        for index in range(len(result) - 1, 0, -1):
            other = int(self.random() * (index + 1))
            result[index], result[other] = result[other], result[index]
        return result


class Device:
    """A phone; two of one model share their fingerprint."""

    __slots__ = ("device_id", "fingerprint")

    def __init__(self, device_id: str, fingerprint: str) -> None:
        self.device_id = device_id
        self.fingerprint = fingerprint


class Account:
    """A user, real or fake. `is_scripted` accounts do only what a scenario has planned for them."""

    __slots__ = (
        "account_id",
        "app_version",
        "device",
        "home_city",
        "home_ip",
        "is_scripted",
        "joined_ms",
        "phone",
        "phone_city",
        "rhythm",
        "sessions_a_day",
        "shared_ip",
    )

    def __init__(self, account_id: str, device: Device) -> None:
        self.account_id = account_id
        self.device = device
        self.phone = ""
        self.phone_city = 0
        self.home_city = 0
        self.home_ip = ""
        self.shared_ip = ""  # of a café, where a part of the sessions comes from
        self.app_version = APP_VERSIONS[-1]
        self.joined_ms = 0  # before the run unless a scenario says when
        self.sessions_a_day = 2.0
        self.rhythm = 0
        self.is_scripted = False

    @property
    def is_phone_from_home(self) -> bool:
        """Whether number and addresses are of one province, as a job sees them."""
        return self.phone_city >= 0 and CITIES[self.phone_city].province == CITIES[self.home_city].province


class StepKind:
    """The kind of a planned step."""

    LOGIN: Final = 0
    SESSION: Final = 1
    REGISTER: Final = 2
    INVITE: Final = 3


class Step(NamedTuple):
    """A moment of someone's day; `order` makes steps of one millisecond comparable."""

    time_ms: int
    order: int
    kind: int
    account: Account
    device: Device
    ip: str
    login_kind: str = ""  # of a login, and of a session that begins with one
    amount: int = 0  # rounds of a session, steps done of the welcome task
    invitee: Account | None = None


class Population:
    """All accounts of a run; assigns numbers and ids."""

    def __init__(self, dice: Dice, *, start_ms: int, days: int) -> None:
        self.dice = dice
        self.start_ms = start_ms
        self.days = days
        self.end_ms = start_ms + days * DAY_MS
        self.accounts: list[Account] = []
        self.steps_by_day: dict[int, list[Step]] = {}
        self._first_account_number = dice.between(0, _ACCOUNT_NUMBERS - 1)
        self._step_count = 0
        self._numbers_given = [0] * len(CITIES)
        self._kept_blocks: list[set[int]] = [set() for _ in CITIES]
        self._foreign_given = 0

    def new_device(self, *, like: Device | None = None) -> Device:
        """A device of its own, of a random model or the same as another's."""
        random = self.dice.random
        device_id = f"d{int(random() * _ID_BITS):013x}"
        if like is not None:
            return Device(device_id, like.fingerprint)
        share = random()
        return Device(device_id, f"f{int(share * share * _MODELS) * 2_654_435_761 % 2**32:08x}")

    def new_account(self, *, home_city: int, phone_city: int | None = None, device: Device | None = None) -> Account:
        """An account at home in a city, by default with a number from there."""
        dice = self.dice
        number = (self._first_account_number + len(self.accounts) * _ACCOUNT_STRIDE) % _ACCOUNT_NUMBERS
        account = Account(f"u{number:08d}", device or self.new_device())
        account.home_city = home_city
        account.home_ip = self.random_ip(home_city)
        account.app_version = dice.pick(APP_VERSIONS)
        account.rhythm = dice.between(0, 3)
        share = dice.random()
        account.sessions_a_day = 0.6 + 5 * share * share
        self._give_number(account, home_city if phone_city is None else phone_city)
        self.accounts.append(account)
        return account

    def random_city(self, *, other_than: int | None = None) -> int:
        """A city; with `other_than` one of another province."""
        while True:
            city = self.dice.between(0, len(CITIES) - 1)
            if other_than is None or CITIES[city].province != CITIES[other_than].province:
                return city

    def random_ip(self, city: int) -> str:
        return address(city, self.dice.between(256, 65_279))

    def near_ip(self, ip: str) -> str:
        """Another address of the same /24."""
        return f"{ip.rpartition('.')[0]}.{self.dice.between(1, 254)}"

    def keep_run(self, city: int, span: int) -> int:
        """The first of a run of numbers within `span` that nobody else gets."""
        kept = self._kept_blocks[city]
        while True:
            block = self.dice.between(0, NUMBERS_PER_CITY // _BLOCK - 1)
            if block not in kept:
                kept.add(block)
                return block * _BLOCK + self.dice.between(0, _BLOCK - 1 - span)

    def set_number(self, account: Account, city: int, number: int) -> None:
        account.phone_city = city
        account.phone = mobile_number(city, number)

    def add_step(
        self,
        kind: int,
        time_ms: int,
        account: Account,
        *,
        device: Device | None = None,
        ip: str | None = None,
        login_kind: str = "",
        amount: int = 0,
        invitee: Account | None = None,
    ) -> None:
        """Plan a step; one before the run's start or after its end moves to that edge."""
        time_ms = min(max(time_ms, self.start_ms), self.end_ms - 1)
        steps = self.steps_by_day.setdefault((time_ms - self.start_ms) // DAY_MS, [])
        self._step_count += 1
        device = device or account.device
        ip = account.home_ip if ip is None else ip
        steps.append(Step(time_ms, self._step_count, kind, account, device, ip, login_kind, amount, invitee))

    def moment(self, span_ms: int) -> int:
        """A time in the day's waking hours, if possible so early that `span_ms` still fits into the run."""
        latest_ms = self.end_ms - span_ms - HOUR_MS
        earliest_ms = self.start_ms + 10 * MINUTE_MS
        if latest_ms <= earliest_ms:
            return earliest_ms
        for _ in range(8):
            time_ms = self.dice.between(earliest_ms, latest_ms)
            if 8 * HOUR_MS <= (time_ms - self.start_ms) % DAY_MS <= 21 * HOUR_MS:
                break
        return time_ms

    def _give_number(self, account: Account, city: int) -> None:
        if city == FOREIGN:
            self._foreign_given += 1
            abroad = FOREIGN_RANGES[self._foreign_given % len(FOREIGN_RANGES)]
            size = 10**abroad.digits
            account.phone_city = FOREIGN
            number = self._foreign_given * _ACCOUNT_STRIDE % size
            account.phone = f"{abroad.prefix}{number:0{abroad.digits}d}"
            return
        kept = self._kept_blocks[city]
        while True:
            self._numbers_given[city] += 1
            if self._numbers_given[city] >= NUMBERS_PER_CITY:
                raise ValueError(f"{CITIES[city].name} has no phone numbers left; fewer accounts, please")
            number = (self._numbers_given[city] * _NUMBER_STRIDE) % NUMBERS_PER_CITY
            if number // _BLOCK not in kept:
                self.set_number(account, city, number)
                return
