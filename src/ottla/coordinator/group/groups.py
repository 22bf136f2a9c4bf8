"""The classic groups of one shard: requests and timers go in, answers and records come out.

Owns all `Group`s of its partition. Its state is ahead of the log: what must be stored is in an `Outcome`, whose
`on_done` undoes the change if it was not stored.
"""

from collections.abc import Callable, Iterable, Iterator

from ottla.coordinator.group import joining, leaving, syncing
from ottla.coordinator.group.group import CONSUMER_PROTOCOL_TYPE, Group
from ottla.coordinator.group.group_records import group_from, tombstone
from ottla.coordinator.group.member import Caller, JoinAnswer, Member, SyncAnswer
from ottla.coordinator.group.rebalancing import Rebalancing, SettingsSource
from ottla.coordinator.group.responses import described, listed
from ottla.coordinator.group.schemas import GroupKey, GroupValue, encode_group_key
from ottla.coordinator.group.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, GroupState
from ottla.coordinator.runtime.ports import NOTHING, KeyValue, Outcome, ShardTimers
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribedGroup
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.list_groups import ListedGroup
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# From here on a commit of a group that isn't there says so; before, the error makes the client join anew.
_COMMIT_GROUP_NOT_FOUND_SINCE = 9


class Groups:
    """Owned by a shard. Filled by `replay`, possibly on another thread; after `on_loaded` it serves on the loop."""

    __slots__ = ("_clock", "_groups", "_is_loaded", "_new_uuid", "_rebalancing", "_settings", "keep_alive")

    def __init__(
        self, timers: ShardTimers, settings: SettingsSource, clock: Clock, new_uuid: Callable[[], str]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._new_uuid = new_uuid
        self._groups: dict[str, Group] = {}
        self._rebalancing = Rebalancing(timers, settings, clock)
        # The session of a member starts anew; for a handler that knows a member again and needs no other check.
        self.keep_alive: Callable[[Member], None] = self._rebalancing.sessions.keep_alive
        self._is_loaded = False

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, answer: JoinAnswer) -> Outcome:
        """Answered when the next generation is there, or at once where it is refused."""
        group_id, member_id = request.group_id, request.member_id
        settings = self._settings()
        error_code = ErrorCode.NONE
        group = self._groups.get(group_id)
        if not group_id:
            error_code = ErrorCode.INVALID_GROUP_ID
        elif not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
            error_code = ErrorCode.INVALID_SESSION_TIMEOUT
        elif group is None and member_id:
            error_code = ErrorCode.UNKNOWN_MEMBER_ID
        if error_code != ErrorCode.NONE:
            answer(joining.refused(error_code, member_id))
            return NOTHING
        is_new_group = group is None
        if group is None:
            group = self._groups[group_id] = Group(group_id, state_timestamp_ms=self._clock())
        outcome = joining.join(
            self._rebalancing,
            group,
            request,
            caller,
            answer,
            new_id=f"{request.group_instance_id or caller.client_id or 'member'}-{self._new_uuid()}",
            group_max_size=settings.group_max_size,
        )
        if is_new_group and group.is_abandoned:
            del self._groups[group_id]  # the only one who ever wanted it was refused
        self._rebalancing.answers.give()
        return outcome

    def sync(self, request: SyncGroupRequest, caller: Caller, answer: SyncAnswer) -> Outcome:
        """Answered when the leader's assignment is stored."""
        group = self._groups.get(request.group_id)
        if group is None:
            answer(SyncGroupResponse(error_code=_no_group(request.group_id)))
            return NOTHING
        outcome = syncing.sync(self._rebalancing, group, request, answer)
        self._rebalancing.answers.give()
        return outcome

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=self._heartbeat_error(request))

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, answer: Callable[[LeaveGroupResponse], None]
    ) -> Outcome:
        """Answered when the members are gone, and when that is stored if they were the last."""
        if not request.group_id:
            answer(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
            return NOTHING
        group = self._groups.get(request.group_id)
        outcome = leaving.leave(self._rebalancing, group, request, answer, version=caller.version)
        self._rebalancing.answers.give()
        return outcome

    def _heartbeat_error(self, request: HeartbeatRequest) -> ErrorCode:
        group = self._groups.get(request.group_id)
        if group is None:
            return _no_group(request.group_id)
        member = group.find(request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            return member
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.keep_alive(member)
        if group.state is PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # Questions

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def all(self) -> Iterable[Group]:
        return self._groups.values()

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        return described(self._groups.get(group_id), group_id, version=version)

    def listed(self) -> Iterable[ListedGroup]:
        return map(listed, self._groups.values())

    def check_commit(
        self, group_id: str, *, member_id: str, instance_id: str | None, generation: int, version: int = 9
    ) -> ErrorCode:
        """Whether offsets may be committed; of a member that may, it counts as a heartbeat."""
        group = self._groups.get(group_id)
        if group is None:
            # Without a generation it is a consumer that assigns partitions to itself, or an administrator.
            if generation < 0:
                return ErrorCode.NONE
            knows_error = version >= _COMMIT_GROUP_NOT_FOUND_SINCE
            return ErrorCode.GROUP_ID_NOT_FOUND if knows_error else ErrorCode.ILLEGAL_GENERATION
        if generation < 0 and group.state is EMPTY:
            return ErrorCode.NONE
        member = group.find(member_id, instance_id)
        if isinstance(member, ErrorCode):
            return member
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.keep_alive(member)
        return ErrorCode.NONE

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        """Single offsets of a consumer group may go while it lives, topic by topic; of others we know too little."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def check_deletable(self, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    def subscribes(self, group_id: str, topic: str) -> bool | None:
        """None where there is no group, or it is not a consumer group."""
        group = self._groups.get(group_id)
        return None if group is None else group.is_subscribed(topic)

    def count_by_state(self) -> dict[GroupState, int]:
        counts = dict.fromkeys(GroupState, 0)
        for group in self._groups.values():
            counts[group.state] += 1
        return counts

    @property
    def rebalances_finished(self) -> int:
        return self._rebalancing.finished

    # The log

    def ensure_simple_group(self, group_id: str) -> None:
        """Offsets were committed without members: the group is there as long as they are, and needs no record."""
        if group_id not in self._groups:
            self._groups[group_id] = Group(group_id, state_timestamp_ms=self._clock())

    def remove(self, group_id: str) -> list[KeyValue]:
        """The record that deletes a group; it is gone when that is replayed."""
        group = self._groups.get(group_id)
        if group is not None:
            group.recorded = None
        return [tombstone(group_id)]

    def replay(self, key: GroupKey, value: GroupValue | None) -> None:
        group_id = key.group_id
        group = self._groups.get(group_id)
        if self._is_loaded and group is not None and not group.is_abandoned:
            return  # somebody joined while its tombstone was on its way to the log
        if group is not None:
            group.close(self._rebalancing.answers, ErrorCode.COORDINATOR_NOT_AVAILABLE, self._clock())
            del self._groups[group_id]
        if value is not None:
            self._groups[group_id] = group_from(group_id, value)

    def on_loaded(self) -> None:
        """The members of the log have a session's time to show that they live."""
        self._is_loaded = True
        group_max_size = self._settings().group_max_size
        for group in self._groups.values():
            for member in group.members.values():
                self._rebalancing.sessions.restart(group, member)
            if len(group.members) > group_max_size:
                self._rebalancing.prepare(group)  # the limit was lowered; who joins last is refused

    def unload(self, error_code: ErrorCode) -> None:
        for group in self._groups.values():
            group.close(self._rebalancing.answers, error_code, self._clock())
        self._groups.clear()
        self._rebalancing.answers.give()

    def live_records(self) -> Iterator[KeyValue]:
        """The last record of each group; groups that come or go meanwhile do no harm."""
        for group_id in list(self._groups):
            group = self._groups.get(group_id)
            if group is not None and group.recorded is not None:
                yield encode_group_key(GroupKey(group_id)), group.recorded


def _no_group(group_id: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
