"""The answers to joins and syncs that say how the group is now."""

from ottla.coordinator.group import Group
from ottla.coordinator.member import Member
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupResponse


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
