"""A member of a group by hand: each request is sent when the test says so, with what the test says."""

import struct
from collections.abc import Mapping, Sequence

from ottla.protocol.codec import decode_response
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.processes import eventually
from tests.raw_wire import RawClient

JOIN_VERSION = 9
SYNC_VERSION = 5
HEARTBEAT_VERSION = 4
LEAVE_VERSION = 5
COMMIT_VERSION = 9
FETCH_VERSION = 9
MEMBER_ID_REQUIRED = 79
REBALANCE_IN_PROGRESS = 27


def subscription(*topics: str) -> bytes:
    """What a consumer that owns nothing says when it joins, version 1.

    Its own data are what a sticky assignor expects: no partitions, no generation; librdkafka crashes without them.
    """
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    own_data = struct.pack(">ii", 0, -1)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">i", len(own_data)) + own_data + bytes(4)


class RawMember:
    """One connection and one place in a group; use as a context manager. `close` without `leave` is what dying is."""

    def __init__(
        self,
        port: int,
        group_id: str,
        *,
        topics: Sequence[str] = ("orders",),
        protocols: Sequence[str] = ("range",),
        protocol_type: str = "consumer",
        session_timeout_ms: int = 6_000,
        rebalance_timeout_ms: int = 10_000,
        instance_id: str | None = None,
    ) -> None:
        self.client = RawClient(port)
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.leader_id = ""
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = [JoinGroupRequestProtocol(name=name, metadata=subscription(*topics)) for name in protocols]

    def __enter__(self) -> "RawMember":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.member_id

    # Joining

    def join_request(self, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
        )

    def ask_join(self, version: int = JOIN_VERSION) -> JoinGroupResponse:
        """One join as it is; an id that it gives is not taken."""
        return self.client.ask(self.join_request(self.member_id), version, JoinGroupResponse)

    def take_id(self) -> None:
        """A dynamic member asks for its id first, and is waited for from then on."""
        if not self.member_id and self.instance_id is None:
            given = self.ask_join()
            assert given.error_code == MEMBER_ID_REQUIRED
            self.member_id = given.member_id

    def send_join(self) -> None:
        """Ask for a place, and do not wait for the next generation."""
        self.take_id()
        self.client.send_request(self.join_request(self.member_id), JOIN_VERSION)

    def receive_join(self) -> JoinGroupResponse:
        """The answer to `send_join`; a place that it gives is taken."""
        _, response = decode_response(JoinGroupResponse, JOIN_VERSION, self.client.receive_frame())
        if response.error_code == 0:
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.leader_id = response.leader
        return response

    def join(self) -> JoinGroupResponse:
        self.send_join()
        return self.receive_join()

    # Its assignment

    def send_sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        entries = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            assignments=entries,
        )
        self.client.send_request(request, SYNC_VERSION)

    def receive_sync(self) -> SyncGroupResponse:
        return decode_response(SyncGroupResponse, SYNC_VERSION, self.client.receive_frame())[1]

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> SyncGroupResponse:
        self.send_sync(assignments)
        return self.receive_sync()

    # Life

    def heartbeat(self) -> int:
        """The error code."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return self.client.ask(request, HEARTBEAT_VERSION, HeartbeatResponse).error_code

    def leave(self) -> int:
        """The error code."""
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        response = self.client.ask(request, LEAVE_VERSION, LeaveGroupResponse)
        return response.error_code or response.members[0].error_code

    # Offsets

    def commit(self, topic: str, offset: int, *, partition: int = 0, text: str | None = "") -> int:
        """The error code."""
        return commit(
            self.client,
            self.group_id,
            topic,
            offset,
            partition=partition,
            text=text,
            member_id=self.member_id,
            generation=self.generation,
            instance_id=self.instance_id,
        )


def commit(
    client: RawClient,
    group_id: str,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    text: str | None = "",
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    version: int = COMMIT_VERSION,
) -> int:
    """The error code. Without a member it is the commit of a consumer that needs no group."""
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=text
                    )
                ],
            )
        ],
    )
    return client.ask(request, version, OffsetCommitResponse).topics[0].partitions[0].error_code


def committed(client: RawClient, group_id: str) -> dict[tuple[str, int], int]:
    """Everything that a group has committed: offsets by topic and partition."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    (group,) = client.ask(request, FETCH_VERSION, OffsetFetchResponse).groups
    assert group.error_code == 0, group.error_code
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
    }


def find_coordinator(client: RawClient, group_id: str) -> None:
    """The topic of the coordinator is made, and its partition for the group is loaded."""
    request = FindCoordinatorRequest(key=group_id)
    assert client.ask(request, 3, FindCoordinatorResponse).error_code == 0
    probe = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    eventually(lambda: client.ask(probe, FETCH_VERSION, OffsetFetchResponse).groups[0].error_code == 0)


def gather(first: RawMember, *others: RawMember) -> RawMember:
    """All of a group join its next generation; the leader. At most one of the others may be a new static member."""
    if first.generation < 0:
        assert first.join().error_code == 0
    for member in others:
        member.take_id()
    for member in others:
        member.send_join()
    if others:
        eventually(lambda: first.heartbeat() == REBALANCE_IN_PROGRESS)
    members = [first, *others]
    first.send_join()
    for member in members:
        assert member.receive_join().error_code == 0
    assert len({(member.generation, member.leader_id) for member in members}) == 1
    (leader,) = (member for member in members if member.is_leader)
    return leader


def rebalance(first: RawMember, *others: RawMember) -> RawMember:
    """All join, and each gets its own id as its assignment; the leader."""
    leader = gather(first, *others)
    settle(leader, first, *others)
    return leader


def settle(leader: RawMember, *members: RawMember) -> None:
    """The leader gives each its own id as assignment, and each asks for it."""
    for member in members:
        if member is not leader:
            member.send_sync()
    leader.send_sync({member.member_id: member.member_id.encode() for member in members})
    for member in members:
        answer = member.receive_sync()
        assert (answer.error_code, answer.assignment) == (0, member.member_id.encode())
