"""One batch of facts for the invite fraud detector: the inviters it touches, and the verdicts about them now.

Reads by lookups and writes nothing: the job stores the outcome. An inviter is judged again when one of the facts behind
his verdict is new, or when the clock passes a moment that the verdict waited for; the others stay as they are.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from ottla.pipeline.detection.alerts import InviteAlert, invite_alert_id
from ottla.pipeline.detection.clock import ClockState
from ottla.pipeline.detection.fact_reading import FactReading, Lookup, invite_row, rows_of
from ottla.pipeline.detection.facts import HOUR_MS, Invite, InviteBatch
from ottla.pipeline.detection.invite_fraud import (
    InviterFacts,
    RegionOfNetwork,
    due_times,
    invite_alerts,
    last_closed_ms,
)
from ottla.pipeline.detection.outcome import Outcome, alert_changes, arrow_rows
from ottla.pipeline.detection.rings import ancestors_of, rings_of_device
from ottla.pipeline.detection.thresholds import InviteThresholds
from ottla.pipeline.tables import (
    DETECTOR_CLOCK,
    DEVICE_ACCOUNT_FACT,
    INVITE_ALERT,
    INVITE_DUE,
    INVITE_FACT,
    INVITED_BY_FACT,
    LIFE_FACT,
    PLACE_FACT,
    SIGHTING_FACT,
)

JOB: Final = "invite_fraud"
# Moments further back were due before: a gap of months on the topics must not cause a lookup for each hour of it.
_DUE_HOURS_MAX: Final = 24 * 40


def stored_clock(port: Lookup) -> ClockState:
    """The clock as the last batch left it."""
    highs = {topic: high_ms for _, topic, high_ms in rows_of(port, DETECTOR_CLOCK, [(JOB,)])}
    now_ms = highs.pop("", 0)
    return ClockState(highs, now_ms)


def touched_inviters(
    port: Lookup,
    reading: FactReading,
    batch: InviteBatch,
    limits: InviteThresholds,
    *,
    before: ClockState,
    after: ClockState,
) -> set[str]:
    """Accounts whose verdict this batch may change; some of them may have invited nobody."""
    touched = {invite.inviter_id for invite in batch.invites}
    new_sightings = reading.sightings.new()
    new_on_device = reading.accounts_on.new()
    reading.lives(batch.lives.keys())
    # Rings of a device change with its accounts, and with invitations among them.
    edges = [(invite.inviter_id, invite.invitee_id) for invite in batch.invites]
    of_edges = reading.sightings({account_id for edge in edges for account_id in edge})
    devices = set(new_on_device)
    for inviter_id, invitee_id in edges:
        devices |= {each.device_id for each in of_edges[inviter_id]} & {each.device_id for each in of_edges[invitee_id]}
    for accounts in reading.accounts_on(devices - {""}).values():
        if len(accounts) >= 2:
            touched |= accounts
    # What an account is seen with, or does, matters to the verdict about its inviters.
    changed = new_sightings.keys() | reading.changed_lives.keys()
    for inviters in reading.inviters(changed).values():
        touched |= inviters
    touched |= new_sightings.keys() | reading.places.new().keys()
    touched |= _on_cycles(reading, edges, limits)
    return touched | _due(port, before=before, after=after)


def invite_step(
    port: Lookup,
    batch: InviteBatch,
    limits: InviteThresholds,
    *,
    before: ClockState,
    after: ClockState,
    region_of_network: RegionOfNetwork | None = None,
    alerts_from_ms: int = 0,
) -> Outcome:
    """The outcome of a batch, as of the clock after it.

    `alerts_from_ms`: alerts of campaigns that ended before have expired, and are not sent again.
    """
    reading = FactReading(port, batch)
    touched = touched_inviters(port, reading, batch, limits, before=before, after=after)
    invites_of = {inviter_id: invites for inviter_id, invites in reading.invites(touched).items() if invites}
    found: list[InviteAlert] = []
    possible: dict[str, str] = {}
    for facts in _gathered(reading, invites_of, limits):
        found += invite_alerts(
            facts, limits, clock_ms=after.now_ms, region_of_network=region_of_network, from_ms=alerts_from_ms
        )
        # A campaign may have begun with any of them, before others came that join or split campaigns.
        closed_ms = last_closed_ms(facts.invites, limits, from_ms=alerts_from_ms)
        for invite in facts.invites:
            if invite.event_time_ms > closed_ms:
                possible[invite_alert_id(facts.inviter_id, invite.event_time_ms)] = facts.inviter_id
    alerts, why, withdrawn = alert_changes(port, INVITE_ALERT, found, possible, detected_ms=after.high_ms)
    clock = [(JOB, topic, high_ms) for topic, high_ms in sorted(after.highs.items())]
    if clock:
        clock.append((JOB, "", after.now_ms))
    return Outcome(
        _new_rows(reading, limits), alerts, why, withdrawn, arrow_rows(DETECTOR_CLOCK, clock), len(invites_of)
    )


def _gathered(
    reading: FactReading, invites_of: dict[str, set[Invite]], limits: InviteThresholds
) -> Iterable[InviterFacts]:
    """All facts that the verdicts need, looked up together."""
    invitees = {invite.invitee_id for invites in invites_of.values() for invite in invites}
    sightings = reading.sightings(invitees | invites_of.keys())
    places = reading.places(invites_of.keys())
    lives = reading.lives(invitees)
    ancestors = ancestors_of(invites_of, reading.inviters, steps_max=limits.cycle_length_max)
    devices_of = {
        inviter_id: {each.device_id for each in sightings[inviter_id] if each.device_id} for inviter_id in invites_of
    }
    on_device = reading.accounts_on(set().union(*devices_of.values()) if devices_of else set())
    # Fewer accounts than a ring has can't be one: most devices need no look.
    crowded = {
        device_id: accounts for device_id, accounts in on_device.items() if len(accounts) >= limits.ring_accounts
    }
    inviters = reading.inviters({account_id for accounts in crowded.values() for account_id in accounts})
    rings = {device_id: rings_of_device(sorted(accounts), inviters) for device_id, accounts in crowded.items()}
    for inviter_id, invites in invites_of.items():
        own_rings = [
            ring for device_id in devices_of[inviter_id] for ring in rings.get(device_id, ()) if inviter_id in ring
        ]
        yield InviterFacts(
            inviter_id, invites, sightings, places, lives, ancestors[inviter_id], sorted(own_rings, key=sorted)
        )


def _on_cycles(reading: FactReading, edges: Collection[tuple[str, str]], limits: InviteThresholds) -> set[str]:
    """Accounts on a cycle that one of these invitations closes: on the way from its invitee to its inviter."""
    ancestors = ancestors_of(
        {inviter_id for inviter_id, _ in edges}, reading.inviters, steps_max=limits.cycle_length_max
    )
    touched: set[str] = set()
    for inviter_id, invitee_id in edges:
        if invitee_id not in ancestors[inviter_id]:
            continue
        above = ancestors[inviter_id] | {inviter_id}
        inviters = reading.inviters(above)
        invited: dict[str, set[str]] = {}
        for account_id, theirs in inviters.items():
            for each in theirs & above:
                invited.setdefault(each, set()).add(account_id)
        reached: set[str] = set()
        frontier = {invitee_id}
        while frontier:
            reached |= frontier
            frontier = {each for account_id in frontier for each in invited.get(account_id, ())} - reached
        touched |= reached
    return touched


def _due(port: Lookup, *, before: ClockState, after: ClockState) -> set[str]:
    """Inviters for whom a moment has come that lies between the two clocks."""
    if after.now_ms <= before.now_ms:
        return set()
    last = after.now_ms // HOUR_MS
    first = max(before.now_ms // HOUR_MS, last - _DUE_HOURS_MAX)
    return {inviter_id for _, inviter_id in rows_of(port, INVITE_DUE, ((hour,) for hour in range(first, last + 1)))}


def _new_rows(reading: FactReading, limits: InviteThresholds) -> dict[str, Any]:
    """The batch's facts that the store doesn't have yet, in the order in which to store them."""
    invites = sorted(each for entries in reading.invites.new().values() for each in entries)
    due = {(moment // HOUR_MS, invite.inviter_id) for invite in invites for moment in due_times(invite, limits)}
    rows: dict[Any, Iterable[Any]] = {
        # Before the invitations that they follow from: once those are stored, they are not new any more.
        INVITE_DUE: sorted(due),
        SIGHTING_FACT: sorted(each for entries in reading.sightings.new().values() for each in entries),
        DEVICE_ACCOUNT_FACT: sorted(
            (key, each) for key, entries in reading.accounts_on.new().items() for each in entries
        ),
        PLACE_FACT: sorted((key, *each) for key, entries in reading.places.new().items() for each in entries),
        INVITE_FACT: map(invite_row, invites),
        INVITED_BY_FACT: sorted((key, each) for key, entries in reading.inviters.new().items() for each in entries),
        LIFE_FACT: sorted((key, *life) for key, life in reading.changed_lives.items()),
    }
    return {table.name: arrow_rows(table, each) for table, each in rows.items()}
