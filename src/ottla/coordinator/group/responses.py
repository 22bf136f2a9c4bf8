"""A group as responses show it: to members that join and sync, and to administrators."""

from typing import Final

from ottla.coordinator.group.group import Group
from ottla.coordinator.group.member import Member
from ottla.coordinator.group.states import DEAD, STABLE
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.list_groups import ListedGroup
from ottla.protocol.messages.sync_group import SyncGroupResponse

# From here on a group that isn't there is an error; before, it is a dead group.
_NOT_FOUND_SINCE: Final = 6
_GROUP_TYPE: Final = "classic"


def joined(group: Group, member: Member) -> JoinGroupResponse:
    """The current generation; the leader is shown all members, because it will assign their partitions."""
    response = in_generation(group, member, leader_id=group.leader_id)
    if group.leader_id == member.member_id:
        response.members = shown_members(group)
    return response


def in_generation(group: Group, member: Member, *, leader_id: str | None) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader_id or "",
        member_id=member.member_id,
    )


def shown_members(group: Group) -> list[JoinGroupResponseMember]:
    protocol = group.protocol or ""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.protocols[protocol],
        )
        for member in group.members.values()
    ]


def assigned(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


# To administrators


def described(group: Group | None, group_id: str, *, version: int) -> DescribedGroup:
    if group is None:
        if version < _NOT_FOUND_SINCE:
            return DescribedGroup(group_id=group_id, group_state=DEAD.value)
        return DescribedGroup(
            group_id=group_id,
            group_state=DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
        )
    # During a rebalance members may support different protocols: there is none to show metadata of.
    protocol = group.protocol if group.state is STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.protocols[protocol],
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=_GROUP_TYPE,
    )
