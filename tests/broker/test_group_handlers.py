"""Groups and their offsets as a client sees them, in every version that is served."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.exchange import Deferred
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.rig import Rig, bytes_of
from tests.coordinator.group.members import subscription

GROUP = "readers"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path, {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"})
    rig.create_topic("orders", partitions=3)
    rig.create_topic("payments")
    rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3)
    while rig.ask(ListGroupsRequest(), ListGroupsResponse, 0).error_code:
        rig.flush()
    yield rig
    rig.close()


class Member:
    """A member that speaks one version of each API."""

    def __init__(
        self, rig: Rig, *, member_id: str = "", version: int = 3, topics: tuple[str, ...] = ("orders",)
    ) -> None:
        self.rig = rig
        self.version = version
        self.member_id = member_id
        self.generation = -1
        self.topics = topics

    def join(self, **fields: object) -> JoinGroupResponse:
        """Its own join completes the only rebalance that there is."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(list(self.topics)))],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.rig.send(encode_request(request, self.version, 77, "test"))
        for _ in range(3):
            self.rig.advance(1)
        _, response = decode_response(JoinGroupResponse, self.version, bytes_of(answer)[4:])
        if response.member_id:
            self.member_id = response.member_id
        self.generation = response.generation_id
        return response

    def sync(self, version: int = 3) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all of it")],
        )
        return self.rig.ask(request, SyncGroupResponse, version)

    def heartbeat(self, version: int = 4, **fields: object) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        for name, value in fields.items():
            setattr(request, name, value)
        return self.rig.ask(request, HeartbeatResponse, version).error_code

    def leave(self, version: int = 4) -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=GROUP, member_id=self.member_id, members=[MemberIdentity(member_id=self.member_id)]
        )
        return self.rig.ask(request, LeaveGroupResponse, version)


@pytest.fixture
def member(rig: Rig) -> Member:
    """The only member of a stable group."""
    member = Member(rig)
    assert member.join().error_code == 0
    assert member.sync().assignment == b"all of it"
    return member


def commit(rig: Rig, version: int = 8, offset: int = 5, topic: str = "orders", **fields: object) -> list[int]:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="note")
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])])
    for name, value in fields.items():
        setattr(request, name, value)
    response = rig.ask(request, OffsetCommitResponse, version)
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def fetch(rig: Rig, version: int = 8, group_id: str = GROUP) -> dict[tuple[str, int], tuple[int, str | None]]:
    """Offset and metadata of everything that the group has committed."""
    request = OffsetFetchRequest(group_id=group_id, groups=[OffsetFetchRequestGroup(group_id=group_id)])
    response = rig.ask(request, OffsetFetchResponse, version)
    topics = response.topics if version < 8 else response.groups[0].topics
    return {
        (topic.name, partition.partition_index): (partition.committed_offset, partition.metadata)
        for topic in topics
        for partition in topic.partitions
    }


# Members


@pytest.mark.parametrize("version", range(10))
def test_join_of_every_version_leads_a_generation(rig: Rig, version: int) -> None:
    member = Member(rig, version=version)
    response = member.join()
    if version >= 4:
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        response = member.join()
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 1, "range")
    assert response.leader == response.member_id == member.member_id
    assert [entry.member_id for entry in response.members] == [member.member_id]
    if version >= 7:
        assert response.protocol_type == "consumer"


@pytest.mark.parametrize("version", range(6))
def test_sync_of_every_version_gets_the_assignment(rig: Rig, version: int) -> None:
    member = Member(rig)
    member.join()
    response = member.sync(version)
    assert (response.error_code, response.assignment) == (0, b"all of it")


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_of_every_version(member: Member, version: int) -> None:
    for _ in range(3):  # the second finds what the first has taught
        assert member.heartbeat(version) == 0
    assert member.heartbeat(version, generation_id=0) == ErrorCode.ILLEGAL_GENERATION
    assert member.heartbeat(version, member_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.heartbeat(version, group_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_leave_of_every_version(member: Member, version: int) -> None:
    response = member.leave(version)
    assert response.error_code == 0
    assert [entry.error_code for entry in response.members] == ([0] if version >= 3 else [])
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_empty_group_id_is_refused(rig: Rig) -> None:
    member = Member(rig)
    assert member.join(group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    assert rig.ask(SyncGroupRequest(), SyncGroupResponse, 5).error_code == ErrorCode.INVALID_GROUP_ID
    assert member.heartbeat(group_id="") == ErrorCode.INVALID_GROUP_ID
    assert rig.ask(LeaveGroupRequest(), LeaveGroupResponse, 5).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_timeout_ms", [0, 5_999, 1_800_001])
def test_session_timeout_out_of_range_is_refused(rig: Rig, session_timeout_ms: int) -> None:
    response = Member(rig).join(session_timeout_ms=session_timeout_ms)
    assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_remembered_heartbeats_keep_a_session_alive_and_end_with_the_generation(member: Member) -> None:
    rig = member.rig
    for _ in range(5):
        rig.advance(8_000)
        assert member.heartbeat() == 0
    assert rig.peer.is_deferrable
    rig.peer.is_deferrable = False
    second = Member(rig)
    waiting = rig.send(
        encode_request(
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(["orders"]))],
            ),
            second.version,
            77,
            "test",
        )
    )
    assert isinstance(waiting, Deferred)
    assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert not rig.peer.is_deferrable  # its join comes next
    assert member.join().generation_id == 2
    assert waiting.is_complete
    assert member.heartbeat(generation_id=1) == ErrorCode.ILLEGAL_GENERATION
    assert member.heartbeat() == 0


