"""Turns steps into events: those of a session, a registration, a login, an invitation, and what they pay.

Events go on a heap by their time; whoever takes them off assigns their ids. Money is counted here, where users earn it,
so that the expected totals are exact by construction.
"""

from heapq import heappush
from typing import Final, TypeAlias

from ottla.pipeline.topics import CREDIT, EXPOSURE, INSTALL, INVITE, LEFT_SLIDE, LOGIN, RIGHT_SLIDE, TASK, VERIFY, Topic
from ottla.pipeline.traffic.population import Account, Device, Dice, Step, StepKind
from ottla.pipeline.traffic.scenarios import CHANNELS, WELCOME_STEPS
from ottla.pipeline.traffic.truth import DeviceLogin, Totals

# time, order, topic, account, device, address, payload
Pending: TypeAlias = tuple[int, int, Topic, Account, Device, str, dict[str, object]]

INVITE_BONUS: Final = 100
WELCOME_REWARD: Final = 50
INSTALL_CREDIT: Final = 20
DAILY_REWARD: Final = 10
DAILY_STEPS: Final = 4
_ADS: Final = 400
_SLOTS: Final = ("lock_top", "lock_bottom", "feed")
_PACKAGES: Final = tuple(f"com.app{number:03d}.mobile" for number in range(120))


class Activity:
    """Turns steps into events of one run; keeps the daily tasks in progress."""

    __slots__ = ("_daily_steps", "_dice", "_order", "_totals", "day_name", "pending")

    def __init__(self, dice: Dice, totals: Totals) -> None:
        self.pending: list[Pending] = []
        self.day_name = ""
        self._dice = dice
        self._totals = totals
        self._order = 0
        self._daily_steps: dict[str, int] = {}

    def start_day(self, day_name: str) -> None:
        """Daily tasks start over; unfinished ones stay unfinished."""
        self.day_name = day_name
        self._daily_steps.clear()

    def play(self, step: Step) -> None:
        """Put the step's events on the heap; none is before the step."""
        kind = step.kind
        if kind == StepKind.SESSION:
            self._session(step)
        elif kind == StepKind.REGISTER:
            self._register(step)
        elif kind == StepKind.INVITE:
            self._invite(step)
        else:
            self._login(step, step.time_ms, step.login_kind)

    def _emit(self, step: Step, topic: Topic, time_ms: int, payload: dict[str, object]) -> None:
        self._order = order = self._order + 1
        heappush(self.pending, (time_ms, order, topic, step.account, step.device, step.ip, payload))

    def _login(self, step: Step, time_ms: int, login_kind: str) -> None:
        account = step.account
        logins = self._totals.logins.get(step.device.device_id)
        if logins is not None:
            logins.append(DeviceLogin(time_ms, account.account_id))
        self._emit(step, LOGIN, time_ms, {"phone": account.phone, "login_kind": login_kind})

    def _session(self, step: Step) -> None:
        random = self._dice.random
        emit = self._emit
        time_ms = step.time_ms
        if step.login_kind:
            self._login(step, time_ms, step.login_kind)
        earned = 0
        for _ in range(step.amount):
            time_ms += 2_000 + int(random() * 20_000)
            ad_id = f"ad{int(random() * random() * _ADS):04d}"
            slot = _SLOTS[int(random() * 3)]
            emit(step, EXPOSURE, time_ms, {"ad_id": ad_id, "slot": slot})
            duration_ms = 250 + int(random() * 4_000)
            time_ms += duration_ms
            is_right = random() < 0.3
            slide = {"ad_id": ad_id, "slot": slot, "duration_ms": duration_ms}
            emit(step, RIGHT_SLIDE if is_right else LEFT_SLIDE, time_ms, slide)
            earned += 2 if is_right else 1
            if is_right and random() < 0.08:
                time_ms += 15_000 + int(random() * 60_000)
                package = _PACKAGES[int(random() * len(_PACKAGES))]
                emit(step, INSTALL, time_ms, {"package": package, "ad_id": ad_id})
                self._credit(step, time_ms + 500, INSTALL_CREDIT, "install", "install")
        if earned:
            time_ms += 400
            self._credit(step, time_ms, earned, "slide", "slide")
            chance = random()
            if chance < 0.004:
                self._credit(step, time_ms + 90_000, -1 - int(random() * earned), "correction", "slide")
            elif chance > 0.5:
                self._daily_task(step, time_ms + 1_000)

    def _register(self, step: Step) -> None:
        """First login, the code by message, and the welcome task, of which at least `amount` steps get done."""
        dice = self._dice
        time_ms = step.time_ms
        phone = step.account.phone
        if dice.chance(0.15):
            outcome = "wrong" if dice.chance(0.7) else "expired"
            self._emit(step, VERIFY, time_ms, {"phone": phone, "outcome": outcome})
            time_ms += 8_000
        self._emit(step, VERIFY, time_ms, {"phone": phone, "outcome": "ok"})
        time_ms += 500
        self._login(step, time_ms, "sms")
        steps_done = max(step.amount, WELCOME_STEPS if dice.chance(0.85) else dice.between(1, 2))
        for number in range(1, steps_done + 1):
            time_ms += dice.between(1_500, 6_000)
            self._task(step, time_ms, "welcome", number, WELCOME_STEPS, WELCOME_REWARD)
        if steps_done == WELCOME_STEPS:
            self._totals.finish_task(step.account.account_id, WELCOME_REWARD)

    def _invite(self, step: Step) -> None:
        inviter, invitee = step.account, step.invitee
        assert invitee is not None
        payload: dict[str, object] = {
            "inviter_id": inviter.account_id,
            "invitee_id": invitee.account_id,
            "invitee_phone": invitee.phone,
            "channel": self._dice.pick(CHANNELS),
        }
        self._emit(step, INVITE, step.time_ms, payload)
        self._credit(step, step.time_ms + 300, INVITE_BONUS, "invite", "invite")
        bonus = self._totals.invite_bonus
        bonus[inviter.account_id] = bonus.get(inviter.account_id, 0) + INVITE_BONUS

    def _daily_task(self, step: Step, time_ms: int) -> None:
        """The next step of the day's task; now and then it is reported twice, as clients do."""
        account_id = step.account.account_id
        done = self._daily_steps.get(account_id, 0)
        if done >= DAILY_STEPS:
            return
        done += 1
        self._daily_steps[account_id] = done
        task_id = f"daily-{self.day_name}"
        self._task(step, time_ms, task_id, done, DAILY_STEPS, DAILY_REWARD)
        if self._dice.chance(0.02):
            self._task(step, time_ms + 2_000, task_id, done, DAILY_STEPS, DAILY_REWARD)
        if done == DAILY_STEPS:
            self._totals.finish_task(account_id, DAILY_REWARD)

    def _task(self, step: Step, time_ms: int, task_id: str, number: int, steps_total: int, reward: int) -> None:
        payload = {"task_id": task_id, "step": number, "steps_total": steps_total, "reward": reward}
        self._emit(step, TASK, time_ms, payload)

    def _credit(self, step: Step, time_ms: int, credit: int, reason: str, task_id: str) -> None:
        self._totals.pay(step.account.account_id, credit)
        self._emit(step, CREDIT, time_ms, {"credit": credit, "reason": reason, "task_id": task_id})
