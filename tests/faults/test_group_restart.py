"""A broker that stops or is killed under its groups: no acknowledged commit is lost, and members just go on.

The coordinator of one broker: it comes back from its log.
"""

from collections.abc import Callable

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.processes import BrokerProcess
from tests.raw_wire import RawClient

pytestmark = pytest.mark.process

StartBroker = Callable[..., BrokerProcess]

GROUP = "readers"
COMMITS = 200
NO_DELAY = "group.initial.rebalance.delay.ms=0"


class Member:
    """The only member of its group, which knows the coordinator to be loading for a moment."""

    def __init__(self, port: int) -> None:
        self.client = RawClient(port)
        self.client.ask(FindCoordinatorRequest(key=GROUP), 3, FindCoordinatorResponse)
        self.member_id = ""
        self.generation = -1

    def join(self) -> None:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = self.client.ask(request, 3, JoinGroupResponse)
        assert joined.error_code == 0
        self.member_id, self.generation = joined.member_id, joined.generation_id
        mine = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all of it")
        sync = SyncGroupRequest(
            group_id=GROUP, generation_id=self.generation, member_id=self.member_id, assignments=[mine]
        )
        assert self.client.ask(sync, 3, SyncGroupResponse).error_code == 0

    def come_back(self, port: int) -> None:
        """Connect anew, and wait until the group is loaded: before, a sync is told to rejoin."""
        self.client.close()
        self.client = RawClient(port)
        assert self.heartbeat() == 0
        while self._fetch().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            pass

    def heartbeat(self) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        return self.client.ask(request, 3, HeartbeatResponse).error_code

    def sync_again(self) -> bytes:
        """What the coordinator remembers as this member's assignment."""
        request = SyncGroupRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        answer = self.client.ask(request, 3, SyncGroupResponse)
        assert answer.error_code == 0
        return answer.assignment

    def commit(self, index: int, offset: int) -> int:
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name="read", partitions=[partition])],
        )
        return self.client.ask(request, 8, OffsetCommitResponse).topics[0].partitions[0].error_code

    def _fetch(self) -> OffsetFetchResponseGroup:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (group,) = self.client.ask(request, 8, OffsetFetchResponse).groups
        return group

    def committed(self) -> dict[int, int]:
        group = self._fetch()
        assert group.error_code == 0
        return {
            partition.partition_index: partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }


def test_members_and_offsets_live_through_stops_and_kills(start_broker: StartBroker) -> None:
    broker = start_broker(NO_DELAY)
    member = Member(broker.port)
    assert member.client.create_topic("read", partitions=4) == 0
    member.join()
    expected: dict[int, int] = {}
    for stop in (broker.kill, broker.stop, broker.kill):
        for number in range(COMMITS):
            offset = expected.get(number % 4, 0) + 1
            assert member.commit(number % 4, offset) == 0
            expected[number % 4] = offset
        stop()
        broker.start()
        member.come_back(broker.port)
        assert member.heartbeat() == 0  # no rebalance: the generation and its member are known
        assert member.sync_again() == b"all of it"
        assert member.committed() == expected
    assert member.generation == 1
    member.client.close()


def test_clean_stop_answers_a_join_that_waits(start_broker: StartBroker) -> None:
    broker = start_broker("group.initial.rebalance.delay.ms=60000")
    member = Member(broker.port)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=120_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    member.client.send_request(request, 3)
    member.client.send_request(FindCoordinatorRequest(key=GROUP), 3)
    other = RawClient(broker.port)
    other.ask(FindCoordinatorRequest(key=GROUP), 3, FindCoordinatorResponse)  # by now the join is read
    assert broker.stop() == 0
    assert ErrorCode.NOT_COORDINATOR.to_bytes(2, "big") in member.client.receive_frame()
    other.close()
    member.client.close()
