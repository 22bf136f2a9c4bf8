"""One member of a group: who it is, what it said when it joined, and which of its requests waits for an answer.

Plain state; `group.py` keeps the counts that depend on it, `sessions.py` its deadline and its timer.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from ottla.coordinator.runtime.ports import ShardTimer
from ottla.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

NO_ASSIGNMENT = b""

JoinAnswer: TypeAlias = Callable[[JoinGroupResponse], None]
SyncAnswer: TypeAlias = Callable[[SyncGroupResponse], None]


class Caller(NamedTuple):
    """Who sent a request, and in which version; the host as Kafka shows it: `/127.0.0.1`."""

    version: int
    client_id: str | None
    client_host: str


def protocols_of(wire: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """Metadata by protocol name, the member's favourite first."""
    return {protocol.name: protocol.metadata for protocol in wire}


def rebalance_timeout_of(rebalance_timeout_ms: int, session_timeout_ms: int) -> int:
    """The oldest requests and records have one timeout for both."""
    return session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms


class Member:
    """Owned by its `Group`. `session_ends_ms` is on the monotonic clock and is moved by `Sessions` alone."""

    __slots__ = (
        "member_id",
        "instance_id",
        "client_id",
        "client_host",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "protocols",
        "assignment",
        "is_new",
        "join_answer",
        "sync_answer",
        "session_ends_ms",
        "session_timer",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: dict[str, bytes],
        assignment: bytes = NO_ASSIGNMENT,
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # It waits for its first generation: it may not know its id yet and can't send heartbeats.
        self.is_new = is_new
        self.join_answer: JoinAnswer | None = None
        self.sync_answer: SyncAnswer | None = None
        self.session_ends_ms = 0.0
        self.session_timer = ShardTimer()

    @property
    def is_waiting(self) -> bool:
        """Whether the member waits for our answer; then it need not send heartbeats."""
        return self.join_answer is not None or self.sync_answer is not None

    def says_the_same(self, protocols: dict[str, bytes]) -> bool:
        """Whether a join brings nothing new; the order of the protocols counts."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: set[str]) -> str:
        for name in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports {list(self.protocols)}, none of {sorted(candidates)}")
