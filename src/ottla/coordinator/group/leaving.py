"""Members that leave by themselves or are removed by an administrator, several in one request."""

from collections.abc import Callable

from ottla.coordinator.group.group import Group
from ottla.coordinator.group.rebalancing import Rebalancing
from ottla.coordinator.runtime.ports import NEVER, NOTHING, Outcome
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

# Until version 2 a request names one member, and the answer has one error for all.
SEVERAL_SINCE = 3


def leave(
    rebalancing: Rebalancing,
    group: Group | None,
    request: LeaveGroupRequest,
    answer: Callable[[LeaveGroupResponse], None],
    *,
    version: int,
) -> Outcome:
    leaving = request.members if version >= SEVERAL_SINCE else [MemberIdentity(member_id=request.member_id)]
    responses: list[MemberResponse] = []
    has_lost_members = False
    for identity in leaving:
        if group is None:
            error_code = ErrorCode.UNKNOWN_MEMBER_ID
        elif identity.member_id in group.pending:
            group.drop_pending(identity.member_id)
            error_code = ErrorCode.NONE
        else:
            error_code = _remove(rebalancing, group, identity)
            has_lost_members |= error_code == ErrorCode.NONE
        responses.append(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error_code
            )
        )
    outcome = NOTHING
    if group is not None:
        # An id that was only reserved changes nothing for the others, unless they waited for it.
        outcome = rebalancing.after_departure(group) if has_lost_members else rebalancing.maybe_complete_join(group)
    if version >= SEVERAL_SINCE:
        response = LeaveGroupResponse(members=responses)
    else:
        response = LeaveGroupResponse(error_code=responses[0].error_code)
    if outcome is NOTHING:
        rebalancing.answers.add(answer, response)
        return NOTHING

    def on_stored(error_code: ErrorCode) -> None:
        answer(response if error_code == ErrorCode.NONE else LeaveGroupResponse(error_code=error_code))

    return Outcome(outcome.records, on_stored, NEVER)


def _remove(rebalancing: Rebalancing, group: Group, identity: MemberIdentity) -> ErrorCode:
    if not identity.member_id and identity.group_instance_id is not None:
        # An administrator knows the instance, not the id of the moment.
        member = group.static_members.get(identity.group_instance_id)
        found = ErrorCode.UNKNOWN_MEMBER_ID if member is None else member
    else:
        found = group.find(identity.member_id, identity.group_instance_id)
    if isinstance(found, ErrorCode):
        return found
    group.drop(found, rebalancing.answers)
    return ErrorCode.NONE
