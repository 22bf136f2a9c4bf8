"""Where a member stands in its group, and what it has to do next: no I/O, and the time comes in.

The member joins, gets its assignment by a sync, and then shows by heartbeats that it lives. Every answer is either a
step on this way or a reason to go back on it; what ends the membership for good is raised.
"""

from enum import Enum
from typing import Final

from ottla.clients.errors import BrokerError
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition

NO_GENERATION: Final = -1


class Step(Enum):
    """What the member has to do next."""

    FIND_COORDINATOR = "find coordinator"
    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    NOTHING = "nothing"


# The coordinator is somewhere else now, or not ready to say where.
_COORDINATOR_MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
# The group went on without this member: what it owned may be another's already.
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
# The same request may succeed in a moment.
_NOT_YET: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT})


class Membership:
    """Owned by one `GroupMember`. `owned` is what may be read now; None from being told to rejoin to the next sync."""

    __slots__ = (
        "_heartbeat_due_ms",
        "_heartbeat_interval_ms",
        "_is_coordinator_known",
        "_is_joined",
        "generation_id",
        "group_id",
        "is_leader",
        "member_id",
        "owned",
        "protocol_name",
        "retry_wait",
    )

    def __init__(self, group_id: str, *, heartbeat_interval_ms: int) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.protocol_name = ""
        self.is_leader = False
        self.owned: list[TopicPartition] | None = None
        self.retry_wait = False  # the last answer asks to wait before the next step
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._heartbeat_due_ms = 0
        self._is_coordinator_known = False
        self._is_joined = False

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator still takes this member's word for what it read."""
        return self.generation_id != NO_GENERATION

    @property
    def must_rejoin(self) -> bool:
        return not self._is_joined

    def next_step(self, now_ms: int) -> Step:
        if not self._is_coordinator_known:
            return Step.FIND_COORDINATOR
        if not self._is_joined:
            return Step.JOIN
        if self.owned is None:
            return Step.SYNC
        return Step.HEARTBEAT if now_ms >= self._heartbeat_due_ms else Step.NOTHING

    def idle_ms(self, now_ms: int) -> int:
        """How long the member has nothing to do for its group."""
        return max(0, self._heartbeat_due_ms - now_ms) if self.next_step(now_ms) is Step.NOTHING else 0

    def on_coordinator(self, *, is_known: bool) -> None:
        """Found, or lost with its connection; the generation is kept, for the group lives on without it."""
        self._is_coordinator_known = is_known

    def rejoin(self) -> None:
        """Join again, with the same member id; commits for what was read are still taken."""
        self._is_joined = False
        self.owned = None

    def on_joined(
        self, error_code: int, *, member_id: str, generation_id: int, protocol_name: str, leader_id: str
    ) -> None:
        self.retry_wait = False
        if error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394: the id is given first, the joining is the second call
            self.member_id = member_id
            return
        if error_code != ErrorCode.NONE:
            self._take_error(error_code, "joining")
            return
        self.member_id = member_id
        self.generation_id = generation_id
        self.protocol_name = protocol_name
        self.is_leader = leader_id == member_id
        self._is_joined = True
        self.owned = None

    def on_synced(self, error_code: int, owned: list[TopicPartition], now_ms: int) -> None:
        self.retry_wait = False
        if error_code != ErrorCode.NONE:
            self._take_error(error_code, "waiting for an assignment")
            self._is_joined = False  # whatever it was, the way to an assignment begins with joining
            return
        self.owned = owned
        self._heartbeat_due_ms = now_ms + self._heartbeat_interval_ms

    def on_heartbeat(self, error_code: int, now_ms: int) -> None:
        self.retry_wait = False
        self._heartbeat_due_ms = now_ms + self._heartbeat_interval_ms
        if error_code != ErrorCode.NONE:
            self._take_error(error_code, "heartbeat")

    def on_committed(self, error_code: int) -> bool:
        """Whether the commit was taken; False: ask `next_step` what is to be done before another try."""
        self.retry_wait = False
        if error_code == ErrorCode.NONE:
            return True
        if error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            self.retry_wait = True
        else:
            self._take_error(error_code, "committing offsets")
        return False

    def on_left(self) -> None:
        self._forget()
        self.member_id = ""

    def _take_error(self, error_code: int, what: str) -> None:
        if error_code in _COORDINATOR_MOVED:
            self._is_coordinator_known = False
            self.retry_wait = True
        elif error_code in _NOT_YET:
            self.retry_wait = True
        elif error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()
        elif error_code in _FORGOTTEN:
            self._forget()
            if error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        else:
            raise BrokerError(error_code, f"group {self.group_id}: {what}")

    def _forget(self) -> None:
        self.generation_id = NO_GENERATION
        self.is_leader = False
        self.rejoin()
