"""When a rebalance starts and ends: waiting for joins, the next generation, waiting for syncs, who is left behind.

Joins, syncs, leaves and ended sessions all come here once they have changed who is in a group.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from ottla.coordinator.group.group import Answers, Group
from ottla.coordinator.group.group_records import group_record
from ottla.coordinator.group.member import NO_ASSIGNMENT, Member
from ottla.coordinator.group.responses import joined
from ottla.coordinator.group.sessions import Sessions
from ottla.coordinator.group.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, PREVIOUS_STATES, STABLE
from ottla.coordinator.runtime.ports import NEVER, NOTHING, Outcome, ShardTimer, ShardTimers
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode

# The initial delay is prolonged by this time at most, in these steps, while members that were given their id have not
# joined yet: they come within a round trip, and would at once begin the rebalance anew for all.
_PENDING_GRACE_MS = 20
_PENDING_STEP_MS = 2

# Names are chosen by clients, so they are logged with %r: a line break in one must not forge a line.
_LOG = logging.getLogger("ottla.groups")


class GroupSettings(NamedTuple):
    """The values of the `group.*` keys; read at each use, because they may change while the broker runs."""

    initial_rebalance_delay_ms: int
    session_timeout_min_ms: int
    session_timeout_max_ms: int
    group_max_size: int


SettingsSource: TypeAlias = Callable[[], GroupSettings]


class Rebalancing:
    """Owned by one `Groups`; holds no state of its own, that is in each `Group`."""

    __slots__ = ("_clock", "_settings", "_timers", "answers", "finished", "sessions")

    def __init__(self, timers: ShardTimers, settings: SettingsSource, clock: Clock) -> None:
        self._timers = timers
        self._settings = settings
        self._clock = clock
        self.answers = Answers()
        self.sessions = Sessions(timers, self.on_session_end)
        # Rebalances that ended with a stored assignment.
        self.finished = 0

    # The start

    def prepare_or_complete(self, group: Group) -> Outcome:
        """The members of the group, or what they can do, have changed."""
        if group.state in PREVIOUS_STATES[PREPARING_REBALANCE]:
            return self.prepare(group)
        return self.maybe_complete_join(group)

    def prepare(self, group: Group) -> Outcome:
        """All members must join again; those that wait for their assignment are answered at once."""
        group.timer.cancel()
        group.pending_sync.clear()
        if group.state is COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
        is_initial = group.state is EMPTY
        group.move_to(PREPARING_REBALANCE, self._clock())
        if is_initial:
            # Others of the same application are likely on their way: one rebalance for all of them.
            delay_ms = self._settings().initial_rebalance_delay_ms
            rest_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
            group.is_member_added = False
            self._wait_initially(group, delay_ms=delay_ms, rest_ms=rest_ms, grace_ms=_PENDING_GRACE_MS)
            return NOTHING
        if group.has_all_joined:
            return self._complete_join(group)
        self._wait_for_joins(group)
        return NOTHING

    def reset_assignments(self, group: Group, error_code: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = NO_ASSIGNMENT
            if member.sync_answer is not None:
                self.sessions.restart(group, member)
        group.end_syncs(self.answers, error_code)

    def _wait_initially(self, group: Group, *, delay_ms: int, rest_ms: int, grace_ms: int) -> None:
        group.timer.action = partial(
            self._end_initial_delay, group, delay_ms=delay_ms, rest_ms=rest_ms, grace_ms=grace_ms
        )
        self._timers.schedule(group.timer, delay_ms=delay_ms)

    def _end_initial_delay(self, group: Group, *, delay_ms: int, rest_ms: int, grace_ms: int) -> Outcome:
        if group.is_member_added and rest_ms:
            group.is_member_added = False
            next_delay_ms = min(self._settings().initial_rebalance_delay_ms, rest_ms)
            rest_ms = max(rest_ms - delay_ms, 0)
            self._wait_initially(group, delay_ms=next_delay_ms, rest_ms=rest_ms, grace_ms=grace_ms)
            return NOTHING
        if group.pending and grace_ms > 0:
            grace_ms -= _PENDING_STEP_MS
            self._wait_initially(group, delay_ms=_PENDING_STEP_MS, rest_ms=rest_ms, grace_ms=grace_ms)
            return NOTHING
        return self._end_joins(group)

    def _wait_for_joins(self, group: Group) -> None:
        group.timer.action = partial(self._end_joins, group)
        self._timers.schedule(group.timer, delay_ms=group.rebalance_timeout_ms())

    def _end_joins(self, group: Group) -> Outcome:
        outcome = self._complete_join(group)
        self.answers.give()
        return outcome

    # The next generation

    def maybe_complete_join(self, group: Group) -> Outcome:
        """The last one may have joined, or the last one that was waited for is gone; the initial delay still holds."""
        if group.state is PREPARING_REBALANCE and group.has_all_joined and group.previous_state is not EMPTY:
            return self._complete_join(group)
        return NOTHING

    def _complete_join(self, group: Group) -> Outcome:
        group.timer.cancel()
        # A static member may be restarting right now: only its session decides about it.
        late = [m for m in group.members.values() if m.join_answer is None and m.instance_id is None]
        for member in late:
            group.drop(member, self.answers)
        if group.members and not group.elect_joined_leader():
            self._wait_for_joins(group)  # only static members, and none is back; their sessions will end this
            return NOTHING
        group.generation += 1
        group.pending_sync.clear()
        now_ms = self._clock()
        if not group.members:
            group.protocol = None
            group.move_to(EMPTY, now_ms)
            _LOG.info("group %r: generation %d has no members", group.group_id, group.generation)
            # If this record is lost, the old generation comes back with the log, and its sessions end: no harm.
            return Outcome([group_record(group, {})], None, NEVER)
        group.protocol = group.choice.choose(group.members.values())
        group.move_to(COMPLETING_REBALANCE, now_ms)
        for member in group.members.values():
            group.end_join(member, self.answers, joined(group, member))
            member.is_new = False
            self.sessions.restart(group, member)
        group.pending_sync.update(group.members)
        _LOG.info(
            "group %r: generation %d has %d members, led by %r, by protocol %r",
            group.group_id,
            group.generation,
            len(group.members),
            group.leader_id,
            group.protocol,
        )
        group.timer.action = partial(self._end_syncs, group)
        self._timers.schedule(group.timer, delay_ms=group.rebalance_timeout_ms())
        return NOTHING

    # The assignment

    def synced(self, group: Group, member: Member) -> None:
        """A member has asked for its assignment."""
        group.pending_sync.pop(member.member_id, None)
        if not group.pending_sync:
            group.timer.cancel()

    def stabilize(self, group: Group) -> None:
        group.move_to(STABLE, self._clock())
        self.finished += 1

    def _end_syncs(self, group: Group) -> Outcome:
        """A member that joined but never asked for its assignment would hold partitions that nobody reads."""
        if not group.pending_sync:
            return NOTHING
        for member in list(group.pending_sync.values()):
            group.drop(member, self.answers)
        outcome = self.prepare(group)
        self.answers.give()
        return outcome

    # Members that go

    def on_session_end(self, group: Group, member: Member) -> Outcome:
        _LOG.info(
            "group %r: member %r at %s sent no heartbeat for %d ms and is removed",
            group.group_id,
            member.member_id,
            member.client_host,
            member.session_timeout_ms,
        )
        group.drop(member, self.answers)
        outcome = self.after_departure(group)
        self.answers.give()
        return outcome

    def after_departure(self, group: Group) -> Outcome:
        """One or more members, or members to be, have left a group."""
        if group.state is STABLE or group.state is COMPLETING_REBALANCE:
            return self.prepare(group)
        return self.maybe_complete_join(group)

    def add_pending(self, group: Group, member_id: str, *, session_timeout_ms: int) -> None:
        """An id was given out; its member has one session timeout to join with it."""
        timer = ShardTimer(partial(self._end_pending, group, member_id))
        group.pending[member_id] = timer
        self._timers.schedule(timer, delay_ms=session_timeout_ms)

    def _end_pending(self, group: Group, member_id: str) -> Outcome:
        group.drop_pending(member_id)
        outcome = self.maybe_complete_join(group)
        self.answers.give()
        return outcome
