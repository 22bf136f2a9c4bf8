"""A member of a consumer group on one blocking connection to its coordinator: join, sync, heartbeat, commit, leave.

What to do next is `membership.py`; how partitions are shared out is `assignors.py`. Reading records is the caller's,
who comes back here between two fetches.
"""

import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from ottla.clients.assignors import ASSIGNORS
from ottla.clients.cluster import Cluster
from ottla.clients.connection import Address, Connection
from ottla.clients.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_member,
    encode_assignment,
    encode_subscription,
)
from ottla.clients.errors import BrokerError, ConnectionFailed, check
from ottla.clients.membership import Membership, Step
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import Offset, TopicPartition
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 60_000
HEARTBEAT_INTERVAL_MS: Final = 3_000
_TOPICS_LOOK_INTERVAL_MS: Final = 30_000
_RETRY_WAIT_MS: Final = 100
_STOP_LOOK_MS: Final = 100
_COMMIT_ATTEMPTS: Final = 5

# The newest versions that name one group and topics by their names.
_FIND_COORDINATOR_VERSIONS: Final = (0, 3)
_OFFSET_COMMIT_VERSIONS: Final = (2, 9)
_OFFSET_FETCH_VERSIONS: Final = (1, 7)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class Stopped(Exception):
    """The caller's `should_stop` said so while an answer was awaited."""


