"""Whether an inviter cheats: a score with its breakdown, a pure function of the facts about one inviter.

Invitations that follow each other without a long pause are one campaign and get one verdict; each campaign above the
limit is an alert. Evidence about groups counts in proportion, so several rules that were just missed still add up.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.pipeline.detection.alerts import InviteAlert
from ottla.pipeline.detection.evidence import Evidence, combined
from ottla.pipeline.detection.facts import DAY_MS, Invite, Life, Region, Sighting
from ottla.pipeline.detection.networks import wider
from ottla.pipeline.detection.private_numbers import largest_neighbourhood
from ottla.pipeline.detection.thresholds import InviteThresholds

_GROUP_MIN: Final = 3  # fewer are no group

RegionOfNetwork = Callable[[str], Region | None]


class InviterFacts(NamedTuple):
    """All facts that decide about one inviter; mappings may hold more accounts than the rules need."""

    inviter_id: str
    invites: Collection[Invite]
    sightings: Mapping[str, Collection[Sighting]]
    places: Mapping[str, Collection[Region]]
    lives: Mapping[str, Life]
    ancestors: Collection[str]  # accounts from which invitations lead to the inviter
    rings: Sequence[frozenset[str]]  # accounts of one device that invited each other, this one among them


def invite_alerts(
    facts: InviterFacts,
    limits: InviteThresholds,
    *,
    clock_ms: int,
    region_of_network: RegionOfNetwork | None = None,
    from_ms: int = 0,
) -> list[InviteAlert]:
    """The alerts of one inviter as of `clock_ms`, in the order of their campaigns.

    `region_of_network` is the table of addresses, where there is one. Campaigns that ended before `from_ms` are not
    judged again.
    """
    alerts = []
    for campaign in campaigns(facts.invites, limits):
        if campaign[-1].event_time_ms < from_ms:
            continue
        found = _evidence(facts, campaign, limits, clock_ms, region_of_network)
        verdict = combined(found, alert_score=limits.alert_score)
        if verdict.is_alert:
            invitees = sorted(invite.invitee_id for invite in campaign)
            alerts.append(InviteAlert(facts.inviter_id, campaign[0].event_time_ms, invitees, verdict))
    return alerts


def campaigns(invites: Iterable[Invite], limits: InviteThresholds) -> list[list[Invite]]:
    """An invitee counts once in a campaign, with its first invitation."""
    found: list[list[Invite]] = []
    counted: set[str] = set()
    last_ms = 0
    for invite in sorted(set(invites)):
        if not found or invite.event_time_ms - last_ms > limits.campaign_gap_ms:
            found.append([])
            counted = set()
        last_ms = invite.event_time_ms
        if invite.invitee_id not in counted:
            counted.add(invite.invitee_id)
            found[-1].append(invite)
    return found


def last_closed_ms(invites: Iterable[Invite], limits: InviteThresholds, *, from_ms: int) -> int:
    """The last moment of the campaigns that ended before `from_ms`; -1 if none did."""
    if from_ms <= 0:
        return -1
    ends = (campaign[-1].event_time_ms for campaign in campaigns(invites, limits))
    return max((end_ms for end_ms in ends if end_ms < from_ms), default=-1)


def due_times(invite: Invite, limits: InviteThresholds) -> tuple[int, ...]:
    """When time alone may change the verdict about this invitation."""
    return (invite.event_time_ms + limits.lone_device_wait_ms, invite.event_time_ms + limits.idle_span_ms)


def _evidence(
    facts: InviterFacts,
    campaign: Sequence[Invite],
    limits: InviteThresholds,
    clock_ms: int,
    region_of_network: RegionOfNetwork | None,
) -> Iterator[Evidence]:
    yield from _shared_device(facts, campaign, limits, clock_ms)
    yield from _shared_fingerprint(facts, campaign, limits)
    yield from _speed(campaign, limits)
    yield from _idle(facts, campaign, limits, clock_ms)
    yield from _neighbours(campaign, limits)
    if region_of_network is None:
        yield from _region_of_inviter(facts, campaign, limits)
    else:
        yield from _region_of_addresses(facts, campaign, limits, region_of_network)
    yield from _rings(facts, campaign, limits)


def _devices(facts: InviterFacts, account_id: str) -> set[str]:
    return {sighting.device_id for sighting in facts.sightings.get(account_id, ()) if sighting.device_id}


def _is_idle(facts: InviterFacts, invite: Invite, limits: InviteThresholds) -> bool:
    """Shows fewer signs of life than a user; final once the span has passed."""
    life = facts.lives.get(invite.invitee_id)
    signs = 0 if life is None else life.signs_until(invite.event_time_ms + limits.idle_span_ms)
    return signs < limits.signs_of_life


def _shared_device(
    facts: InviterFacts, campaign: Sequence[Invite], limits: InviteThresholds, clock_ms: int
) -> Iterator[Evidence]:
    """Counted over all campaigns: a phone stays the same phone."""
    own = _devices(facts, facts.inviter_id)
    sharing = [invite for invite in campaign if own & _devices(facts, invite.invitee_id)]
    if not sharing:
        return
    ever = {invite.invitee_id for invite in facts.invites if own & _devices(facts, invite.invitee_id)}
    figures = {"invitees": len(ever)}
    if len(ever) >= limits.shared_device_invitees:
        why = f"{len(ever)} invitees on the inviter's own device"
        yield Evidence("shared_device", "device", limits.shared_device_weight, True, why, figures)
    elif all(
        clock_ms >= invite.event_time_ms + limits.lone_device_wait_ms and _is_idle(facts, invite, limits)
        for invite in sharing
    ):
        why = "an invitee on the inviter's own device who does not use the app"
        yield Evidence("shared_device", "device", limits.shared_device_weight, True, why, figures)
    else:
        why = "an invitee on the inviter's own device who may be family"
        yield Evidence("shared_device", "device", limits.lone_device_weight, False, why, figures)


def _shared_fingerprint(
    facts: InviterFacts, campaign: Sequence[Invite], limits: InviteThresholds
) -> Iterator[Evidence]:
    """Another device of the same model from the same network: a phone that was reset, or a campus."""
    own_devices = _devices(facts, facts.inviter_id)
    own = {(each.fingerprint, each.network) for each in facts.sightings.get(facts.inviter_id, ())}
    sharing = 0
    for invite in campaign:
        theirs = facts.sightings.get(invite.invitee_id, ())
        is_like = any(each.fingerprint and each.network and (each.fingerprint, each.network) in own for each in theirs)
        sharing += is_like and not own_devices & _devices(facts, invite.invitee_id)
    if not sharing:
        return
    is_much = sharing >= limits.shared_fingerprint_invitees
    weight = limits.some_fingerprint_weight
    if is_much:
        share = sharing / len(campaign)
        proportion = _proportion(share, limits.shared_fingerprint_share_honest, limits.shared_fingerprint_share)
        weight = max(weight, limits.shared_fingerprint_weight * proportion)
    why = f"{sharing} of {len(campaign)} invitees with the inviter's phone model and network"
    figures = {"invitees": sharing, "of": len(campaign)}
    yield Evidence("shared_fingerprint_ip", "model", weight, is_much, why, figures)


def _speed(campaign: Sequence[Invite], limits: InviteThresholds) -> Iterator[Evidence]:
    """In proportion, from a third of the limit on: two friends at once mean nothing."""
    times = [invite.event_time_ms for invite in campaign]
    for rule, more_than, span_ms, name in (
        ("burst", limits.burst_invites, limits.burst_span_ms, f"{limits.burst_span_ms // 1000} s"),
        ("daily_volume", limits.daily_invites, DAY_MS, "24 h"),
    ):
        most = _most_within(times, span_ms)
        usual = more_than // 3 + 1
        weight = limits.speed_weight * _proportion(most, usual, more_than + 1)
        yield Evidence(rule, "speed", weight, False, f"{most} invites in {name}", {"invites": most, "span_ms": span_ms})


def _most_within(times: Sequence[int], span_ms: int) -> int:
    most = first = 0
    for index, time_ms in enumerate(times):
        while time_ms - times[first] > span_ms:
            first += 1
        most = max(most, index - first + 1)
    return most


def _idle(
    facts: InviterFacts, campaign: Sequence[Invite], limits: InviteThresholds, clock_ms: int
) -> Iterator[Evidence]:
    """Counts only invitees whose day is over by the clock."""
    decided = [invite for invite in campaign if invite.event_time_ms + limits.idle_span_ms <= clock_ms]
    idle = sum(_is_idle(facts, invite, limits) for invite in decided)
    weight, is_full = _share_weight(idle, len(decided), limits.idle_share, limits.idle_share_honest, limits)
    figures = {"idle": idle, "of": len(decided)}
    yield Evidence(
        "idle_invitees",
        "idle",
        limits.idle_weight * weight,
        is_full,
        f"{idle} of {len(decided)} invitees idle",
        figures,
    )


def _neighbours(campaign: Sequence[Invite], limits: InviteThresholds) -> Iterator[Evidence]:
    near = largest_neighbourhood((invite.number for invite in campaign), distance=limits.neighbour_distance)
    why = f"{len(near)} phone numbers within {limits.neighbour_distance} of one of them"
    figures = {"numbers": len(near), "distance": limits.neighbour_distance}
    enough = limits.neighbour_share * len(campaign)
    if len(near) >= limits.neighbours and len(near) >= enough:
        yield Evidence("neighbour_numbers", "numbers", limits.neighbour_weight, True, why, figures)
    elif len(near) >= 2 and len(campaign) >= _GROUP_MIN:
        weight = limits.neighbour_pair_weight * min(1.0, len(near) / enough)
        yield Evidence("neighbour_numbers", "numbers", weight, False, why, figures)


def _region_of_addresses(
    facts: InviterFacts, campaign: Sequence[Invite], limits: InviteThresholds, region_of_network: RegionOfNetwork
) -> Iterator[Evidence]:
    """Compares numbers with the region in which each invitee appears most."""
    known = elsewhere = 0
    provinces: Counter[Region] = Counter()
    for invite in campaign:
        networks = {each.network for each in facts.sightings.get(invite.invitee_id, ()) if each.network}
        appears = Counter(region for network in networks if (region := region_of_network(network)) is not None)
        if not appears or not invite.region.is_known:
            continue
        known += 1
        most = max(appears.values())
        if all(region != invite.region for region, count in appears.items() if count == most):
            elsewhere += 1
            provinces[invite.region] += 1
    yield from _region_evidence(elsewhere, known, provinces, limits, appear_there=known, against="their IP addresses")


def _region_of_inviter(facts: InviterFacts, campaign: Sequence[Invite], limits: InviteThresholds) -> Iterator[Evidence]:
    """Without a table of addresses: compares numbers with the inviter's own, and where both appear."""
    own = set(facts.places.get(facts.inviter_id, ()))
    if not own:
        return
    own_networks = {wider(each.network) for each in facts.sightings.get(facts.inviter_id, ()) if each.network}
    known = elsewhere = together = 0
    provinces: Counter[Region] = Counter()
    for invite in campaign:
        if not invite.region.is_known:
            continue
        known += 1
        if invite.region in own:
            continue
        elsewhere += 1
        provinces[invite.region] += 1
        theirs = {wider(each.network) for each in facts.sightings.get(invite.invitee_id, ()) if each.network}
        together += bool(theirs & own_networks)
    yield from _region_evidence(elsewhere, known, provinces, limits, appear_there=together, against="the inviter's")


