"""The groups of a shard on a clock and a log that are the test's: commits happen at once, or when the test says so."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from ottla.coordinator.group.group import Group
from ottla.coordinator.group.groups import Groups
from ottla.coordinator.group.member import Caller
from ottla.coordinator.group.rebalancing import GroupSettings
from ottla.coordinator.group.schemas import GroupKey, decode_group_value, decode_key
from ottla.coordinator.runtime.ports import NEVER, KeyValue, Outcome, ShardTimer
from ottla.core.errors import ErrorCode
from ottla.core.timing_wheel import TimingWheel
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
RANGE = (("range", b"r"),)
SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=DELAY_MS,
    session_timeout_min_ms=6_000,
    session_timeout_max_ms=1_800_000,
    group_max_size=2_000,
)

Protocols = Sequence[tuple[str, bytes]]


class GroupRig:
    """Also the `ShardTimers` of its groups."""

    def __init__(self, settings: GroupSettings = SETTINGS) -> None:
        self.settings = settings
        self.wheel = TimingWheel()
        self.log: list[KeyValue] = []
        self.holds_commits = False
        self._clock_ms = 0
        self._held: deque[Outcome] = deque()
        self._ids = count(1)
        self.groups = self.new_groups()
        self.groups.on_loaded()

    def new_groups(self) -> Groups:
        return Groups(self, lambda: self.settings, lambda: WALL_MS + self._clock_ms, lambda: f"u{next(self._ids)}")

    # ShardTimers

    def schedule(self, timer: ShardTimer, *, delay_ms: int) -> None:
        timer.bind(self.execute)
        self.wheel.add(timer, delay_ms=delay_ms, now_ms=self._clock_ms)

    def time(self) -> float:
        return self._clock_ms / 1000

    # What the runtime does

    def execute(self, outcome: Outcome) -> None:
        self.log += outcome.records
        if outcome.records:
            assert outcome.replay is NEVER, "groups are ahead of their log"
        if self.holds_commits and outcome.records:
            self._held.append(outcome)
        elif outcome.on_done is not None:
            outcome.on_done(ErrorCode.NONE)

    def settle(self, error_code: ErrorCode = ErrorCode.NONE) -> None:
        """What was held is now committed, or never will be."""
        while self._held:
            on_done = self._held.popleft().on_done
            if on_done is not None:
                on_done(error_code)

    def pass_ms(self, delay_ms: int) -> None:
        end_ms = self._clock_ms + delay_ms
        while True:
            next_ms = self.wheel.next_expiry_ms()
            if next_ms is None or next_ms > end_ms:
                break
            self._clock_ms = max(self._clock_ms, next_ms)
            self.wheel.advance(self._clock_ms)
        self._clock_ms = end_ms

    def replayed(self, log: Sequence[KeyValue] | None = None) -> Groups:
        """What a start would make of the log."""
        groups = self.new_groups()
        replay_into(groups, self.log if log is None else log)
        return groups

    # Requests; a response that is still waited for is an empty list

    def join(
        self,
        member_id: str = "",
        *,
        protocols: Protocols = RANGE,
        version: int = 3,
        group_id: str = "g",
        instance: str | None = None,
        client_id: str | None = "c",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        answer: Callable[[JoinGroupResponse], None] | None = None,
    ) -> list[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        responses: list[JoinGroupResponse] = []
        self.execute(self.groups.join(request, Caller(version, client_id, "/127.0.0.1"), answer or responses.append))
        return responses

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group_id: str = "g",
        answer: Callable[[SyncGroupResponse], None] | None = None,
    ) -> list[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=other, assignment=assignment)
                for other, assignment in (assignments or {}).items()
            ],
        )
        responses: list[SyncGroupResponse] = []
        self.execute(self.groups.sync(request, Caller(5, "c", "/127.0.0.1"), answer or responses.append))
        return responses

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None, group_id: str = "g"
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return ErrorCode(self.groups.heartbeat(request).error_code)

    def leave(self, *members: MemberIdentity | str, version: int = 5, group_id: str = "g") -> list[LeaveGroupResponse]:
        identities = [MemberIdentity(member_id=m) if isinstance(m, str) else m for m in members]
        request = LeaveGroupRequest(group_id=group_id)
        if version >= 3:
            request.members = identities
        else:
            request.member_id = identities[0].member_id
        responses: list[LeaveGroupResponse] = []
        self.execute(self.groups.leave(request, Caller(version, "c", "/127.0.0.1"), responses.append))
        return responses

    def commit_error(
        self, member_id: str, generation: int, *, instance: str | None = None, version: int = 9
    ) -> ErrorCode:
        return self.groups.check_commit(
            "g", member_id=member_id, instance_id=instance, generation=generation, version=version
        )

    # Short cuts

    @property
    def group(self) -> Group:
        group = self.groups.get("g")
        assert group is not None
        return group

    def joined(self, *members: str | None, protocols: Protocols = RANGE) -> list[str]:
        """A group of new members in CompletingRebalance, static ones by their instance id; the first one leads."""
        waiting = [self.join(instance=instance, protocols=protocols) for instance in members]
        self.pass_ms(DELAY_MS * min(len(members), 2) + 1)
        return [responses[0].member_id for responses in waiting]

    def stable(self, *members: str | None, protocols: Protocols = RANGE) -> list[str]:
        """A group whose members have synced; each one's assignment is its place in the list."""
        ids = self.joined(*members, protocols=protocols)
        assignments = {member_id: str(place).encode() for place, member_id in enumerate(ids)}
        generation = self.group.generation
        answers = [self.sync(member_id, generation) for member_id in ids[1:]]
        answers.append(self.sync(ids[0], generation, assignments))
        assert all(answer[0].error_code == ErrorCode.NONE for answer in answers)
        return ids

    def keep_alive(self, members: Sequence[str], generation: int, duration_ms: int) -> Iterator[ErrorCode]:
        """Let time pass while these send heartbeats."""
        for _ in range(duration_ms // 3_000):
            self.pass_ms(3_000)
            for member_id in members:
                yield self.heartbeat(member_id, generation)


def replay_into(groups: Groups, log: Sequence[KeyValue]) -> None:
    for key, value in log:
        decoded = decode_key(key)
        assert isinstance(decoded, GroupKey)
        groups.replay(decoded, None if value is None else decode_group_value(value))


def errors(responses: Sequence[JoinGroupResponse | SyncGroupResponse | LeaveGroupResponse]) -> list[ErrorCode]:
    return [ErrorCode(response.error_code) for response in responses]