class GroupMember:
    """Owned by one thread. `join`, then `tend` between fetches; when `must_rejoin`, commit and `join` again; `leave`.

    A member that doesn't come to `tend` for the session timeout is put out of its group, and finds that out there.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        assignors: Sequence[str] = tuple(ASSIGNORS),
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.group_id = group_id
        self.topics = sorted(set(topics))
        self.membership = Membership(group_id, heartbeat_interval_ms=heartbeat_interval_ms)
        self._cluster = cluster
        self._assignors = list(assignors)
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._should_stop = should_stop
        self._connection: Connection | None = None
        self._failing_since: float | None = None
        self._joined_members: list[JoinGroupResponseMember] = []
        self._assigned_counts: dict[str, int] = {}  # what the last assignment of this leader was made from
        self._topics_look_due_ms = 0

    @property
    def must_rejoin(self) -> bool:
        return self.membership.must_rejoin

    def idle_ms(self) -> int:
        return self.membership.idle_ms(_now_ms())

    def join(self) -> list[TopicPartition]:
        """Be a member, however long the others take; what this member owns from now on. Raises Stopped."""
        membership = self.membership
        while membership.owned is None or membership.must_rejoin:
            self._do(membership.next_step(_now_ms()))
        return membership.owned

    def tend(self) -> None:
        """Do what is due for the group, a heartbeat at most; afterwards `must_rejoin` may have become true."""
        step = self.membership.next_step(_now_ms())
        if step in (Step.FIND_COORDINATOR, Step.HEARTBEAT):
            self._do(step)
        if self.membership.is_leader and _now_ms() >= self._topics_look_due_ms:
            self._look_at_topics()

    def commit(self, offsets: Mapping[TopicPartition, Offset]) -> bool:
        """Commit the next offsets to read; False when the group has gone on without this member."""
        membership = self.membership
        for _ in range(_COMMIT_ATTEMPTS):
            if not membership.may_commit:
                return False
            if membership.next_step(_now_ms()) is Step.FIND_COORDINATOR:
                self._do(Step.FIND_COORDINATOR)
                continue
            if not offsets or self._try(lambda: self._commit(offsets)):
                return True
        return False

    def committed(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Where the group is in these partitions; those without a commit are left out."""
        found: dict[TopicPartition, Offset] = {}
        while places and not self._try(lambda: self._fetch_committed(places, found)):
            self._do(Step.FIND_COORDINATOR)
        return found

    def leave(self) -> None:
        """Give the partitions to the others at once; a coordinator that isn't reached finds out by the timeout."""
        membership = self.membership
        try:
            if membership.member_id:
                if self._connection is None or not self._connection.is_open:
                    self._find_coordinator()
                self._leave()
        except (ConnectionFailed, BrokerError):
            pass
        membership.on_left()
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _do(self, step: Step) -> None:
        if step is Step.FIND_COORDINATOR:
            self._try(self._find_coordinator)
        elif step is Step.JOIN:
            self._try(self._join)
        elif step is Step.SYNC:
            self._try(self._sync)
        elif step is Step.HEARTBEAT:
            self._try(self._heartbeat)

    def _try(self, attempt: Callable[[], bool | None]) -> bool:
        """Whether it went well. A coordinator that is away is looked for until the cluster's retry timeout is over."""
        try:
            is_done = attempt() is not False
        except (ConnectionFailed, BrokerError) as error:
            if isinstance(error, BrokerError) and not error.is_retriable:
                raise
            now = time.monotonic()
            if self._failing_since is None:
                self._failing_since = now
            if now - self._failing_since > self._cluster.retry_timeout_ms / 1000:
                raise
            self.close()
            self.membership.on_coordinator(is_known=False)
            self._wait()
            return False
        self._failing_since = None
        if self.membership.retry_wait:
            self._wait()
        return is_done

    def _wait(self) -> None:
        if self._should_stop():
            raise Stopped
        time.sleep(_RETRY_WAIT_MS / 1000)

    def _find_coordinator(self) -> None:
        connection = self._cluster.any_connection()
        version = connection.version_for(FindCoordinatorRequest.API_KEY, _FIND_COORDINATOR_VERSIONS)
        answer = connection.request(FindCoordinatorRequest(key=self.group_id), FindCoordinatorResponse, version=version)
        check(answer.error_code, f"group {self.group_id}: looking for the coordinator", answer.error_message)
        self.close()
        # Its own connection: a join waits for others, and nobody else's request may wait behind it.
        self._connection = self._cluster.open_connection(Address(answer.host, answer.port))
        self.membership.on_coordinator(is_known=True)

    def _join(self) -> None:
        metadata = encode_subscription(self.topics)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.membership.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self._assignors],
        )
        # The coordinator answers when all have joined, or the slow ones are out.
        answer = self._ask(request, JoinGroupResponse, extra_wait_ms=self._rebalance_timeout_ms)
        self._joined_members = answer.members
        self.membership.on_joined(
            answer.error_code,
            member_id=answer.member_id,
            generation_id=answer.generation_id,
            protocol_name=answer.protocol_name or "",
            leader_id=answer.leader,
        )

    def _sync(self) -> None:
        membership = self.membership
        try:
            assignments = self._assign() if membership.is_leader else []
        except ProtocolViolation as violation:
            what = f"group {self.group_id}: reading what the other members subscribed to"
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what, str(violation)) from violation
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=membership.generation_id,
            member_id=membership.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=membership.protocol_name,
            assignments=assignments,
        )
        answer = self._ask(request, SyncGroupResponse, extra_wait_ms=self._rebalance_timeout_ms)
        try:
            owned = decode_assignment(answer.assignment) if answer.error_code == ErrorCode.NONE else []
        except ProtocolViolation as violation:
            what = f"group {self.group_id}: reading the assignment"
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what, str(violation)) from violation
        membership.on_synced(answer.error_code, owned, _now_ms())

    def _assign(self) -> list[SyncGroupRequestAssignment]:
        """The leader's part: by the assignor that all members know."""
        assignor = ASSIGNORS[self.membership.protocol_name]
        members = [
            decode_member(member.member_id, member.group_instance_id, member.metadata)
            for member in self._joined_members
        ]
        self._assigned_counts = self._partition_counts(frozenset[str]().union(*(member.topics for member in members)))
        self._topics_look_due_ms = _now_ms() + _TOPICS_LOOK_INTERVAL_MS
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(places))
            for member_id, places in assignor(members, self._assigned_counts).items()
        ]

    def _partition_counts(self, topics: frozenset[str]) -> dict[str, int]:
        self._cluster.refresh(sorted(topics))
        return {topic: len(views) for topic in topics if (views := self._cluster.topics.get(topic))}

    def _look_at_topics(self) -> None:
        """New partitions belong to somebody only after a rebalance, which is the leader's to begin."""
        self._topics_look_due_ms = _now_ms() + _TOPICS_LOOK_INTERVAL_MS
        try:
            counts = self._partition_counts(frozenset(self._assigned_counts).union(self.topics))
        except (ConnectionFailed, BrokerError):
            return  # looked at again next time
        if counts != self._assigned_counts:
            self.membership.rejoin()

    def _heartbeat(self) -> None:
        membership = self.membership
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=membership.generation_id, member_id=membership.member_id
        )
        membership.on_heartbeat(self._ask(request, HeartbeatResponse).error_code, _now_ms())

    def _commit(self, offsets: Mapping[TopicPartition, Offset]) -> bool:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for place, offset in offsets.items():
            partition = OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset)
            topics.setdefault(place.topic, []).append(partition)
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.membership.generation_id,
            member_id=self.membership.member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=each) for topic, each in topics.items()],
        )
        answer = self._ask(request, OffsetCommitResponse, versions=_OFFSET_COMMIT_VERSIONS)
        codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
        is_taken = True
        for code in sorted(codes):
            is_taken &= self.membership.on_committed(code)
        return is_taken

    def _fetch_committed(self, places: Sequence[TopicPartition], found: dict[TopicPartition, Offset]) -> bool:
        topics: dict[str, list[int]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(place.partition)
        request = OffsetFetchRequest(
            group_id=self.group_id,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=each) for topic, each in topics.items()],
            require_stable=True,
        )
        answer = self._ask(request, OffsetFetchResponse, versions=_OFFSET_FETCH_VERSIONS)
        is_whole = self.membership.on_committed(answer.error_code)
        for topic in answer.topics:
            for partition in topic.partitions:
                is_whole &= self.membership.on_committed(partition.error_code)
                if partition.committed_offset >= 0:
                    found[TopicPartition(topic.name, partition.partition_index)] = partition.committed_offset
        return is_whole

    def _leave(self) -> None:
        identity = MemberIdentity(member_id=self.membership.member_id, reason="the consumer is being closed")
        request = LeaveGroupRequest(group_id=self.group_id, members=[identity], member_id=self.membership.member_id)
        assert self._connection is not None
        self._connection.request(request, LeaveGroupResponse)

    def _ask(
        self,
        request: ApiMessage,
        response_class: type[ResponseT],
        *,
        versions: tuple[int, int] | None = None,
        extra_wait_ms: int = 0,
    ) -> ResponseT:
        """One request to the coordinator; while its answer is awaited, the caller may still stop it all."""
        connection = self._connection
        if connection is None or not connection.is_open:
            raise ConnectionFailed(f"group {self.group_id}: no connection to the coordinator")
        version = connection.version_for(request.API_KEY, versions or request.VERSIONS)
        correlation_id = connection.next_correlation_id()
        connection.send([encode_request(request, version, correlation_id, connection.client_id)])
        waiting = select.poll()
        waiting.register(connection.socket, select.POLLIN)
        deadline = time.monotonic() + (connection.request_timeout_ms + extra_wait_ms) / 1000
        while not waiting.poll(_STOP_LOOK_MS) and time.monotonic() < deadline:
            if extra_wait_ms and self._should_stop():
                connection.close()  # an answer may still come on it
                raise Stopped
        try:
            return decode_response(response_class, version, connection.receive(correlation_id))[1]
        except ProtocolViolation as violation:
            connection.close()
            raise ConnectionFailed(f"{connection.address}: unreadable answer: {violation}") from violation


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
