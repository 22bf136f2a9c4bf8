"""The requests of a member to its coordinator, and the leader's view of the members.

Pure: settings and a membership in, messages out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.clients.assignors import GroupMemberView
from ottla.clients.consumer.strategies import ALL_ASSIGNORS, Strategies, user_data_of
from ottla.clients.consumer.values import GroupMetadata
from ottla.clients.consumer_protocol import PROTOCOL_TYPE, decode_member, encode_assignment, encode_subscription
from ottla.core.types import TopicPartition
from ottla.links.backoff import Backoff
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponseMember
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


class GroupSettings(NamedTuple):
    """The config keys for a membership."""

    group_id: str
    instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    backoff: Backoff
    request_timeout_ms: int
    strategies: Strategies
    rack_id: str | None


class LastAssignment(NamedTuple):
    """The partitions that a member had, for sticky assignors; kept when it revokes all of them to rejoin."""

    topic_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1


def join_request(
    settings: GroupSettings,
    *,
    member_id: str,
    topics: Iterable[str],
    owned: Sequence[TopicPartition],
    last: LastAssignment,
    reason: str,
) -> JoinGroupRequest:
    wanted = sorted(topics)
    protocols = [
        JoinGroupRequestProtocol(
            name=name,
            metadata=encode_subscription(
                wanted,
                owned=owned,
                generation_id=last.generation_id,
                user_data=user_data_of(name, topic_partitions=last.topic_partitions, generation_id=last.generation_id),
                rack_id=settings.rack_id,
            ),
        )
        for name in settings.strategies.names
    ]
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        # A member that doesn't poll for this long is removed anyway: so the coordinator waits that long for its join.
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=settings.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=reason,
    )


def sync_request(
    identity: GroupMetadata, protocol_name: str, assignments: Mapping[str, Sequence[TopicPartition]]
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=identity.group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(topic_partitions))
            for member_id, topic_partitions in assignments.items()
        ],
    )


def heartbeat_request(identity: GroupMetadata) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=identity.group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
    )


def leave_request(identity: GroupMetadata, reason: str) -> LeaveGroupRequest:
    member = MemberIdentity(member_id=identity.member_id, group_instance_id=identity.instance_id, reason=reason)
    return LeaveGroupRequest(group_id=identity.group_id, members=[member], member_id=identity.member_id)


def read_members(members: Iterable[JoinGroupResponseMember]) -> list[GroupMemberView]:
    """The subscriptions of all members, for the leader; ProtocolViolation if one of them is invalid."""
    return [decode_member(member.member_id, member.group_instance_id, member.metadata) for member in members]


def assign_partitions(
    protocol_name: str, members: Sequence[GroupMemberView], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    return ALL_ASSIGNORS[protocol_name](members, partition_counts)
