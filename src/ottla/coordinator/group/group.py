"""A group: its members, its generation, its leader and its state, with the counts that make each question cheap.

Keeps itself consistent and decides nothing: when to rebalance is in `rebalancing.py`, who is let in in `joining.py`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.coordinator.group.member import JoinAnswer, Member, SyncAnswer
from ottla.coordinator.group.states import DEAD, EMPTY, PREVIOUS_STATES, STABLE, GroupState
from ottla.coordinator.runtime.ports import ShardTimer
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import NO_TIMESTAMP_MS, TimestampMs
from ottla.protocol.codec import decode
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

CONSUMER_PROTOCOL_TYPE = "consumer"
_SUBSCRIPTION_VERSION_BYTES = 2

ResponseT = TypeVar("ResponseT")


class Answers:
    """Answers that are due, held back until the state that they speak of is complete.

    An answer may run the next request of its connection right inside the call, and that request may be for the same
    group. So nothing is answered in the middle of a change: answers are gathered, and the handler of an event calls
    `give` last. Owned by one `Groups`.
    """

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()

    def add(self, answer: Callable[[ResponseT], None], response: ResponseT) -> None:
        self._due.append(lambda: answer(response))

    def give(self) -> None:
        """Oldest first; a request that comes in meanwhile gives the rest."""
        due = self._due
        while due:
            due.popleft()()


class ProtocolChoice:
    """Which protocols all members of a group support, counted as they come and go, and which of them they choose."""

    __slots__ = ("_members", "_supporters")

    def __init__(self) -> None:
        self._members = 0
        self._supporters: dict[str, int] = {}  # by protocol name; none of them is 0

    def add(self, protocols: Iterable[str]) -> None:
        supporters = self._supporters
        for name in protocols:
            supporters[name] = supporters.get(name, 0) + 1
        self._members += 1

    def remove(self, protocols: Iterable[str]) -> None:
        supporters = self._supporters
        for name in protocols:
            count = supporters[name] - 1
            if count:
                supporters[name] = count
            else:
                del supporters[name]
        self._members -= 1

    def has_common(self, protocols: Iterable[str]) -> bool:
        """Whether every member supports one of these; of no members that is true."""
        return any(self._supporters.get(name, 0) == self._members for name in protocols)

    def choose(self, members: Iterable[Member]) -> str:
        """Each member votes for the first of its protocols that all support; the most votes win."""
        candidates = {name for name, count in self._supporters.items() if count == self._members}
        votes: dict[str, int] = {}
        for member in members:
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)


class Group:
    """Owned by `Groups`; lives until it is deleted, has expired, or its partition is unloaded.

    `mark` changes with everything that could change what a heartbeat is answered, so a remembered answer can be
    checked by one comparison.
    """

    __slots__ = (
        "group_id",
        "state",
        "previous_state",
        "state_timestamp_ms",
        "generation",
        "protocol_type",
        "protocol",
        "leader_id",
        "members",
        "static_members",
        "pending",
        "pending_sync",
        "joins_waiting",
        "is_member_added",
        "recorded",
        "timer",
        "mark",
        "choice",
        "_topics_at_mark",
    )

    def __init__(
        self,
        group_id: str,
        *,
        generation: int = 0,
        protocol_type: str | None = None,
        state_timestamp_ms: TimestampMs = NO_TIMESTAMP_MS,
    ) -> None:
        self.group_id = group_id
        self.state: GroupState = EMPTY
        self.previous_state: GroupState = EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = generation
        # None for a simple group: committed offsets of consumers that assign partitions to themselves.
        self.protocol_type = protocol_type
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, Member] = {}  # by instance id
        # Ids that were given out with error 79 and have not joined yet, with the timer of each.
        self.pending: dict[str, ShardTimer] = {}
        # Got this generation's join answer but have not asked for their assignment.
        self.pending_sync: dict[str, Member] = {}
        self.joins_waiting = 0
        # A further member came during the initial delay, which is therefore prolonged.
        self.is_member_added = False
        # The last value that went to the log, so that the log can be written anew without reading it.
        self.recorded: bytes | None = None
        # Ends the wait for joins or for syncs; a group is never in both phases.
        self.timer = ShardTimer()
        self.mark = 0
        self.choice = ProtocolChoice()
        # What `is_subscribed` has found out, and the mark it is valid for.
        self._topics_at_mark: tuple[int, frozenset[str] | None] | None = None

    # State

    def move_to(self, state: GroupState, now_ms: TimestampMs) -> None:
        if self.state not in PREVIOUS_STATES[state]:
            raise AssertionError(f"group {self.group_id}: {state.value} can't follow {self.state.value}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms
        self.mark += 1

    @property
    def is_abandoned(self) -> bool:
        """Empty, and nobody is on the way in."""
        return self.state is EMPTY and not self.pending

    @property
    def has_all_joined(self) -> bool:
        return self.joins_waiting == len(self.members) and not self.pending

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Whether a member with these protocols could join those that are there."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and self.choice.has_common(protocols)

    def is_subscribed(self, topic: str) -> bool | None:
        """Whether its consumers read a topic; None where it is not a consumer group: its metadata mean something else.

        Of a consumer group whose members we can't read it is true: an offset too many does less harm than one too few.
        """
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        known = self._topics_at_mark
        if known is None or known[0] != self.mark:
            known = self._topics_at_mark = (self.mark, self._subscribed_topics())
        return known[1] is None or topic in known[1]

    def _subscribed_topics(self) -> frozenset[str] | None:
        topics: set[str] = set()
        for member in self.members.values():
            # Version 0 is what every later version starts with, so we need not know them all.
            metadata = member.protocols.get(self.protocol or "", b"")[_SUBSCRIPTION_VERSION_BYTES:]
            try:
                topics.update(decode(ConsumerProtocolSubscription, 0, metadata).topics)
            except ProtocolViolation:
                return None
        return frozenset(topics)

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member
        self.choice.add(member.protocols)
        self.drop_pending(member.member_id)
        self.mark += 1

    def drop(self, member: Member, answers: Answers) -> None:
        """Take a member out; what it waits for is answered with 25, so that it joins again if it still lives."""
        self.end_join(member, answers, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.end_sync(member, answers, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        member.session_timer.cancel()
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self.pending_sync.pop(member.member_id, None)
        self.choice.remove(member.protocols)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self.mark += 1

    def drop_pending(self, member_id: str) -> None:
        timer = self.pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def rename(self, member: Member, member_id: str) -> None:
        """A static member has come back under a new id; everything else stays."""
        del self.members[member.member_id]
        if self.pending_sync.pop(member.member_id, None) is not None:
            self.pending_sync[member_id] = member
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        member.member_id = member_id
        self.members[member_id] = member
        self.mark += 1

    def update(
        self, member: Member, *, protocols: dict[str, bytes], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self.choice.remove(member.protocols)
        self.choice.add(protocols)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.mark += 1

    def find(self, member_id: str, instance_id: str | None) -> Member | ErrorCode:
        """The member that a request says it is from: 25 where it is unknown, 82 where another took its place."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner.member_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return self.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def elect_joined_leader(self) -> bool:
        """Let the leader be one that has joined; False where none has."""
        leader = None if self.leader_id is None else self.members[self.leader_id]
        if leader is None or leader.join_answer is None:
            leader = next((member for member in self.members.values() if member.join_answer is not None), None)
        if leader is None:
            return False
        self.leader_id = leader.member_id
        return True

    # Requests that wait

    def await_join(self, member: Member, answer: JoinAnswer, answers: Answers) -> None:
        """A second join of a member that waits ends the first: its client gave up on it."""
        self.end_join(
            member,
            answers,
            JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id),
        )
        member.join_answer = answer
        self.joins_waiting += 1

    def end_join(self, member: Member, answers: Answers, response: JoinGroupResponse) -> None:
        if member.join_answer is not None:
            answers.add(member.join_answer, response)
            member.join_answer = None
            self.joins_waiting -= 1

    def await_sync(self, member: Member, answer: SyncAnswer, answers: Answers) -> None:
        self.end_sync(member, answers, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_answer = answer

    def end_sync(self, member: Member, answers: Answers, response: SyncGroupResponse) -> None:
        if member.sync_answer is not None:
            answers.add(member.sync_answer, response)
            member.sync_answer = None

    def end_syncs(self, answers: Answers, error_code: ErrorCode) -> None:
        for member in self.members.values():
            self.end_sync(member, answers, SyncGroupResponse(error_code=error_code))

    # Ends of a life

    def restore_members(self, members: list[Member], *, protocol: str | None, leader_id: str | None) -> None:
        """As the log has them: with members a group was stable when it was written."""
        self.protocol = protocol
        protocol_type = self.protocol_type
        for member in members:
            self.add(member, protocol_type or "")
        self.protocol_type = protocol_type
        self.leader_id = leader_id if leader_id in self.members else next(iter(self.members), None)
        if members:
            self.state = self.previous_state = STABLE

    def close(self, answers: Answers, error_code: ErrorCode, now_ms: TimestampMs) -> None:
        """Nothing may refer to it any more: requests that wait are answered, no timer is left."""
        for member in self.members.values():
            self.end_join(member, answers, JoinGroupResponse(error_code=error_code, member_id=member.member_id))
            member.session_timer.cancel()
        self.end_syncs(answers, error_code)
        for timer in self.pending.values():
            timer.cancel()
        self.timer.cancel()
        self.move_to(DEAD, now_ms)