def test_member_that_is_silent_for_its_session_is_out(member: Member) -> None:
    assert member.heartbeat() == 0
    member.rig.advance(10_001)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_id_longer_than_a_record_holds_closes_the_connection(rig: Rig) -> None:
    with pytest.raises(ProtocolViolation):
        rig.send(encode_request(HeartbeatRequest(group_id="g" * 40_000), 4, 1, "test"))


# Offsets


@pytest.mark.parametrize("version", range(2, 10))
def test_commit_of_every_version_is_fetched_by_every_version(rig: Rig, version: int) -> None:
    assert commit(rig, version) == [0]
    for fetch_version in range(2, 10):
        assert fetch(rig, fetch_version) == {("orders", 0): (5, "note")}


@pytest.mark.parametrize("version", range(1, 10))
def test_fetch_of_what_was_never_committed(rig: Rig, version: int) -> None:
    commit(rig)
    request = OffsetFetchRequest(
        group_id=GROUP,
        topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[1, 0])],
        groups=[
            OffsetFetchRequestGroup(
                group_id=GROUP, topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[1, 0])]
            ),
            OffsetFetchRequestGroup(
                group_id="nobody", topics=[OffsetFetchRequestTopics(name="gone", partition_indexes=[0])]
            ),
        ],
        require_stable=version >= 7,
    )
    response = rig.ask(request, OffsetFetchResponse, version)
    if version >= 8:
        assert [group.error_code for group in response.groups] == [0, 0]
        assert response.groups[1].topics[0].partitions[0].committed_offset == -1
    topics = response.topics if version < 8 else response.groups[0].topics
    missing, found = topics[0].partitions
    assert (missing.partition_index, missing.committed_offset, missing.metadata, missing.error_code) == (1, -1, "", 0)
    assert (found.partition_index, found.committed_offset) == (0, 5)
    assert missing.committed_leader_epoch == -1


def test_commits_by_member_generation_and_topic_are_checked(member: Member) -> None:
    rig = member.rig
    ours = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation}
    assert commit(rig, **ours) == [0]
    assert commit(rig, topic="gone", **ours) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert commit(rig, **{**ours, "generation_id_or_member_epoch": 0}) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(rig, **{**ours, "member_id": "stranger"}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(rig) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(rig, 9, group_id="nobody", generation_id_or_member_epoch=1) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert fetch(rig) == {("orders", 0): (5, "note")}


def test_remembered_commits_are_checked_again_when_the_group_changes(member: Member) -> None:
    rig = member.rig
    ours = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation}
    for offset in range(5):  # the second finds what the first has taught
        assert commit(rig, offset=offset, **ours) == [0]
        assert fetch(rig) == {("orders", 0): (offset, "note")}
        rig.advance(8_000)  # and each counts as a heartbeat
    assert commit(rig, topic="gone", **ours) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert commit(rig, offset=9, group_instance_id="static", **ours) == [ErrorCode.UNKNOWN_MEMBER_ID]
    member.leave()
    assert commit(rig, offset=9, **ours) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert fetch(rig) == {("orders", 0): (4, "note")}


def test_remembered_commits_of_a_single_partition_keep_a_session_alive(member: Member) -> None:
    rig = member.rig
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member.member_id,
        generation_id_or_member_epoch=member.generation,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )
    for _ in range(5):
        response = rig.ask(request, OffsetCommitResponse, 8)
        assert response.topics[0].partitions[0].error_code == 0
        rig.advance(8_000)
    assert member.heartbeat() == 0


