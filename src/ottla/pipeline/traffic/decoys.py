"""Honest users who look like cheats: the harder the run, the closer they are to a rule's limit."""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.pipeline.traffic.population import DAY_MS, HOUR_MS, MINUTE_MS, Account, Device, StepKind
from ottla.pipeline.traffic.scenarios import Hardness, Scene
from ottla.pipeline.traffic.truth import DecoyLabel, DeviceLabel, Invited, invite_rules


def family_phone(scene: Scene) -> None:
    """Parent and child on one phone; in the hardest run also a third person, on other days."""
    population, labels, hardness = scene
    dice = population.dice
    city = population.random_city()
    device = population.new_device()
    family = [_member(scene, city, device) for _ in range(3 if hardness is Hardness.HARD else 2)]
    labels.devices.append(DeviceLabel(device, "family_phone", is_decoy=True))
    invited = []
    first_day = 0
    if dice.chance(0.5):
        # The one honest invitation on a shared device.
        time_ms = population.start_ms + dice.between(9 * 60, 20 * 60) * MINUTE_MS
        invited = [scene.invite(family[0], family[1], time_ms, is_idle=False)]
        first_day = 1 if hardness is not Hardness.HARD else 4
    for day in range(first_day, population.days):
        if len(family) == 2:
            scene.take_turns(family, device, day=day, turns=dice.between(2, hardness.choose(4, 7, 7)))
        elif day % 4 == 0:
            scene.take_turns(family[:2], device, day=day, turns=dice.between(4, 8))
        elif day % 4 == 2:
            scene.take_turns(family[2:], device, day=day, turns=dice.between(1, 3))
    _label(scene, "family_phone", family, [device], family[0], invited)


def cafe_network(scene: Scene) -> None:
    """Guests of a café behind one address; one of them tells two others about the app."""
    population = scene.population
    city = population.random_city()
    ip = population.random_ip(city)
    guests = [_user(scene, city) for _ in range(population.dice.between(8, 14))]
    for guest in guests:
        guest.shared_ip = ip
    invited = []
    for guest, time_ms in zip(guests[1:3], _evenings(scene, 2), strict=True):
        invited.append(scene.invite(guests[0], guest, time_ms, ip=ip))
    _label(scene, "cafe_network", guests, [], guests[0], invited)


def campus_network(scene: Scene) -> None:
    """Students behind one /24 with a few popular phones; one invites friends, some with her model."""
    population, _, hardness = scene
    dice = population.dice
    city = population.random_city()
    network_ip = population.random_ip(city)
    models = [population.new_device() for _ in range(3)]
    students = []
    for _ in range(dice.between(12, 22)):
        student = _user(scene, city, population.new_device(like=dice.pick(models)))
        student.home_ip = population.near_ip(network_ip)
        students.append(student)
    inviter, *others = students
    friends = hardness.choose(2, 3, 4)
    same_model = hardness.choose(0, 1, 2)
    invited = []
    for index, time_ms in enumerate(_evenings(scene, friends)):
        friend = others[index]
        friend.device = population.new_device(like=inviter.device if index < same_model else None)
        invited.append(scene.invite(inviter, friend, time_ms))
    _label(scene, "campus_network", students, [], inviter, invited)


def resold_device(scene: Scene) -> None:
    """A phone is sold: days apart, or in the hardest run within the day."""
    population, labels, hardness = scene
    dice = population.dice
    device = population.new_device()
    seller = _member(scene, population.random_city(), device)
    buyer = _member(scene, population.random_city(), device)
    labels.devices.append(DeviceLabel(device, "resold_device", is_decoy=True))
    gap_days = min(hardness.choose(3, 1, 0), max(population.days - 2, 0))
    last_day = dice.between(0, max(population.days - 2 - gap_days, 0))
    new_phone = population.new_device()
    for day in range(population.days):
        if day < last_day:
            scene.take_turns([seller], device, day=day, turns=dice.between(1, 4))
        elif day == last_day:
            # Noon at the latest, so that a buyer of the same day has the evening.
            time_ms = population.start_ms + day * DAY_MS + dice.between(8 * 60, 12 * 60) * MINUTE_MS
            population.add_step(StepKind.SESSION, time_ms, seller, device=device, login_kind="password", amount=4)
        else:
            scene.take_turns([seller], new_phone, day=day, turns=dice.between(1, 3))
    first_ms = population.start_ms + (last_day + gap_days) * DAY_MS + dice.between(18 * 60, 21 * 60) * MINUTE_MS
    population.add_step(StepKind.SESSION, first_ms, buyer, device=device, login_kind="password", amount=5)
    for day in range(last_day + gap_days + 1, population.days):
        scene.take_turns([buyer], device, day=day, turns=dice.between(1, 4))
    _label(scene, "resold_device", [seller, buyer], [device], None, [])


def super_inviter(scene: Scene) -> None:
    """Someone with many real friends, nearly all of whom use the app."""
    population, _, hardness = scene
    dice = population.dice
    inviter = _user(scene, population.random_city())
    a_day = hardness.choose(4, 8, 12)
    count = min(hardness.choose(15, 25, 40), max(1, a_day * (population.days - 1)) if population.days > 1 else a_day)
    local_share = {"easy": 0.8, "medium": 0.6, "hard": 0.1}[hardness.value]
    friends = []
    invited = []
    for index in range(count):
        city = inviter.home_city if dice.chance(local_share) else population.random_city(other_than=inviter.home_city)
        friend = _user(scene, city)
        friend.is_scripted = scene.loses_interest()
        friends.append(friend)
        # Day after day, in groups no larger than a good chat brings.
        day, place = divmod(index, a_day)
        group, member = divmod(place, hardness.choose(2, 3, 4))
        time_ms = population.start_ms + day * DAY_MS + 9 * HOUR_MS + group * 100 * MINUTE_MS + member * 80_000
        time_ms += dice.between(0, 20_000)
        invited.append(scene.invite(inviter, friend, time_ms, is_idle=friend.is_scripted))
    _label(scene, "super_inviter", [inviter, *friends], [], inviter, invited)


class DecoyKind(NamedTuple):
    """A kind, the most accounts it takes, and the smallest run with room for it."""

    plant: Callable[[Scene], None]
    size: tuple[int, int, int]
    accounts_min: int = 0


DECOYS: Final = (
    DecoyKind(family_phone, (2, 2, 3)),
    DecoyKind(resold_device, (2, 2, 2)),
    DecoyKind(cafe_network, (14, 14, 14)),
    DecoyKind(campus_network, (22, 22, 22)),
    DecoyKind(super_inviter, (16, 26, 41), accounts_min=300),
)


def _user(scene: Scene, city: int, device: Device | None = None) -> Account:
    """Uses the app in a normal daily rhythm."""
    return scene.population.new_account(home_city=city, device=device)


def _member(scene: Scene, city: int, device: Device) -> Account:
    account = scene.population.new_account(home_city=city, device=device)
    account.is_scripted = True
    return account


def _evenings(scene: Scene, count: int) -> list[int]:
    """Times hours or days apart."""
    return scene.spaced_times(count, gap_min_ms=2 * HOUR_MS, gap_max_ms=20 * HOUR_MS)


def _label(
    scene: Scene,
    kind: str,
    accounts: list[Account],
    devices: list[Device],
    inviter: Account | None,
    invited: list[Invited],
) -> None:
    scene.labels.decoys.append(
        DecoyLabel(
            kind,
            [account.account_id for account in accounts],
            [device.device_id for device in devices],
            inviter.account_id if inviter is not None and invited else None,
            invite_rules(invited),
        )
    )
