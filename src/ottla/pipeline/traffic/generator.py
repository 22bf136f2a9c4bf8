"""The seeded generator of app traffic: the same settings give the same events, byte for byte, on every machine.

It creates the population at once, plans days one by one and turns their sessions into events as time goes on, so that
memory grows with the accounts and not with the events.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from heapq import heappop
from typing import Any, Final, NamedTuple

from ottla.pipeline.topics import TOPIC_NAMES
from ottla.pipeline.traffic.activity import Activity
from ottla.pipeline.traffic.cheats import CHEATS
from ottla.pipeline.traffic.decoys import DECOYS
from ottla.pipeline.traffic.events import SCHEMA_VERSION, Event
from ottla.pipeline.traffic.population import (
    ACCOUNTS_MAX,
    DAY_MS,
    FOREIGN,
    HOUR_MS,
    Account,
    Dice,
    Population,
    Step,
    StepKind,
)
from ottla.pipeline.traffic.scenarios import Hardness, Scene
from ottla.pipeline.traffic.truth import Labels, Totals, truth_document

# Monday, 1 September 2025, midnight in China: in the past for everyone, as events of the future are bad.
DEFAULT_START_MS: Final = 1_756_656_000_000
_CHINA: Final = timezone(timedelta(hours=8))

# Share of a day's sessions by hour, for early birds, office workers, students and night owls.
_RHYTHMS: Final = (
    (0, 0, 0, 0, 1, 4, 8, 9, 6, 4, 4, 5, 6, 4, 3, 3, 4, 6, 7, 6, 4, 2, 1, 0),
    (0, 0, 0, 0, 0, 1, 3, 8, 7, 3, 3, 4, 9, 5, 3, 3, 3, 5, 8, 7, 8, 8, 5, 1),
    (1, 0, 0, 0, 0, 0, 2, 6, 3, 4, 4, 5, 9, 4, 3, 3, 4, 7, 7, 5, 6, 8, 8, 4),
    (6, 4, 2, 1, 0, 0, 0, 1, 2, 3, 4, 4, 6, 5, 4, 4, 4, 5, 6, 6, 7, 8, 9, 9),
)
_HOURS: Final = tuple(tuple(hour for hour, weight in enumerate(row) for _ in range(weight)) for row in _RHYTHMS)

# Of all accounts, beyond one group of each kind.
_CHEAT_SHARE: Final = 0.04
_DECOY_SHARE: Final = 0.06
# Scenarios never take more than this, however small the run.
_PLANTED_SHARE_MAX: Final = 0.6
_FRIENDS_MAX: Final = 4  # invitations of an ordinary user: below every rule about groups


class Settings(NamedTuple):
    """The parameters of a run."""

    seed: int
    accounts: int
    days: int
    hardness: Hardness = Hardness.MEDIUM
    start_ms: int = DEFAULT_START_MS


def generate(settings: Settings) -> Iterator[Event]:
    """The events of a run in the order of their time."""
    return Traffic(settings).events()


class Traffic:
    """One run: `events` once, then `truth`."""

    def __init__(self, settings: Settings) -> None:
        if not 1 <= settings.accounts <= ACCOUNTS_MAX:
            raise ValueError(f"{settings.accounts} accounts; expected 1 to {ACCOUNTS_MAX:,}")
        if settings.days < 1:
            raise ValueError(f"{settings.days} days; expected at least one")
        self.settings = settings
        self.noise_counts: dict[str, Any] = {}
        self._dice = Dice(settings.seed)
        self._population = Population(self._dice, start_ms=settings.start_ms, days=settings.days)
        self._labels = Labels()
        self._plant()
        self._add_ordinary_users()
        watched = [label.device.device_id for label in self._labels.devices]
        self._totals = Totals(TOPIC_NAMES, watched)
        # Part of every event id: runs with other settings may share a topic.
        made_from = (settings.seed, settings.accounts, settings.days, settings.hardness.value, settings.start_ms)
        self._run_tag = sha256(repr(made_from).encode()).hexdigest()[:8]
        self._event_count = 0

    def events(self) -> Iterator[Event]:
        activity = Activity(self._dice, self._totals)
        pending = activity.pending
        for day in range(self.settings.days):
            day_ms = self.settings.start_ms + day * DAY_MS
            activity.start_day(datetime.fromtimestamp(day_ms / 1000, _CHINA).strftime("%Y%m%d"))
            for step in self._steps_of_day(day, day_ms):
                # No later step can have events before this one.
                while pending and pending[0][0] < step.time_ms:
                    yield self._finished(pending)
                activity.play(step)
        while pending:
            yield self._finished(pending)

    def truth(self) -> dict[str, Any]:
        """Labels and totals, complete once `events` has ended."""
        settings = {**self.settings._asdict(), "hardness": self.settings.hardness.value}
        return truth_document(
            settings=settings,
            accounts=self._population.accounts,
            labels=self._labels,
            totals=self._totals,
            noise=self.noise_counts,
        )

    def _finished(self, pending: list[Any]) -> Event:
        time_ms, _, topic, account, device, ip, payload = heappop(pending)
        totals = self._totals
        counts = totals.events
        counts[topic.name] += 1
        if totals.first_ms is None:
            totals.first_ms = time_ms
        totals.last_ms = time_ms
        self._event_count = count = self._event_count + 1
        value = {
            "event_id": f"{self._run_tag}-{count:010x}",
            "event_type": topic.event_type,
            "schema_version": SCHEMA_VERSION,
            "event_time": time_ms,
            "account_id": account.account_id,
            "device_id": device.device_id,
            "fingerprint": device.fingerprint,
            "ip": ip,
            "app_version": account.app_version,
            **payload,
        }
        return Event(topic.name, value[topic.key_field], value, time_ms)

    def _plant(self) -> None:
        """Plants cheats and decoys: one group of each kind where they fit, then in turn up to their share."""
        wanted = self.settings.accounts
        place = list(Hardness).index(self.settings.hardness)
        scene = Scene(self._population, self._labels, self.settings.hardness)
        accounts = self._population.accounts
        for kinds, share in ((CHEATS, _CHEAT_SHARE), (DECOYS, _DECOY_SHARE)):
            first = len(accounts)
            is_first_round = has_room = True
            while has_room and (is_first_round or len(accounts) - first < share * wanted):
                has_room = False
                for kind in kinds:
                    if not is_first_round and len(accounts) - first >= share * wanted:
                        break
                    fits = len(accounts) + kind.size[place] <= _PLANTED_SHARE_MAX * wanted
                    if fits and wanted >= kind.accounts_min:
                        kind.plant(scene)
                        has_room = True
                is_first_round = False

    def _add_ordinary_users(self) -> None:
        population = self._population
        dice = self._dice
        scene = Scene(population, self._labels, self.settings.hardness)
        hosts: list[Account] = []
        invitations: dict[str, int] = {}
        while len(population.accounts) < self.settings.accounts:
            city = population.random_city()
            share = dice.random()
            # Some have moved and kept their number, a few are from abroad.
            phone_city = FOREIGN if share < 0.015 else population.random_city() if share < 0.12 else city
            account = population.new_account(home_city=city, phone_city=phone_city)
            if hosts and dice.chance(0.3):
                self._join(scene, account, hosts, invitations)
            else:
                hosts.append(account)

    def _join(self, scene: Scene, account: Account, hosts: list[Account], invitations: dict[str, int]) -> None:
        """A new user, by a friend's invitation or alone."""
        population = self._population
        dice = self._dice
        time_ms = population.moment(2 * HOUR_MS)
        host = dice.pick(hosts)
        if dice.chance(0.45) and invitations.get(host.account_id, 0) < _FRIENDS_MAX:
            invitations[host.account_id] = invitations.get(host.account_id, 0) + 1
            is_lost = scene.loses_interest()
            account.is_scripted = is_lost
            scene.invite(host, account, time_ms, is_idle=is_lost)
        else:
            account.joined_ms = time_ms
            population.add_step(StepKind.REGISTER, time_ms, account)
            population.add_step(StepKind.SESSION, time_ms + 120_000, account, amount=dice.between(2, 6))

    def _steps_of_day(self, day: int, day_ms: int) -> list[Step]:
        """The scenarios' steps and everyone's ordinary sessions, in order of time."""
        steps = self._population.steps_by_day.pop(day, [])
        order = len(steps)
        dice = self._dice
        random = dice.random
        for account in self._population.accounts:
            if account.is_scripted:
                continue
            sessions = int(account.sessions_a_day + random())
            hours = _HOURS[account.rhythm]
            times = sorted(
                day_ms + hours[int(random() * len(hours))] * HOUR_MS + int(random() * HOUR_MS) for _ in range(sessions)
            )
            has_logged_in = False
            for time_ms in times:
                if time_ms <= account.joined_ms:
                    continue
                order += 1
                is_login = not has_logged_in or random() < 0.1
                has_logged_in = True
                login_kind = ("sms" if random() < 0.2 else "password") if is_login else ""
                ip = self._ip_of(account)
                rounds = 1 + int(random() * 9)
                device = account.device
                steps.append(Step(time_ms, -order, StepKind.SESSION, account, device, ip, login_kind, rounds))
        steps.sort()
        return steps

    def _ip_of(self, account: Account) -> str:
        """Home, the café's network where there is one, or somewhere in the city."""
        share = self._dice.random()
        if account.shared_ip and share < 0.4:
            return account.shared_ip
        if share < 0.8:
            return account.home_ip
        return self._population.random_ip(account.home_city)
