"""The planted cheats, one function for each kind, from plain to careful by the hardness of the run.

Each creates its own accounts and returns nothing: steps go to the population, labels to the truth. The most careful
inviters know the rules and stay just under each of them; they are found because they nearly meet several at once. Only
rings have no "just under": a cycle either exists or not.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.pipeline.traffic.population import DAY_MS, HOUR_MS, MINUTE_MS, Account, Device, StepKind
from ottla.pipeline.traffic.scenarios import Hardness, Scene
from ottla.pipeline.traffic.truth import DeviceLabel, Invited, InviterLabel, invite_rules


def many_accounts(scene: Scene) -> None:
    """A farm: one phone, one account after the other, within a day."""
    population, labels, hardness = scene
    dice = population.dice
    low, high = hardness.choose(6, 4, 3), hardness.choose(10, 6, 4)
    span_ms = hardness.choose(3, 11, 23) * HOUR_MS
    city = population.random_city()
    device = population.new_device()
    farm = [_scripted(scene, city, device=device) for _ in range(dice.between(low, high))]
    labels.devices.append(DeviceLabel(device, "many_accounts"))
    first_ms = population.moment(span_ms)
    first_day = (first_ms - population.start_ms) // DAY_MS
    for day in range(population.days):
        is_working_day = day == first_day or dice.chance({"easy": 0.9, "medium": 0.5, "hard": 0.1}[hardness.value])
        if not is_working_day:
            if hardness is not Hardness.EASY:
                scene.take_turns(farm[:1], device, day=day, turns=2)
            continue
        begin_ms = first_ms + (day - first_day) * DAY_MS
        for index, account in enumerate(dice.shuffled(farm)):
            # A little before the even share, so that the last one is certainly within the span.
            time_ms = begin_ms + index * span_ms // len(farm) + dice.between(0, span_ms // len(farm) // 3)
            if time_ms + 10 * MINUTE_MS < population.end_ms:
                population.add_step(StepKind.SESSION, time_ms, account, login_kind="switch", amount=dice.between(2, 9))


def ping_pong(scene: Scene) -> None:
    """Two accounts on one phone, back and forth within minutes."""
    population, labels, hardness = scene
    dice = population.dice
    city = population.random_city()
    device = population.new_device()
    pair = [_scripted(scene, city, device=device) for _ in range(2)]
    labels.devices.append(DeviceLabel(device, "ping_pong"))
    logins = dice.between(hardness.choose(14, 10, 9), hardness.choose(20, 12, 9))
    span_ms = hardness.choose(300, 530, 590) * 1000
    first_ms = population.moment(span_ms)
    switching_day = (first_ms - population.start_ms) // DAY_MS
    for index in range(logins):
        time_ms = first_ms + index * span_ms // (logins - 1)
        account = pair[index % 2]
        population.add_step(StepKind.SESSION, time_ms, account, login_kind="switch", amount=dice.between(0, 2))
    for day in range(population.days):
        if day != switching_day:
            scene.take_turns(pair, device, day=day, turns=dice.between(1, 4))


def shared_device(scene: Scene) -> None:
    """Invitees created on the inviter's own phone; careful cheats reset it, and keep model and network."""
    population, _, hardness = scene
    inviter = _inviter(scene)
    count = hardness.choose(8, 6, 8)
    on_own_phone = hardness.choose(8, 4, 1)
    on_same_model = hardness.choose(0, 1, 2)
    times = scene.spaced_times(
        count,
        gap_min_ms=hardness.choose(20, 120, 300) * MINUTE_MS,
        gap_max_ms=hardness.choose(40, 280, 600) * MINUTE_MS,
        tail_ms=_tail_ms(hardness),
    )
    invited = []
    for index, time_ms in enumerate(times):
        # The one on the careful cheat's own phone looks alive, as a child's account would.
        is_idle = index >= 3 if hardness is Hardness.HARD else _is_idle(hardness, index)
        if index < on_own_phone:
            invitee = _scripted(scene, inviter.home_city, device=inviter.device)
            ip = inviter.home_ip
        elif index < on_own_phone + on_same_model:
            device = population.new_device(like=inviter.device)
            invitee = _scripted(scene, inviter.home_city, device=device)
            ip = population.near_ip(inviter.home_ip)
        else:
            invitee = _scripted(scene, inviter.home_city)
            ip = invitee.home_ip
        invitee.home_ip = ip
        invited.append(scene.invite(inviter, invitee, time_ms, ip=ip, is_idle=is_idle))
    if on_own_phone > 1:
        scene.labels.devices.append(DeviceLabel(inviter.device, "shared_device"))
    _label(scene, inviter, "shared_device", invited)


