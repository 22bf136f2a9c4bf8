"""Members as the tests of offsets and shards need them: one that joins, gets everything, and leaves."""

from struct import pack

from ottla.coordinator.group.member import Caller
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.group.shard_rig import ShardRig

CALLER = Caller(version=3, client_id="test", client_host="/127.0.0.1")
LEAVER = Caller(version=5, client_id="test", client_host="/127.0.0.1")


def subscription(topics: list[str]) -> bytes:
    """What a consumer says when it joins, version 0."""
    names = b"".join(pack(">h", len(topic)) + topic.encode() for topic in topics)
    return pack(">hi", 0, len(topics)) + names + pack(">i", -1)


def join_alone(rig: ShardRig, group_id: str, *, topics: list[str], protocol_type: str = "consumer") -> tuple[str, int]:
    """(member id, generation) of the only member of a group that is stable then."""
    metadata = subscription(topics) if protocol_type == "consumer" else b"opaque"
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    joined: list[JoinGroupResponse] = []
    rig.execute(rig.shard.groups.join(request, CALLER, joined.append))
    rig.advance(1)
    (answer,) = joined
    assert answer.error_code == 0
    synced: list[SyncGroupResponse] = []
    sync = SyncGroupRequest(
        group_id=group_id,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"everything")],
    )
    rig.execute(rig.shard.groups.sync(sync, CALLER, synced.append))
    assert [response.error_code for response in synced] == [0]
    return answer.member_id, answer.generation_id


def leave(rig: ShardRig, group_id: str, member_id: str) -> None:
    left: list[LeaveGroupResponse] = []
    request = LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id)])
    rig.execute(rig.shard.groups.leave(request, LEAVER, left.append))
    assert [response.error_code for response in left] == [0]
