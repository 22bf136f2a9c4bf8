"""Sound requests of the APIs of groups, of a member that the broker knows; none makes it wait for somebody else."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.group_wire import subscription

_PROTOCOLS = [
    JoinGroupRequestProtocol(name="range", metadata=subscription("fuzzed")),
    JoinGroupRequestProtocol(name="cooperative-sticky", metadata=subscription("fuzzed", "other")),
]


class Seat(NamedTuple):
    """A member's place in a group; only a join needs none."""

    group_id: str = "fuzzed-group"
    member_id: str = "nobody"
    generation: int = 1


NO_SEAT = Seat()


def group_messages(topic: str, seat: Seat) -> dict[ApiKey, Callable[[int], ApiMessage]]:
    group_id, member_id, generation = seat
    return {
        ApiKey.OFFSET_COMMIT: lambda version: OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=3, committed_metadata="so far"
                        ),
                        OffsetCommitRequestPartition(partition_index=1, committed_offset=4, committed_metadata=None),
                    ],
                )
            ],
        ),
        ApiKey.OFFSET_FETCH: lambda version: OffsetFetchRequest(
            group_id=group_id,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])],
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group_id, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])]
                ),
                OffsetFetchRequestGroup(group_id=group_id, topics=None),
                OffsetFetchRequestGroup(group_id="no-such-group"),
            ],
        ),
        # The first join of a group is answered at once; further ones would wait for that member.
        ApiKey.JOIN_GROUP: lambda version: JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=6000,
            rebalance_timeout_ms=6000,
            group_instance_id="fuzzer" if version >= 5 and version % 2 else None,
            protocol_type="consumer",
            protocols=_PROTOCOLS,
            reason="fuzz" if version >= 8 else None,
        ),
        ApiKey.HEARTBEAT: lambda version: HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id
        ),
        ApiKey.LEAVE_GROUP: lambda version: LeaveGroupRequest(
            group_id=group_id,
            member_id=member_id,
            members=[MemberIdentity(member_id="nobody"), MemberIdentity(member_id=member_id)],
        ),
        ApiKey.SYNC_GROUP: lambda version: SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
        ),
        ApiKey.DESCRIBE_GROUPS: lambda version: DescribeGroupsRequest(groups=[group_id, "no-such-group"]),
        ApiKey.LIST_GROUPS: lambda version: ListGroupsRequest(
            states_filter=["Stable", "Empty"] if version >= 4 else [], types_filter=["classic"] if version >= 5 else []
        ),
        ApiKey.DELETE_GROUPS: lambda version: DeleteGroupsRequest(groups_names=[group_id, "no-such-group"]),
        ApiKey.OFFSET_DELETE: lambda version: OffsetDeleteRequest(
            group_id=group_id,
            topics=[OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
        ),
    }