def _region_evidence(
    elsewhere: int, known: int, provinces: Counter[Region], limits: InviteThresholds, *, appear_there: int, against: str
) -> Iterator[Evidence]:
    """`appear_there`: how many invitees are known to be elsewhere than their number is from.

    Friends live everywhere and have numbers from there: numbers alone mean something only if most are of one province.
    """
    share, is_full = _share_weight(elsewhere, known, limits.region_share, limits.region_share_honest, limits)
    if share <= 0:
        return
    is_there = appear_there >= limits.region_share * elsewhere
    one_province = max(provinces.values()) / elsewhere
    proportion = _proportion(one_province, limits.region_one_province_share_honest, limits.region_share)
    weight = limits.region_weight * is_there + limits.region_one_province_weight * proportion
    why = f"{elsewhere} of {known} phone numbers from another region than {against}"
    if is_there and against != "their IP addresses":
        why += ", used where the inviter is"
    if proportion >= 1:
        why += ", nearly all from one province"
    figures = {"elsewhere": elsewhere, "of": known, "one_province": round(one_province, 3), "appear_there": is_there}
    yield Evidence("region_mismatch", "place", weight * share, is_full and is_there and proportion >= 1, why, figures)


def _rings(facts: InviterFacts, campaign: Sequence[Invite], limits: InviteThresholds) -> Iterator[Evidence]:
    back = [invite.invitee_id for invite in campaign if invite.invitee_id in facts.ancestors]
    if back:
        why = "invitations lead back to the inviter"
        yield Evidence("ring_cycle", "ring", limits.ring_weight, True, why, {"through": sorted(back)})
    invitees = {invite.invitee_id for invite in campaign}
    members = [ring for ring in facts.rings if ring & invitees and len(ring) >= limits.ring_accounts]
    if members:
        largest = max(members, key=lambda ring: (len(ring), sorted(ring)))
        why = f"{len(largest)} accounts of one device invited each other"
        figures = {"accounts": sorted(largest)}
        yield Evidence("ring_device", "ring", limits.ring_weight, True, why, figures)


def _share_weight(
    count: int, of: int, full_share: float, honest_share: float, limits: InviteThresholds
) -> tuple[float, bool]:
    """From 0 at the honest share to 1 at the full one, less for a small group; and whether the rule is fully met."""
    if of < _GROUP_MIN:
        return 0.0, False
    # Of five, four are exactly four fifths: no rounding error may take that away.
    if of >= limits.group_invitees and count >= full_share * of - 1e-9:
        return 1.0, True
    share = (count + honest_share * limits.honest_prior) / (of + limits.honest_prior)
    size = min(1.0, of / limits.group_invitees)
    return size * size * _proportion(share, honest_share, full_share), False


def _proportion(value: float, none_at: float, full_at: float) -> float:
    return min(1.0, max(0.0, (value - none_at) / (full_at - none_at)))
