"""Who is let into a group, and what a join means for it: a new member, one that comes again, one with news.

Static members that come back are in `static_members.py`, the rebalance that a join may start in `rebalancing.py`.
"""

from typing import Final

from ottla.coordinator.group.group import Group
from ottla.coordinator.group.member import Caller, JoinAnswer, Member, protocols_of, rebalance_timeout_of
from ottla.coordinator.group.rebalancing import Rebalancing
from ottla.coordinator.group.responses import joined
from ottla.coordinator.group.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.coordinator.group.static_members import replace_static_member
from ottla.coordinator.runtime.ports import NOTHING, Outcome
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

# From here on a dynamic member must join with an id that we gave it (KIP-394): a first join that is repeated because
# its answer was lost would otherwise leave a member behind that does not exist.
_MEMBER_ID_REQUIRED_SINCE: Final = 4


def refused(error_code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, member_id=member_id)


def join(
    rebalancing: Rebalancing,
    group: Group,
    request: JoinGroupRequest,
    caller: Caller,
    answer: JoinAnswer,
    *,
    new_id: str,
    group_max_size: int,
) -> Outcome:
    """A join of a group that exists; its session timeout was checked. `new_id` is for a member that has none."""
    member_id = request.member_id
    protocols = protocols_of(request.protocols)
    if not _has_room(group, member_id, group_max_size):
        return _refuse_full(rebalancing, group, member_id, answer)
    if not group.supports(request.protocol_type, protocols):
        answer(refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
        return NOTHING
    if member_id:
        return _join_known(rebalancing, group, request, caller, protocols, answer)
    if request.group_instance_id is not None:
        existing = group.static_members.get(request.group_instance_id)
        if existing is not None:
            return replace_static_member(
                rebalancing, group, existing, request, caller, protocols, answer, new_id=new_id
            )
    elif caller.version >= _MEMBER_ID_REQUIRED_SINCE:
        rebalancing.add_pending(group, new_id, session_timeout_ms=request.session_timeout_ms)
        answer(refused(ErrorCode.MEMBER_ID_REQUIRED, new_id))
        return NOTHING
    return _add(rebalancing, group, request, caller, protocols, answer, member_id=new_id)


def _has_room(group: Group, member_id: str, group_max_size: int) -> bool:
    member = group.members.get(member_id)
    if group.state is EMPTY:
        return True
    if group.state is PREPARING_REBALANCE:
        # Counted by who has joined: if the limit was lowered, the last ones to join again are those that must go.
        return (member is not None and member.join_answer is not None) or group.joins_waiting < group_max_size
    return member is not None or len(group.members) < group_max_size


def _refuse_full(rebalancing: Rebalancing, group: Group, member_id: str, answer: JoinAnswer) -> Outcome:
    member = group.members.get(member_id)
    if member is not None:
        group.drop(member, rebalancing.answers)
    group.drop_pending(member_id)
    outcome = rebalancing.maybe_complete_join(group)
    rebalancing.answers.add(answer, refused(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    return outcome


def _join_known(
    rebalancing: Rebalancing,
    group: Group,
    request: JoinGroupRequest,
    caller: Caller,
    protocols: dict[str, bytes],
    answer: JoinAnswer,
) -> Outcome:
    member_id = request.member_id
    if member_id in group.pending and request.group_instance_id is None:
        return _add(rebalancing, group, request, caller, protocols, answer, member_id=member_id)
    member = group.find(member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        answer(refused(member, member_id))
        return NOTHING
    if _is_repeated(group, member, protocols):
        answer(joined(group, member))
        return NOTHING
    group.update(
        member,
        protocols=protocols,
        rebalance_timeout_ms=rebalance_timeout_of(request.rebalance_timeout_ms, request.session_timeout_ms),
        session_timeout_ms=request.session_timeout_ms,
    )
    group.await_join(member, answer, rebalancing.answers)
    return rebalancing.prepare_or_complete(group)


def _is_repeated(group: Group, member: Member, protocols: dict[str, bytes]) -> bool:
    """Whether the current generation answers the join: the client most likely lost its first answer."""
    if group.state is COMPLETING_REBALANCE:
        return member.says_the_same(protocols)
    if group.state is STABLE:
        # A leader that joins again has seen something that members' metadata don't show: more partitions of a topic.
        return group.leader_id != member.member_id and member.says_the_same(protocols)
    return False


def _add(
    rebalancing: Rebalancing,
    group: Group,
    request: JoinGroupRequest,
    caller: Caller,
    protocols: dict[str, bytes],
    answer: JoinAnswer,
    *,
    member_id: str,
) -> Outcome:
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id or "",
        client_host=caller.client_host,
        rebalance_timeout_ms=rebalance_timeout_of(request.rebalance_timeout_ms, request.session_timeout_ms),
        session_timeout_ms=request.session_timeout_ms,
        protocols=protocols,
        is_new=True,
    )
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.is_member_added = True
    group.add(member, request.protocol_type)
    group.await_join(member, answer, rebalancing.answers)
    rebalancing.sessions.start(group, member)
    return rebalancing.prepare_or_complete(group)
