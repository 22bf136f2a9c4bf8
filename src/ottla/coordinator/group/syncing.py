"""Syncs: the leader brings the assignment of its generation, everybody fetches its own."""

from ottla.coordinator.group.group import Group
from ottla.coordinator.group.group_records import group_record
from ottla.coordinator.group.member import NO_ASSIGNMENT, Member, SyncAnswer
from ottla.coordinator.group.rebalancing import Rebalancing
from ottla.coordinator.group.responses import assigned
from ottla.coordinator.group.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE
from ottla.coordinator.runtime.ports import NEVER, NOTHING, Outcome
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(rebalancing: Rebalancing, group: Group, request: SyncGroupRequest, answer: SyncAnswer) -> Outcome:
    member = _checked(group, request)
    if isinstance(member, ErrorCode):
        answer(SyncGroupResponse(error_code=member))
        return NOTHING
    rebalancing.synced(group, member)
    if group.state is not COMPLETING_REBALANCE:
        answer(assigned(group, member))
        return NOTHING
    group.await_sync(member, answer, rebalancing.answers)
    if group.leader_id != member.member_id:
        return NOTHING
    return _store_assignments(rebalancing, group, request)


def _checked(group: Group, request: SyncGroupRequest) -> Member | ErrorCode:
    member = group.find(request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        return member
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return member


def _differs(requested: str | None, ours: str | None) -> bool:
    """Requests before version 5 don't say it."""
    return requested is not None and ours is not None and requested != ours


def _store_assignments(rebalancing: Rebalancing, group: Group, request: SyncGroupRequest) -> Outcome:
    assignments = dict.fromkeys(group.members, NO_ASSIGNMENT)
    for entry in request.assignments:
        if entry.member_id in assignments:
            assignments[entry.member_id] = entry.assignment
    generation = group.generation

    def on_stored(error_code: ErrorCode) -> None:
        # The group may have gone on to another rebalance meanwhile; then everybody who waited knows already.
        if group.state is not COMPLETING_REBALANCE or group.generation != generation:
            return
        if error_code == ErrorCode.NONE:
            for member in group.members.values():
                member.assignment = assignments[member.member_id]
                if member.sync_answer is not None:
                    group.end_sync(member, rebalancing.answers, assigned(group, member))
                    rebalancing.sessions.restart(group, member)
            rebalancing.stabilize(group)
        else:
            rebalancing.reset_assignments(group, error_code)
            rebalancing.prepare(group)
        rebalancing.answers.give()

    return Outcome([group_record(group, assignments)], on_stored, NEVER)
