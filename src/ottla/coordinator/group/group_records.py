"""A group as a record of the log, and back.

What is kept is a generation with its assignment; what happens between two generations is not, as in Kafka.
"""

from collections.abc import Mapping

from ottla.coordinator.group.group import Group
from ottla.coordinator.group.member import Member, rebalance_timeout_of
from ottla.coordinator.group.schemas import GroupKey, GroupValue, MemberValue, encode_group_key, encode_group_value
from ottla.coordinator.group.states import EMPTY
from ottla.coordinator.runtime.ports import KeyValue


def group_record(group: Group, assignments: Mapping[str, bytes]) -> KeyValue:
    """The record of the current generation; from now on it is the group's last one, even before it is committed."""
    protocol = group.protocol
    members = tuple(
        MemberValue(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.protocols[protocol] if protocol is not None else b"",
            assignments[member.member_id],
        )
        for member in group.members.values()
    )
    value = GroupValue(
        group.protocol_type or "", group.generation, protocol, group.leader_id, group.state_timestamp_ms, members
    )
    group.recorded = encode_group_value(value)
    return encode_group_key(GroupKey(group.group_id)), group.recorded


def tombstone(group_id: str) -> KeyValue:
    return encode_group_key(GroupKey(group_id)), None


def group_from(group_id: str, value: GroupValue) -> Group:
    group = Group(
        group_id,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        state_timestamp_ms=value.state_timestamp_ms,
    )
    members = [
        Member(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=rebalance_timeout_of(member.rebalance_timeout_ms, member.session_timeout_ms),
            session_timeout_ms=member.session_timeout_ms,
            # Only the protocol that was chosen is in the log; the others come back when the member joins again.
            protocols={value.protocol or "": member.subscription},
            assignment=member.assignment,
        )
        for member in value.members
    ]
    group.restore_members(members, protocol=value.protocol, leader_id=value.leader)
    group.recorded = encode_group_value(value)
    assert (group.state is EMPTY) == (not value.members)
    return group