def burst(scene: Scene) -> None:
    """Many invitations within five minutes; careful cheats stop at five, and go on hours later."""
    hardness = scene.hardness
    count = hardness.choose(20, 9, 5)
    span_ms = hardness.choose(120, 270, 285) * 1000
    rounds = hardness.choose(1, 1, 2)
    pause_ms = 3 * HOUR_MS
    first_ms = scene.population.moment(span_ms + (rounds - 1) * pause_ms + DAY_MS)
    times = [
        first_ms + each * pause_ms + index * span_ms // (count - 1) for each in range(rounds) for index in range(count)
    ]
    _farm(scene, "burst", times)


def daily_volume(scene: Scene) -> None:
    """More invitations in a day than anyone has friends for, evenly spread."""
    hardness = scene.hardness
    count = hardness.choose(60, 35, 15)
    gap_ms = 14 * HOUR_MS // count
    times = scene.spaced_times(count, gap_min_ms=gap_ms * 4 // 5, gap_max_ms=gap_ms, tail_ms=DAY_MS)
    _farm(scene, "daily_volume", times)


def idle_invitees(scene: Scene) -> None:
    """Accounts that register, do the rewarded task, and never come back."""
    hardness = scene.hardness
    count, idle = hardness.choose(10, 7, 8), hardness.choose(10, 6, 6)
    times = scene.spaced_times(
        count, gap_min_ms=30 * MINUTE_MS, gap_max_ms=hardness.choose(90, 240, 600) * MINUTE_MS, tail_ms=DAY_MS + HOUR_MS
    )
    inviter = _inviter(scene)
    # Three of four idle invitees are fewer than the rule needs, and so are two numbers in a row.
    first_number = scene.population.keep_run(inviter.home_city, 1) if hardness is Hardness.HARD else None
    invited = []
    for index, time_ms in enumerate(times):
        invitee = _scripted(scene, inviter.home_city)
        if first_number is not None and index < 2:
            scene.population.set_number(invitee, inviter.home_city, first_number + index)
        invited.append(scene.invite(inviter, invitee, time_ms, is_idle=index < idle))
    _label(scene, inviter, "idle_invitees", invited)


def neighbour_numbers(scene: Scene) -> None:
    """SIM cards bought by the box: their numbers are neighbours; careful cheats mix boxes, two cards of each."""
    population, _, hardness = scene
    count = hardness.choose(8, 6, 8)
    neighbours, span = hardness.choose(8, 4, 2), hardness.choose(8, 15, 20)
    boxes = hardness.choose(1, 1, 3)
    inviter = _inviter(scene)
    city = inviter.home_city
    first_numbers = [population.keep_run(city, span) for _ in range(boxes)]
    times = population.dice.shuffled(
        scene.spaced_times(
            count,
            gap_min_ms=15 * MINUTE_MS,
            gap_max_ms=hardness.choose(60, 200, 500) * MINUTE_MS,
            tail_ms=_tail_ms(hardness),
        )
    )
    invited = []
    for index, time_ms in enumerate(times):
        invitee = _scripted(scene, city)
        if index < neighbours * boxes:
            first_number = first_numbers[index // neighbours]
            population.set_number(invitee, city, first_number + index % neighbours * span // neighbours)
        invited.append(scene.invite(inviter, invitee, time_ms, is_idle=_is_idle(hardness, index)))
    _label(scene, inviter, "neighbour_numbers", invited)


def region_mismatch(scene: Scene) -> None:
    """Numbers of one far province, accounts that appear in the inviter's city; careful cheats mix in local ones."""
    population, _, hardness = scene
    count, foreign = hardness.choose(8, 7, 7), hardness.choose(8, 6, 5)
    inviter = _inviter(scene)
    far_city = population.random_city(other_than=inviter.home_city)
    times = scene.spaced_times(
        count,
        gap_min_ms=15 * MINUTE_MS,
        gap_max_ms=hardness.choose(60, 200, 500) * MINUTE_MS,
        tail_ms=_tail_ms(hardness),
    )
    invited = []
    for index, time_ms in enumerate(times):
        phone_city = far_city if index < foreign else inviter.home_city
        invitee = population.new_account(home_city=inviter.home_city, phone_city=phone_city)
        invitee.is_scripted = True
        invited.append(scene.invite(inviter, invitee, time_ms, is_idle=_is_idle(hardness, index)))
    _label(scene, inviter, "region_mismatch", invited)


def ring_cycle(scene: Scene) -> None:
    """Each account invites the next, and the last invites the first."""
    population, _, hardness = scene
    size = hardness.choose(3, 4, 6)
    gap_ms = hardness.choose(90, 300, 900) * MINUTE_MS
    times = scene.spaced_times(size, gap_min_ms=gap_ms // 2, gap_max_ms=gap_ms)
    city = population.random_city()
    device = population.new_device() if hardness is Hardness.EASY else None
    members = [_scripted(scene, city, device=device) for _ in range(size)]
    members[0].is_scripted = False
    if device is not None:
        scene.labels.devices.append(DeviceLabel(device, "ring_cycle"))
    for index, time_ms in enumerate(times):
        inviter, invitee = members[index], members[(index + 1) % size]
        invited = scene.invite(
            inviter, invitee, time_ms, is_idle=_is_idle(hardness, index) and index < size - 1, is_new=index < size - 1
        )
        _label(scene, inviter, "ring_cycle", [invited], ring_known_ms=times[-1])


def ring_device(scene: Scene) -> None:
    """A chain of invitations on one phone: each account invites the next and is left behind."""
    population, labels, hardness = scene
    size = hardness.choose(6, 5, 4)
    gap_ms = hardness.choose(50, 400, 26 * 60) * MINUTE_MS
    times = scene.spaced_times(size - 1, gap_min_ms=gap_ms * 98 // 100, gap_max_ms=gap_ms)
    device = population.new_device()
    city = population.random_city()
    members = [_scripted(scene, city, device=device) for _ in range(size)]
    labels.devices.append(DeviceLabel(device, "ring_device"))
    for account in members[1:]:
        account.home_ip = members[0].home_ip
    population.add_step(StepKind.SESSION, times[0] - gap_ms // 2, members[0], login_kind="password", amount=3)
    for index, time_ms in enumerate(times):
        inviter, invitee = members[index], members[index + 1]
        invited = scene.invite(inviter, invitee, time_ms, is_idle=hardness is Hardness.EASY)
        _label(scene, inviter, "ring_device", [invited], ring_known_ms=times[2])


class CheatKind(NamedTuple):
    """A kind and the most accounts it takes; `accounts_min` is the smallest run with room for it."""

    plant: Callable[[Scene], None]
    size: tuple[int, int, int]
    accounts_min: int = 0


CHEATS: Final = (
    CheatKind(many_accounts, (10, 6, 4)),
    CheatKind(ping_pong, (2, 2, 2)),
    CheatKind(shared_device, (9, 7, 9)),
    CheatKind(burst, (21, 10, 11)),
    CheatKind(idle_invitees, (11, 8, 9)),
    CheatKind(neighbour_numbers, (9, 7, 9)),
    CheatKind(region_mismatch, (9, 8, 8)),
    CheatKind(ring_cycle, (3, 4, 6)),
    CheatKind(ring_device, (6, 5, 4)),
    CheatKind(daily_volume, (61, 36, 16), accounts_min=500),
)


def _farm(scene: Scene, kind: str, times: Sequence[int]) -> None:
    """Invitees on phones of their own, as many as there are times."""
    inviter = _inviter(scene)
    invited = []
    for index, time_ms in enumerate(times):
        invitee = _scripted(scene, inviter.home_city)
        is_idle = _is_idle(scene.hardness, index)
        invited.append(scene.invite(inviter, invitee, time_ms, is_idle=is_idle))
        if not is_idle:
            scene.sparse_sessions(invitee, after_ms=time_ms, chance_a_day=0.4)
    _label(scene, inviter, kind, invited)


def _inviter(scene: Scene) -> Account:
    """Also uses the app like any other user."""
    return scene.population.new_account(home_city=scene.population.random_city())


def _scripted(scene: Scene, city: int, *, device: Device | None = None) -> Account:
    account = scene.population.new_account(home_city=city, device=device)
    account.is_scripted = True
    return account


def _tail_ms(hardness: Hardness) -> int:
    """Careful cheats are found by what their fakes leave undone: the run must be long enough to see it."""
    return DAY_MS + HOUR_MS if hardness is Hardness.HARD else 0


def _is_idle(hardness: Hardness, index: int) -> bool:
    """Plain cheats leave all their fakes idle, others every second one; careful cheats know the rule's share."""
    if hardness is Hardness.HARD:
        return index % 3 != 1
    return hardness is Hardness.EASY or index % 2 == 0


def _label(
    scene: Scene, inviter: Account, kind: str, invited: list[Invited], *, ring_known_ms: int | None = None
) -> None:
    rules = invite_rules(invited)
    if ring_known_ms is not None:
        rules[kind] = ring_known_ms
    scene.labels.inviters.append(InviterLabel(inviter, kind, rules, invited))
