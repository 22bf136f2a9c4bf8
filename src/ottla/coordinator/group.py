"""A group: its members, its generation, its leader and its state, with the counts that make each question cheap.

Keeps itself consistent and decides nothing: when to rebalance is in `rebalancing.py`, who is let in in `joining.py`.
"""

from ottla.coordinator.action_timer import ActionTimer
from ottla.coordinator.answers import Answers, JoinAnswer, SyncAnswer
from ottla.coordinator.member import Member
from ottla.coordinator.protocol_choice import ProtocolChoice
from ottla.coordinator.states import DEAD, EMPTY, PREVIOUS_STATES, STABLE, GroupState
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_TIMESTAMP_MS, TimestampMs
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

CONSUMER_PROTOCOL_TYPE = "consumer"


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
        "topics_at_mark",
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
        self.pending: dict[str, ActionTimer] = {}
        # Got this generation's join answer but have not asked for their assignment.
        self.pending_sync: dict[str, Member] = {}
        self.joins_waiting = 0
        # A further member came during the initial delay, which is therefore prolonged.
        self.is_member_added = False
        # The last value that went to the log, so that the log can be written anew without reading it.
        self.recorded: bytes | None = None
        # Ends the wait for joins or for syncs; a group is never in both phases.
        self.timer = ActionTimer()
        self.mark = 0
        self.choice = ProtocolChoice()
        # What `subscription.py` has found out, and the mark it is valid for.
        self.topics_at_mark: tuple[int, frozenset[str] | None] | None = None

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
        """Whether somebody with these protocols could be a member beside those that are there."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and self.choice.has_common(protocols)

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
        """Nothing may refer to it any more: whoever waits is answered, no timer is left."""
        for member in self.members.values():
            self.end_join(member, answers, JoinGroupResponse(error_code=error_code, member_id=member.member_id))
            member.session_timer.cancel()
        self.end_syncs(answers, error_code)
        for timer in self.pending.values():
            timer.cancel()
        self.timer.cancel()
        self.move_to(DEAD, now_ms)
