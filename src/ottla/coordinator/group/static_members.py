"""A static member that comes back: it takes its old place under a new id, and the holder of the old id is fenced.

In a stable group that costs no rebalance, which is what static members are for (KIP-345).
"""

from typing import Final, NamedTuple

from ottla.coordinator.group.group import Group
from ottla.coordinator.group.group_records import group_record
from ottla.coordinator.group.member import Caller, JoinAnswer, Member, rebalance_timeout_of
from ottla.coordinator.group.rebalancing import Rebalancing
from ottla.coordinator.group.responses import in_generation, shown_members
from ottla.coordinator.group.states import COMPLETING_REBALANCE, STABLE
from ottla.coordinator.runtime.ports import NEVER, Outcome
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

# From here on the response can say to a returning leader that it leads and assigns nothing (KIP-814).
_SKIP_ASSIGNMENT_SINCE: Final = 9


class _Claim(NamedTuple):
    """What changes when a place in the group goes to another process."""

    member_id: str
    client_id: str
    client_host: str
    protocols: dict[str, bytes]
    rebalance_timeout_ms: int
    session_timeout_ms: int


def replace_static_member(
    rebalancing: Rebalancing,
    group: Group,
    member: Member,
    request: JoinGroupRequest,
    caller: Caller,
    protocols: dict[str, bytes],
    answer: JoinAnswer,
    *,
    new_id: str,
) -> Outcome:
    """`member` is the one that has the instance id now; it becomes the caller."""
    old_leader_id = group.leader_id
    before = _Claim(
        member.member_id,
        member.client_id,
        member.client_host,
        member.protocols,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
    )
    recorded = group.recorded
    _fence(rebalancing, group, member)
    _give_place(
        group,
        member,
        _Claim(
            new_id,
            caller.client_id or "",
            caller.client_host,
            protocols,
            rebalance_timeout_of(request.rebalance_timeout_ms, request.session_timeout_ms),
            request.session_timeout_ms,
        ),
    )
    member.is_new = False  # it has its id, and can be waited for like one that was here before
    group.await_join(member, answer, rebalancing.answers)
    rebalancing.sessions.restart(group, member)
    if group.state is COMPLETING_REBALANCE:
        # The leader may already be assigning partitions to the old id.
        return rebalancing.prepare(group)
    if group.state is not STABLE or group.choice.choose(group.members.values()) != group.protocol:
        return rebalancing.prepare_or_complete(group)

    def on_stored(error_code: ErrorCode) -> None:
        if member.join_answer is not answer:
            return  # a rebalance, another replacement or an unload has answered already
        if error_code == ErrorCode.NONE:
            response = _returned(group, member, version=caller.version, old_leader_id=old_leader_id)
        else:
            response = in_generation(group, member, leader_id=old_leader_id)
            response.error_code = error_code
            response.member_id = ""
        group.end_join(member, rebalancing.answers, response)
        if error_code != ErrorCode.NONE:
            # The log knows the old id only, so that is the one that may go on.
            _give_place(group, member, before)
            group.recorded = recorded
            rebalancing.sessions.restart(group, member)
        rebalancing.answers.give()

    assignments = {other.member_id: other.assignment for other in group.members.values()}
    return Outcome([group_record(group, assignments)], on_stored, NEVER)


def _give_place(group: Group, member: Member, claim: _Claim) -> None:
    group.rename(member, claim.member_id)
    member.client_id = claim.client_id
    member.client_host = claim.client_host
    group.update(
        member,
        protocols=claim.protocols,
        rebalance_timeout_ms=claim.rebalance_timeout_ms,
        session_timeout_ms=claim.session_timeout_ms,
    )


def _fence(rebalancing: Rebalancing, group: Group, member: Member) -> None:
    fenced = ErrorCode.FENCED_INSTANCE_ID
    group.end_join(member, rebalancing.answers, JoinGroupResponse(error_code=fenced, member_id=member.member_id))
    group.end_sync(member, rebalancing.answers, SyncGroupResponse(error_code=fenced))


def _returned(group: Group, member: Member, *, version: int, old_leader_id: str | None) -> JoinGroupResponse:
    if version < _SKIP_ASSIGNMENT_SINCE:
        # By the old leader's id even a leader that returns takes itself for a follower and assigns nothing.
        return in_generation(group, member, leader_id=old_leader_id)
    response = in_generation(group, member, leader_id=group.leader_id)
    if group.leader_id == member.member_id:
        response.members = shown_members(group)
        response.skip_assignment = True
    return response