def test_remembered_commits_of_a_consumer_that_assigns_itself_end_when_somebody_joins(rig: Rig) -> None:
    for offset in range(3):
        assert commit(rig, offset=offset) == [0]
    assert fetch(rig) == {("orders", 0): (2, "note")}
    deleted = rig.ask(DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse, 2)
    assert deleted.results[0].error_code == 0
    assert commit(rig, offset=7) == [0]  # makes the group anew
    assert fetch(rig) == {("orders", 0): (7, "note")}
    member = Member(rig)
    member.join()
    member.sync()
    assert commit(rig, offset=9) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_commit_before_the_sync_is_told_to_wait(rig: Rig) -> None:
    member = Member(rig)
    member.join()
    ours = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation}
    assert commit(rig, **ours) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_offset_delete_is_refused_for_what_is_subscribed(member: Member) -> None:
    rig = member.rig
    ours = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation}
    commit(rig, **ours)
    commit(rig, topic="payments", **ours)
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in ("orders", "payments", "gone")
        ],
    )
    response = rig.ask(request, OffsetDeleteResponse, 0)
    assert response.error_code == 0
    assert [topic.partitions[0].error_code for topic in response.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert fetch(rig).keys() == {("orders", 0)}
    request.group_id = "nobody"
    assert rig.ask(request, OffsetDeleteResponse, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_go_with_their_topic(rig: Rig) -> None:
    commit(rig)
    commit(rig, topic="payments")
    rig.pump.call(rig.topics.delete, "orders")
    assert fetch(rig).keys() == {("payments", 0)}


# Administration


@pytest.mark.parametrize("version", range(7))
def test_describe_of_every_version(member: Member, version: int) -> None:
    request = DescribeGroupsRequest(groups=[GROUP, "nobody"], include_authorized_operations=version >= 3)
    stable, missing = member.rig.ask(request, DescribeGroupsResponse, version).groups
    assert (stable.error_code, stable.group_state, stable.protocol_type, stable.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (seen,) = stable.members
    assert (seen.member_id, seen.client_id, seen.client_host) == (member.member_id, "test", "/192.0.2.7")
    assert (seen.member_metadata, seen.member_assignment) == (subscription(["orders"]), b"all of it")
    assert (missing.error_code, missing.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0, "Dead")
    if version >= 3:
        assert stable.authorized_operations == 0b110101001000
        request.include_authorized_operations = False
        stable, _ = member.rig.ask(request, DescribeGroupsResponse, version).groups
        assert stable.authorized_operations == -(2**31)


@pytest.mark.parametrize("version", range(6))
def test_list_of_every_version(member: Member, version: int) -> None:
    commit(member.rig, group_id="by hand")
    response = member.rig.ask(ListGroupsRequest(), ListGroupsResponse, version)
    found = {group.group_id: (group.protocol_type, group.group_state, group.group_type) for group in response.groups}
    assert found == {
        GROUP: ("consumer", "Stable" if version >= 4 else "", "classic" if version >= 5 else ""),
        "by hand": ("", "Empty" if version >= 4 else "", "classic" if version >= 5 else ""),
    }


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["stable"], [], {GROUP}),
        (["Empty", "Dead"], [], {"by hand"}),
        (["Dead"], [], set()),
        ([], ["Classic"], {GROUP, "by hand"}),
        ([], ["consumer"], set()),
        (["Stable"], ["classic", "share"], {GROUP}),
    ],
)
def test_list_by_state_and_type(member: Member, states: list[str], types: list[str], found: set[str]) -> None:
    commit(member.rig, group_id="by hand")
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    response = member.rig.ask(request, ListGroupsResponse, 5)
    assert {group.group_id for group in response.groups} == found


@pytest.mark.parametrize("version", range(3))
def test_delete_of_every_version(member: Member, version: int) -> None:
    rig = member.rig
    commit(rig, group_id="by hand")
    request = DeleteGroupsRequest(groups_names=[GROUP, "by hand", "nobody", "by hand"])
    response = rig.ask(request, DeleteGroupsResponse, version)
    assert {result.group_id: result.error_code for result in response.results} == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "by hand": ErrorCode.NONE,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert fetch(rig, group_id="by hand") == {}
    member.leave()
    response = rig.ask(DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse, version)
    assert [result.error_code for result in response.results] == [0]
    assert rig.ask(ListGroupsRequest(), ListGroupsResponse, version).groups == []


# A broker that has no offsets topic yet


def test_without_a_coordinator_every_request_says_so(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.create_topic("orders")
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    member = Member(rig)
    assert member.join().error_code == unavailable
    assert member.sync().error_code == unavailable
    assert member.heartbeat() == unavailable
    assert member.leave().error_code == unavailable
    assert commit(rig) == [unavailable]
    for version in range(1, 10):
        wanted = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
        request = OffsetFetchRequest(group_id=GROUP, topics=wanted, groups=[OffsetFetchRequestGroup(group_id=GROUP)])
        response = rig.ask(request, OffsetFetchResponse, version)
        if version == 1:
            assert response.topics[0].partitions[0].error_code == unavailable
        else:
            assert (response.groups[0].error_code if version >= 8 else response.error_code) == unavailable
    described = rig.ask(DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse, 5)
    assert described.groups[0].error_code == unavailable
    deleted = rig.ask(DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse, 2)
    assert deleted.results[0].error_code == unavailable
    assert rig.ask(OffsetDeleteRequest(group_id=GROUP), OffsetDeleteResponse, 0).error_code == unavailable
    assert rig.ask(ListGroupsRequest(), ListGroupsResponse, 5).groups == []
    rig.close()
