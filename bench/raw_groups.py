"""Members of consumer groups on raw sockets, many in one thread: the coordinator is the bound, not the client.

A member does what every consumer does: it joins without an id, joins again with the one it was given, syncs, and while
others still come it hears from a heartbeat that it has to join again. The leader gives each member one partition.
"""

import select
import socket
import time
from collections.abc import Sequence
from typing import TypeVar

from bench.blocking_connection import Connection
from bench.requests import GroupMember
from ottla.clients.consumer_protocol import PROTOCOL_TYPE, encode_assignment, encode_subscription
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.links.addresses import Address
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_TIMEOUT_MS = 300_000  # nobody is dropped while a case takes its time
_VERSIONS = {JoinGroupRequest: 9, SyncGroupRequest: 5, HeartbeatRequest: 4}
_CLIENT_ID = "ottla-bench"
_ASSIGNOR = "range"
_HEARTBEAT_SECONDS = 0.005  # of members that wait for the others: soon, so that it is not this that is measured
_STALL_SECONDS = 60.0
_COORDINATOR_TIMEOUT_SECONDS = 60.0
_LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)


def await_coordinator(port: int, group_ids: Sequence[str]) -> None:
    """Have the coordinator's topic made, and wait until the coordinators of all these groups answer."""
    deadline = time.monotonic() + _COORDINATOR_TIMEOUT_SECONDS
    with Connection(Address("127.0.0.1", port), client_id=_CLIENT_ID) as connection:
        for group_id in group_ids:
            while True:
                request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
                answer = connection.request(request, FindCoordinatorResponse, version=4)
                error_code = answer.coordinators[0].error_code
                if not error_code:
                    # Found is not loaded. Nobody is a member yet: a coordinator that serves says that it knows none.
                    heartbeat = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="nobody")
                    error_code = connection.request(heartbeat, HeartbeatResponse, version=4).error_code
                    if error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                        break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no coordinator for {group_id}: {ErrorCode(error_code).name}")
                time.sleep(0.02)


class RawGroup:
    """What its members have in common; settled when all of them have synced in one generation."""

    def __init__(self, group_id: str, topic: str, *, size: int) -> None:
        self.group_id = group_id
        self.size = size
        self.topic = topic
        self.subscription = encode_subscription([topic])
        self.synced: dict[int, int] = {}  # members by generation

    @property
    def is_settled(self) -> bool:
        return self.size in self.synced.values()

    def assignments(self, member_ids: Sequence[str]) -> list[SyncGroupRequestAssignment]:
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment([TopicPartition(self.topic, number)])
            )
            for number, member_id in enumerate(member_ids)
        ]


class RawMember:
    """One member on a connection of its own, one request in flight."""

    def __init__(self, port: int, group: RawGroup) -> None:
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.is_synced = False
        self.is_waiting = False  # for an answer
        self._request: type[ApiMessage] = JoinGroupRequest
        self._received = b""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def join(self) -> None:
        self.is_synced = False
        group = self.group
        protocols = [JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=group.subscription)]
        self._send(
            JoinGroupRequest(
                group_id=group.group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=self.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=protocols,
            )
        )

    def heartbeat(self) -> None:
        self._send(
            HeartbeatRequest(group_id=self.group.group_id, generation_id=self.generation, member_id=self.member_id)
        )

    def on_readable(self) -> None:
        received = self._received + self.socket.recv(1 << 20)
        size = int.from_bytes(received[:4])
        if len(received) < 4 + size or len(received) < 4:
            if not received:
                raise RuntimeError(f"{self.group.group_id}: the broker closed a member's connection")
            self._received = received
            return
        self._received = received[4 + size :]
        self.is_waiting = False
        if self._request is JoinGroupRequest:
            self._on_joined(self._decode(JoinGroupResponse, received))
        elif self._request is SyncGroupRequest:
            self._on_synced(self._decode(SyncGroupResponse, received))
        elif self._decode(HeartbeatResponse, received).error_code != ErrorCode.NONE:
            self.join()

    def _on_joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
            return
        if answer.error_code in _LOADING:
            self.join()
            return
        self._check(answer.error_code)
        group = self.group
        self.generation = answer.generation_id
        is_leader = answer.leader == answer.member_id
        self._send(
            SyncGroupRequest(
                group_id=group.group_id,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=_ASSIGNOR,
                assignments=group.assignments([each.member_id for each in answer.members]) if is_leader else [],
            )
        )

    def _on_synced(self, answer: SyncGroupResponse) -> None:
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        self._check(answer.error_code)
        synced = self.group.synced
        synced[self.generation] = synced.get(self.generation, 0) + 1
        self.is_synced = True

    def _check(self, error_code: int) -> None:
        if error_code:
            raise RuntimeError(f"{self.group.group_id}: a member was answered {ErrorCode(error_code).name}")

    def _send(self, request: ApiMessage) -> None:
        self._request = type(request)
        self.is_waiting = True
        self.socket.sendall(encode_request(request, _VERSIONS[type(request)], 0, _CLIENT_ID))

    def _decode(self, response_class: type[ResponseT], received: bytes) -> ResponseT:
        return decode_response(response_class, _VERSIONS[self._request], memoryview(received)[4:])[1]


def settle(port: int, group_ids: Sequence[str], *, size: int, topic: str) -> tuple[float, list[GroupMember]]:
    """Let groups of `size` members come together; seconds from the first join to the last sync, and the members.

    Their connections are closed at the end: the members stay in their groups until their session times out.
    """
    groups = [RawGroup(group_id, topic, size=size) for group_id in group_ids]
    members = [RawMember(port, group) for group in groups for _ in range(size)]
    by_fd = {member.socket.fileno(): member for member in members}
    poll = select.epoll()
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    try:
        started = time.perf_counter()
        for member in members:
            member.join()
        waiting = set(groups)
        heartbeat_at = last_progress = started
        while waiting:
            for fd, _ in poll.poll(_HEARTBEAT_SECONDS, 256):
                by_fd[fd].on_readable()
                if by_fd[fd].group.is_settled:
                    waiting.discard(by_fd[fd].group)
                    last_progress = time.perf_counter()
            now = time.perf_counter()
            if now - heartbeat_at > _HEARTBEAT_SECONDS:
                heartbeat_at = now
                for member in members:
                    if member.is_synced and not member.is_waiting and member.group in waiting:
                        member.heartbeat()
            if now - last_progress > _STALL_SECONDS:
                raise TimeoutError(f"{len(waiting)} groups have not settled, {waiting.pop().group_id} is one")
        seconds = time.perf_counter() - started
    finally:
        poll.close()
        for member in members:
            member.socket.close()
    numbers = [number for _ in groups for number in range(size)]
    return seconds, [
        GroupMember(member.group.group_id, member.generation, member.member_id, number)
        for member, number in zip(members, numbers, strict=True)
    ]
