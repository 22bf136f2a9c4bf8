"""Traffic of another author's habits: other ids, other paces, newcomers who leave, addresses that mean nothing.

Written apart from the generator, to see whether the detectors have learnt cheating or only its traffic.
"""

from random import Random
from typing import Any

from ottla.pipeline.topics import EXPOSURE, INVITE, LEFT_SLIDE, LOGIN, RIGHT_SLIDE, TASK, VERIFY

DAY_MS = 24 * 3_600_000
MINUTE_MS = 60_000
START_MS = 1_760_000_000_000
PREFIXES = ["1300010", "1300020", "1300040", "1300810", "1300098", "1300750", "1300865", "1300731"]


class OtherTraffic:
    """`events` (topic, value), and who cheats."""

    def __init__(self, seed: int, *, days: int = 6) -> None:
        self.random = Random(seed)
        self.days = days
        self.end_ms = START_MS + days * DAY_MS
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.cheating_inviters: dict[str, str] = {}
        self.cheating_devices: dict[str, str] = {}
        self.leaving = self.random.uniform(0.05, 0.3)
        self._count = 0
        for make in (self._users, self._honest, self._inviting_cheats, self._devices):
            make()
        self.events.sort(key=lambda event: (event[1]["event_time"], event[1]["event_id"]))

    def person(self, **given: Any) -> dict[str, Any]:
        self._count += 1
        random = self.random
        prefix = given.get("prefix") or random.choice(PREFIXES)
        return {
            "account_id": f"acct-{self._count}",
            "device_id": f"{random.getrandbits(60):015x}",
            "fingerprint": f"model{int(random.random() ** 2 * 400)}",
            "ip": f"{random.randrange(1, 223)}.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(256)}",
            "phone": f"+86{prefix}{random.randrange(10_000):04d}",
            "prefix": prefix,
        } | given

    def emit(self, topic: str, who: dict[str, Any], time_ms: int, **payload: Any) -> None:
        if START_MS <= time_ms < self.end_ms:
            envelope = {name: who[name] for name in ("account_id", "device_id", "fingerprint", "ip")}
            value = {"event_id": f"x{len(self.events)}", "event_time": int(time_ms), **envelope, **payload}
            self.events.append((topic, value))

    def join(self, who: dict[str, Any], time_ms: int) -> None:
        self.emit(VERIFY.name, who, time_ms, phone=who["phone"], outcome="ok")
        self.emit(LOGIN.name, who, time_ms + 1_000, phone=who["phone"], login_kind="sms")
        for step in (1, 2):
            self.emit(TASK.name, who, time_ms + 5_000 * step, task_id="first", step=step, steps_total=2, reward=9)

    def live(self, who: dict[str, Any], from_ms: int, *, until_ms: int | None = None) -> None:
        random = self.random
        time_ms = from_ms + random.uniform(1, 300) * MINUTE_MS
        while time_ms < (until_ms or self.end_ms):
            if random.random() < 0.5:
                self.emit(LOGIN.name, who, time_ms, phone=who["phone"], login_kind="password")
            for turn in range(random.randrange(1, 6)):
                self.emit(EXPOSURE.name, who, time_ms + turn * 20_000, ad_id="a")
                slide = LEFT_SLIDE if random.random() < 0.6 else RIGHT_SLIDE
                self.emit(slide.name, who, time_ms + turn * 20_000 + 3_000, ad_id="a")
            time_ms += random.expovariate(1 / (9 * 60)) * MINUTE_MS

    def invite(self, inviter: dict[str, Any], invitee: dict[str, Any], time_ms: float, *, is_idle: bool) -> None:
        time_ms = int(time_ms)
        self.join(invitee, time_ms - 90_000)
        self.emit(
            INVITE.name,
            inviter,
            time_ms,
            inviter_id=inviter["account_id"],
            invitee_id=invitee["account_id"],
            invitee_phone=invitee["phone"],
            channel="link",
        )
        if not is_idle:
            self.live(invitee, time_ms)

    def moment(self, room_ms: int = 2 * DAY_MS) -> float:
        return START_MS + self.random.uniform(0, self.end_ms - START_MS - room_ms)

    def _inviter(self, kind: str | None = None, **given: Any) -> dict[str, Any]:
        inviter = self.person(**given)
        self.live(inviter, START_MS)
        if kind:
            self.cheating_inviters[inviter["account_id"]] = kind
        return inviter

    def _leaves(self) -> bool:
        return self.random.random() < self.leaving

    def _users(self) -> None:
        for _ in range(60):
            inviter = self._inviter()
            for _ in range(self.random.choice((0, 0, 1, 1, 2, 3, 5))):
                self.invite(inviter, self.person(), self.moment(), is_idle=self._leaves())

    def _honest(self) -> None:
        random = self.random
        for _ in range(3):  # a link in busy group chats
            inviter = self._inviter()
            for _ in range(random.randrange(2, 5)):
                time_ms = self.moment()
                for index in range(random.randrange(4, 12)):
                    self.invite(
                        inviter, self.person(), time_ms + index * random.uniform(20, 50) * 1_000, is_idle=self._leaves()
                    )
        for _ in range(4):  # a family's phone
            mother = self.person()
            child = self.person(**{name: mother[name] for name in ("device_id", "fingerprint", "ip")})
            self.live(mother, START_MS)
            self.invite(mother, child, self.moment(), is_idle=False)
        for _ in range(2):  # a campus
            models = [f"campus{index}" for index in range(4)]
            net = f"59.{random.randrange(256)}.{random.randrange(256)}"
            students = [
                self.person(fingerprint=random.choice(models), ip=f"{net}.{random.randrange(1, 9)}") for _ in range(20)
            ]
            for student in (students[0], *students[7:]):
                self.live(student, START_MS)
            for student in students[1:7]:
                self.invite(students[0], student, self.moment(), is_idle=self._leaves())
        mover = self._inviter(prefix=PREFIXES[0])  # lives elsewhere, invites the people there
        for _ in range(4):
            self.invite(mover, self.person(prefix=PREFIXES[3], ip=mover["ip"]), self.moment(), is_idle=False)
        device = self.person()  # sold
        self.live(device, START_MS, until_ms=START_MS + 2 * DAY_MS)
        self.live(self.person(device_id=device["device_id"]), START_MS + 2 * DAY_MS)

    def _inviting_cheats(self) -> None:
        random = self.random
        for _ in range(2):
            one_phone = self._inviter("shared_device")
            for _ in range(random.randrange(2, 5)):
                fake = self.person(**{name: one_phone[name] for name in ("device_id", "fingerprint", "ip")})
                self.invite(one_phone, fake, self.moment(), is_idle=random.random() < 0.5)
            emulators = self._inviter("emulators")
            for _ in range(random.randrange(4, 11)):
                fake = self.person(fingerprint=emulators["fingerprint"], ip=emulators["ip"])
                self.invite(emulators, fake, self.moment(), is_idle=random.random() < 0.5)
            box = self._inviter("sim_box")
            first = random.randrange(9_900)
            for index in range(random.randrange(3, 10)):
                phone = f"+86{box['prefix']}{first + index * random.randrange(1, 3):04d}"
                self.invite(box, self.person(phone=phone), self.moment(), is_idle=random.random() < 0.3)
            idle = self._inviter("idle")
            for _ in range(random.randrange(6, 30)):
                self.invite(idle, self.person(), self.moment(), is_idle=random.random() < 0.92)
            script = self._inviter("script")
            time_ms = self.moment()
            for index in range(random.randrange(8, 30)):
                self.invite(script, self.person(), time_ms + index * 6_000, is_idle=random.random() < 0.7)
            far = self._inviter("far", prefix=PREFIXES[1])
            abroad = random.sample([each for each in PREFIXES if each != PREFIXES[1]], random.randrange(1, 4))
            for _ in range(random.randrange(6, 12)):
                ip = far["ip"].rpartition(".")[0] + f".{random.randrange(256)}"
                fake = self.person(prefix=random.choice(abroad), ip=ip)
                self.invite(far, fake, self.moment(), is_idle=random.random() < 0.6)
            ring = [self.person() for _ in range(random.randrange(2, 8))]
            for inviter, invitee in zip(ring, [*ring[1:], ring[0]], strict=True):
                self.cheating_inviters[inviter["account_id"]] = "ring"
                self.invite(inviter, invitee, self.moment(), is_idle=random.random() < 0.5)

    def _devices(self) -> None:
        random = self.random
        for _ in range(3):
            first = self.person()
            farm = [first, *(self.person(device_id=first["device_id"]) for _ in range(random.randrange(2, 9)))]
            time_ms = self.moment()
            for index, who in enumerate(farm):
                self.emit(
                    LOGIN.name,
                    who,
                    time_ms + index * 20 * 3_600_000 // len(farm),
                    phone=who["phone"],
                    login_kind="switch",
                )
            self.cheating_devices[first["device_id"]] = "farm"
            first = self.person()
            pair = [first, self.person(device_id=first["device_id"])]
            time_ms = self.moment()
            for index in range(random.randrange(9, 20)):
                who = pair[index % 2]
                self.emit(LOGIN.name, who, time_ms + index * 25_000, phone=who["phone"], login_kind="switch")
            self.cheating_devices[first["device_id"]] = "ping_pong"
        # Phones whose inviters made accounts on them within a day.
        on_device: dict[str, list[tuple[int, str]]] = {}
        for topic, value in self.events:
            if topic == LOGIN.name:
                on_device.setdefault(value["device_id"], []).append((value["event_time"], value["account_id"]))
        for device_id, logins in on_device.items():
            for time_ms, _ in logins:
                if len({each for other_ms, each in logins if 0 <= time_ms - other_ms < DAY_MS}) >= 3:
                    self.cheating_devices.setdefault(device_id, "made_here")
