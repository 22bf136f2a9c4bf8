"""Building blocks of cheats and decoys: their hardness, invitations, and sessions on a shared device."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from ottla.pipeline.traffic.population import DAY_MS, MINUTE_MS, Account, Device, Population, StepKind
from ottla.pipeline.traffic.truth import Invited, Labels

WELCOME_STEPS: Final = 3
CHANNELS: Final = ("wechat", "qq", "link", "sms", "face_to_face")


class Hardness(Enum):
    """How far a cheat goes beyond a rule's limit, and how close a decoy comes to it."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"

    def choose(self, easy: int, medium: int, hard: int) -> int:
        return {Hardness.EASY: easy, Hardness.MEDIUM: medium, Hardness.HARD: hard}[self]


class Scene(NamedTuple):
    """Where every scenario writes."""

    population: Population
    labels: Labels
    hardness: Hardness

    def spaced_times(self, count: int, *, gap_min_ms: int, gap_max_ms: int, tail_ms: int = 0) -> list[int]:
        """Times with gaps from that range, scaled down if the run is too short for them."""
        population = self.population
        gaps = [population.dice.between(gap_min_ms, gap_max_ms) for _ in range(count - 1)]
        room_ms = population.end_ms - population.start_ms - tail_ms - 3 * 60 * MINUTE_MS
        if sum(gaps) > room_ms > 0:
            total = sum(gaps)
            gaps = [gap * room_ms // total for gap in gaps]
        times = [population.moment(sum(gaps) + tail_ms)]
        for gap in gaps:
            times.append(times[-1] + gap)
        return times

    def loses_interest(self) -> bool:
        """Whether an honest newcomer never comes back: the more there are, the less an idle account means."""
        chance = {Hardness.EASY: 0.0, Hardness.MEDIUM: 0.1, Hardness.HARD: 0.2}[self.hardness]
        return chance > 0 and self.population.dice.chance(chance)

    def invite(
        self,
        inviter: Account,
        invitee: Account,
        time_ms: int,
        *,
        device: Device | None = None,
        ip: str | None = None,
        is_idle: bool = False,
        is_new: bool = True,
    ) -> Invited:
        """The invitee registers, the invitation counts; an invitee that isn't idle uses the app within the hour."""
        population = self.population
        dice = population.dice
        # The run's edges must move no step, or invitations would pile up there.
        time_ms = min(max(time_ms, population.start_ms + 3 * MINUTE_MS), population.end_ms - MINUTE_MS)
        device = device or invitee.device
        ip = invitee.home_ip if ip is None else ip
        if is_new:
            joined_ms = time_ms - dice.between(40_000, 100_000)
            invitee.joined_ms = joined_ms
            population.add_step(
                StepKind.REGISTER, joined_ms, invitee, device=device, ip=ip, amount=WELCOME_STEPS if is_idle else 0
            )
        population.add_step(StepKind.INVITE, time_ms, inviter, invitee=invitee)
        if not is_idle:
            first_ms = time_ms + dice.between(2 * MINUTE_MS, 40 * MINUTE_MS)
            population.add_step(StepKind.SESSION, first_ms, invitee, device=device, ip=ip, amount=dice.between(2, 6))
        shares_network = ip.rpartition(".")[0] == inviter.home_ip.rpartition(".")[0]
        return Invited(
            time_ms,
            invitee,
            device is inviter.device,
            device is not inviter.device and device.fingerprint == inviter.device.fingerprint and shares_network,
            is_idle,
        )

    def take_turns(self, accounts: Sequence[Account], device: Device, *, day: int, turns: int) -> None:
        """Sessions of several people on one phone during a day, never two within a quarter of an hour."""
        population = self.population
        dice = population.dice
        slots = sorted(dice.shuffled(range(14, 44))[:turns])  # half hours, from seven in the morning to ten at night
        last: Account | None = None
        for slot in slots:
            account = dice.pick(accounts)
            time_ms = population.start_ms + day * DAY_MS + slot * 30 * MINUTE_MS + dice.between(0, 14 * MINUTE_MS)
            login_kind = "" if account is last else "password" if last is None else "switch"
            population.add_step(
                StepKind.SESSION, time_ms, account, device=device, login_kind=login_kind, amount=dice.between(2, 7)
            )
            last = account

    def sparse_sessions(self, account: Account, *, after_ms: int, chance_a_day: float) -> None:
        """A little use on the days after, so that not all fakes are silent for ever."""
        population = self.population
        dice = population.dice
        day_ms = after_ms + DAY_MS
        while day_ms < population.end_ms:
            if dice.chance(chance_a_day):
                population.add_step(
                    StepKind.SESSION, day_ms + dice.between(0, 600) * MINUTE_MS // 10, account, amount=3
                )
            day_ms += DAY_MS
