"""Commits offsets and reads committed offsets.

Runs in the client loop. Commits are sent one after the other, in the order of the calls, so that an older one never
undoes a newer one. A blocking commit is retried until its timeout, the others are not.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

from ottla.clients.consumer.coordinator import Coordinator
from ottla.clients.consumer.errors import error_of
from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
from ottla.clients.consumer_protocol import numbers_by_topic
from ottla.clients.error_rules import COORDINATOR_RETRIABLE, STALE_COORDINATOR
from ottla.clients.errors import BrokerError, ClientError, ConnectionFailed, TimedOut
from ottla.clients.network.port import Network
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.links.backoff import Backoff
from ottla.links.link import Timer
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

# The newest versions that have one group, and topics by name.
_COMMIT_VERSIONS: Final = (2, 9)
_FETCH_VERSIONS: Final = (1, 7)
_LOST: Final = STALE_COORDINATOR | {ErrorCode.REQUEST_TIMED_OUT}

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
OnCommitted: TypeAlias = Callable[[ClientError | None], None]
OnFetched: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata] | ClientError], None]


class Committer(Protocol):
    """The member that commits; `group.py` implements it."""

    @property
    def identity(self) -> GroupMetadata: ...

    def refusal_to_commit(self) -> ClientError | None:
        """Why a commit can't succeed now, without a request."""
        ...

    def on_commit_error(self, error_code: int, identity: GroupMetadata) -> None:
        """The coordinator's answer about the membership that sent a commit."""
        ...


class _Commit:
    __slots__ = ("attempts", "deadline_ms", "is_retried", "offsets", "on_committed", "timeout_ms")

    def __init__(
        self, offsets: Offsets, on_committed: OnCommitted, *, deadline_ms: int, timeout_ms: int, is_retried: bool
    ) -> None:
        self.offsets = offsets
        self.on_committed = on_committed
        self.deadline_ms = deadline_ms
        self.timeout_ms = timeout_ms
        self.is_retried = is_retried
        self.attempts = 0


class Commits:
    """One per consumer with a group."""

    def __init__(self, network: Network, coordinator: Coordinator, committer: Committer, *, backoff: Backoff) -> None:
        self._network = network
        self._coordinator = coordinator
        self._committer = committer
        self._backoff = backoff
        self._queue: deque[_Commit] = deque()
        self._is_sending = False

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def commit(self, offsets: Offsets, *, timeout_ms: int, is_retried: bool, on_committed: OnCommitted) -> None:
        """Call back once: with None, or why it failed. An empty commit is done when all commits before it are."""
        deadline_ms = self._network.now_ms() + timeout_ms
        commit = _Commit(
            dict(offsets), on_committed, deadline_ms=deadline_ms, timeout_ms=timeout_ms, is_retried=is_retried
        )
        self._queue.append(commit)
        if not self._is_sending:
            self._is_sending = True
            self._network.call_soon(self._send_first)

    def _send_first(self) -> None:
        if not self._queue:
            self._is_sending = False
            return
        commit = self._queue[0]
        if not commit.offsets:
            self._finish(commit, None)
            return
        refusal = self._committer.refusal_to_commit()
        if refusal is not None:
            self._finish(commit, refusal)
            return
        state: list[Timer | None] = [None]

        def on_known(failure: ClientError | None) -> None:
            timer = state[0]
            if timer is None:
                return  # it failed meanwhile
            timer.cancel()
            state[0] = None
            if failure is not None:
                self._finish(commit, failure)
            else:
                self._send(commit)

        def give_up() -> None:
            state[0] = None
            self._finish(commit, self._timed_out(commit, self._coordinator.failure))

        state[0] = self._network.call_later(max(0, commit.deadline_ms - self._network.now_ms()), give_up)
        self._coordinator.find(on_known)

    def _send(self, commit: _Commit) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for topic_partition, (offset, metadata, leader_epoch) in commit.offsets.items():
            partition = OffsetCommitRequestPartition(
                partition_index=topic_partition.partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
            topics.setdefault(topic_partition.topic, []).append(partition)
        identity = self._committer.identity
        request = OffsetCommitRequest(
            group_id=identity.group_id,
            generation_id_or_member_epoch=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=identity.instance_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=each) for topic, each in topics.items()],
        )
        self._coordinator.ask(request, lambda answer: self._take(commit, identity, answer), versions=_COMMIT_VERSIONS)

    def _take(self, commit: _Commit, identity: GroupMetadata, answer: OffsetCommitResponse | ClientError) -> None:
        if isinstance(answer, ClientError):
            if isinstance(answer, ConnectionFailed):
                self._retry(commit, answer)
            else:
                self._finish(commit, answer)
            return
        errors = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
            if partition.error_code != ErrorCode.NONE
        }
        if not errors:
            self._finish(commit, None)
            return
        topic_partition, code = next(
            ((topic_partition, code) for topic_partition, code in errors.items() if code not in COORDINATOR_RETRIABLE),
            next(iter(errors.items())),
        )
        failure = error_of(
            code, f"group {identity.group_id}: committing {commit.offsets[topic_partition].offset} of {topic_partition}"
        )
        if code in _LOST:
            self._coordinator.lost()
        if code in COORDINATOR_RETRIABLE:
            self._retry(commit, failure)
        else:
            self._committer.on_commit_error(code, identity)
            self._finish(commit, failure)

    def _retry(self, commit: _Commit, why: ClientError) -> None:
        if not commit.is_retried:
            self._finish(commit, why)
            return
        delay_ms = self._backoff.delay_ms(commit.attempts)
        commit.attempts += 1
        if self._network.now_ms() + delay_ms >= commit.deadline_ms:
            self._finish(commit, self._timed_out(commit, why))
        else:
            self._network.call_later(delay_ms, self._send_first)

    def _timed_out(self, commit: _Commit, why: ClientError | None) -> ClientError:
        group_id = self._committer.identity.group_id
        return TimedOut(
            f"group {group_id}: offsets not committed within {commit.timeout_ms} ms:"
            f" {why or 'the coordinator was not found'}"
        )

    def _finish(self, commit: _Commit, outcome: ClientError | None) -> None:
        self._queue.popleft()
        commit.on_committed(outcome)
        self._network.call_soon(self._send_first)

    def fetch(self, topic_partitions: Iterable[TopicPartition], *, timeout_ms: int, on_fetched: OnFetched) -> None:
        """The committed offsets of these partitions; those without a commit are left out."""
        _CommittedFetch(self, numbers_by_topic(topic_partitions), timeout_ms, on_fetched).attempt()

    def _read_fetched(
        self, answer: OffsetFetchResponse | ClientError
    ) -> dict[TopicPartition, OffsetAndMetadata] | ClientError:
        if isinstance(answer, ClientError):
            return answer
        what = f"group {self._coordinator.group_id}: reading committed offsets"
        if answer.error_code != ErrorCode.NONE:
            return error_of(answer.error_code, what)
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code != ErrorCode.NONE:
                    return error_of(partition.error_code, f"{what} of {topic_partition}")
                if partition.committed_offset >= 0:
                    found[topic_partition] = OffsetAndMetadata(
                        partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                    )
        return found


