"""Sessions: a member that sends nothing for its session timeout is removed.

Owns the deadlines of members. Heartbeats are the most frequent requests of all, so they don't touch the timing wheel:
they only move the deadline, and the member's timer, when it fires too early, waits for the rest.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.coordinator.group.group import Group
from ottla.coordinator.group.member import Member
from ottla.coordinator.runtime.ports import NOTHING, Outcome, ShardTimers

# How long a new member may wait for its first generation. It sends no heartbeats meanwhile, and we can't see that its
# connection broke; were there no such limit, each try of an impatient client would leave a dead member behind.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000


class Sessions:
    """Owned by one `Groups`; `on_end` says what becomes of a member whose session is over."""

    __slots__ = ("_on_end", "_time", "_timers")

    def __init__(self, timers: ShardTimers, on_end: Callable[[Group, Member], Outcome]) -> None:
        self._timers = timers
        self._on_end = on_end
        self._time = timers.time

    def start(self, group: Group, member: Member) -> None:
        """For a member that waits for its first generation."""
        self._arm(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)

    def keep_alive(self, member: Member) -> None:
        """A heartbeat, or a request that counts as one."""
        member.session_ends_ms = self._time() * 1000 + member.session_timeout_ms

    def restart(self, group: Group, member: Member) -> None:
        self._arm(group, member, member.session_timeout_ms)

    def _arm(self, group: Group, member: Member, timeout_ms: int) -> None:
        member.session_ends_ms = self._time() * 1000 + timeout_ms
        timer = member.session_timer
        if timer.action is None:
            timer.action = partial(self._check, group, member)
        self._timers.schedule(timer, delay_ms=timeout_ms)

    def _check(self, group: Group, member: Member) -> Outcome:
        left_ms = round(member.session_ends_ms - self._time() * 1000)
        if left_ms <= 0:
            if member.is_new or not member.is_waiting:
                return self._on_end(group, member)
            left_ms = member.session_timeout_ms  # we let it wait; when we answer, its session starts anew
        self._timers.schedule(member.session_timer, delay_ms=left_ms)
        return NOTHING