class _CommittedFetch:
    """One request for committed offsets, retried while coordinators move, until its timeout."""

    def __init__(self, owner: Commits, topics: dict[str, list[int]], timeout_ms: int, on_fetched: OnFetched) -> None:
        self._owner = owner
        self._network = owner._network
        self._coordinator = owner._coordinator
        self._topics = topics
        self._timeout_ms = timeout_ms
        self._on_fetched = on_fetched
        self._why: ClientError | None = None
        self._attempts = 0
        self._is_done = False
        self._timer = self._network.call_later(timeout_ms, self._give_up)

    def attempt(self) -> None:
        if not self._is_done:
            self._coordinator.find(self._known)

    def _known(self, failure: ClientError | None) -> None:
        if self._is_done:
            return
        if failure is not None:
            self._finish(failure)
            return
        request = OffsetFetchRequest(
            group_id=self._coordinator.group_id,
            topics=[
                OffsetFetchRequestTopic(name=topic, partition_indexes=each) for topic, each in self._topics.items()
            ],
            require_stable=True,
        )
        self._coordinator.ask(request, self._take, versions=_FETCH_VERSIONS)

    def _take(self, answer: OffsetFetchResponse | ClientError) -> None:
        if self._is_done:
            return
        outcome = self._owner._read_fetched(answer)
        code = outcome.error_code if isinstance(outcome, BrokerError) else ErrorCode.NONE
        if code in _LOST:
            self._coordinator.lost()
        if isinstance(outcome, ConnectionFailed) or code in COORDINATOR_RETRIABLE - {
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }:
            self._why = outcome if isinstance(outcome, ClientError) else None
            self._network.call_later(self._owner._backoff.delay_ms(self._attempts), self.attempt)
            self._attempts += 1
        else:
            self._finish(outcome)

    def _give_up(self) -> None:
        why = self._why or self._coordinator.failure or "the coordinator was not found"
        group_id = self._coordinator.group_id
        self._finish(TimedOut(f"group {group_id}: committed offsets not read within {self._timeout_ms} ms: {why}"))

    def _finish(self, outcome: dict[TopicPartition, OffsetAndMetadata] | ClientError) -> None:
        self._is_done = True
        self._timer.cancel()
        self._on_fetched(outcome)
