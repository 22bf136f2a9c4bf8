"""A client's metadata, updated on an interval, on request, for a new topic, and after a broken connection.

Runs in the client loop. Readers on other threads see a consistent view, the newest or the one before it.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final, TypeAlias

from ottla.clients.cluster_view import NO_LEADER, PartitionInfo, TopicInfo, addresses_in, topic_info
from ottla.clients.errors import BrokerError, ClientError, TimedOut, error_name
from ottla.clients.network.port import ANY_BROKER, Network
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicPartition
from ottla.links.addresses import Address
from ottla.links.backoff import Backoff
from ottla.links.link import Timer
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

# Retriable errors; any other error of a topic ends the wait for it.
_PASSING: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_ID}
)

OnKnown: TypeAlias = Callable[[int | ClientError], None]


class _Waiter:
    __slots__ = ("on_known", "timer", "topic")

    def __init__(self, topic: str, on_known: OnKnown) -> None:
        self.topic = topic
        self.on_known = on_known
        self.timer: Timer | None = None


class Metadata:
    """One per client. It sends no request before a topic is wanted or an update is requested."""

    def __init__(
        self,
        network: Network,
        *,
        max_age_ms: int,
        backoff_ms: int,
        backoff_max_ms: int = 1_000,
        allow_auto_create: bool = False,
        random: Random | None = None,
    ) -> None:
        self.allow_auto_create = allow_auto_create
        self.version = 0  # of the view; grows with each answer
        self.on_change: list[Callable[[], None]] = []
        self.cluster_id: str | None = None
        self.controller_id: BrokerId = NO_LEADER
        self.brokers: dict[BrokerId, Address] = {}
        self.racks: dict[BrokerId, str | None] = {}
        self.failure: ClientError | None = None  # of the last attempt
        self._network = network
        self._max_age_ms = max_age_ms
        self._backoff_ms = backoff_ms
        self._backoff = Backoff(first_ms=backoff_ms, max_ms=backoff_max_ms, random=random)
        self._wanted: set[str] | None = set()
        self._topics: dict[str, TopicInfo] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._errors: dict[str, int] = {}
        self._waiters: list[_Waiter] = []
        self._is_asking = False
        self._is_stale = False  # a new wish came after the request in flight was sent
        self._failures = 0
        self._timer: Timer | None = None  # for the next request
        self._timer_at_ms = 0
        self._not_before_ms = 0
        self._is_closed = False
        network.on_lost.append(self._connection_lost)

    # The view; any thread may read it.

    def partition_count(self, topic: str) -> int | None:
        info = self._topics.get(topic)
        return len(info.partitions) if info is not None else None

    def partitions_of(self, topic: str) -> tuple[PartitionInfo, ...]:
        info = self._topics.get(topic)
        return tuple(info.partitions.values()) if info is not None else ()

    def partition_info(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        info = self._topics.get(topic_partition[0])
        return info.partitions.get(topic_partition[1]) if info is not None else None

    def leader_of(self, topic_partition: TopicPartition) -> BrokerId:
        """NO_LEADER if there is none, or none is known."""
        info = self._topics.get(topic_partition[0])
        partition = info.partitions.get(topic_partition[1]) if info is not None else None
        if partition is None or partition.leader_id not in self.brokers:
            return NO_LEADER
        return partition.leader_id

    def leader_epoch_of(self, topic_partition: TopicPartition) -> LeaderEpoch:
        partition = self.partition_info(topic_partition)
        return partition.leader_epoch if partition is not None else NO_LEADER_EPOCH

    def topic_id_of(self, name: str) -> bytes:
        """ZERO_UUID if it is not known, or if the broker has no ids."""
        info = self._topics.get(name)
        return info.topic_id if info is not None else ZERO_UUID

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names_by_id.get(topic_id)

    def names(self) -> list[str]:
        """The partition counts of the topics in view that exist."""
        return list(self._topics)

    def is_internal(self, topic: str) -> bool:
        info = self._topics.get(topic)
        return info is not None and info.is_internal

    def error_of(self, topic: str) -> int:
        """The ErrorCode that the last answer had for a topic."""
        return self._errors.get(topic, ErrorCode.NONE)

    # What the client wants; in the client loop.

    def set_topics(self, names: Iterable[str] | None) -> None:
        """Keep exactly these topics in view; None means all. New ones are requested at once."""
        wanted = None if names is None else set(names)
        if wanted == self._wanted:
            return
        is_more = wanted is None or self._wanted is None or bool(wanted - self._wanted)
        self._wanted = wanted
        if wanted is not None:
            self._forget_others(wanted)
        if is_more:
            self._ask_for_new()

    def add_topic(self, name: str) -> None:
        if self._wanted is not None and name not in self._wanted:
            self._wanted.add(name)
            self._ask_for_new()

    def remove_topic(self, name: str) -> None:
        if self._wanted is not None and name in self._wanted:
            self._wanted.discard(name)
            self._forget_others(self._wanted)

    def request_update(self) -> None:
        """The metadata is or may be out of date: request it soon, with a pause between two requests."""
        if self._is_asking:
            self._is_stale = True
        else:
            self._plan(self._not_before_ms)

    def wait_for_topic(self, name: str, timeout_ms: int, on_known: OnKnown) -> None:
        """Call back with the number of partitions once it is known, or with why that failed; never before this call
        returns. The topic stays in view.
        """
        waiter = _Waiter(name, on_known)
        self._waiters.append(waiter)
        waiter.timer = self._network.call_later(timeout_ms, lambda: self._give_up(waiter, timeout_ms))
        count = self.partition_count(name)
        if count:
            self._network.call_soon(self._serve_waiters)
        elif self._wanted is not None and name not in self._wanted:
            self.add_topic(name)
        else:
            self.request_update()

    def set_leader(self, topic_partition: TopicPartition, leader_id: BrokerId, leader_epoch: LeaderEpoch) -> bool:
        """A broker named the new leader in its answer (KIP-951); False if that is older than what is known."""
        partition = self.partition_info(topic_partition)
        if partition is None or leader_id not in self.brokers or leader_epoch <= partition.leader_epoch:
            return False
        info = self._topics[topic_partition[0]]
        changed = partition._replace(leader_id=leader_id, leader_epoch=leader_epoch)
        view = info._replace(partitions={**info.partitions, topic_partition[1]: changed})
        self._topics = {**self._topics, topic_partition[0]: view}
        self.version += 1
        self._call_listeners()
        return True

    def close(self, reason: ClientError) -> None:
        """Send no more requests; callbacks that wait for a topic get the reason."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in list(self._waiters):
            self._done(waiter, reason)

    # Requests.

    def _ask_for_new(self) -> None:
        if self._is_asking:
            self._is_stale = True
        elif self._failures:
            self._plan(self._not_before_ms)
        else:
            self._plan(self._network.now_ms())

    def _plan(self, at_ms: int) -> None:
        """Send the next request then at the latest."""
        if self._is_closed:
            return
        now_ms = self._network.now_ms()
        at_ms = max(at_ms, now_ms)
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._network.call_later(at_ms - now_ms, self._ask)

    def _ask(self) -> None:
        self._timer = None
        if self._is_asking or self._is_closed:
            return
        self._is_asking = True
        self._is_stale = False
        wanted = self._wanted
        asked = None if wanted is None else [MetadataRequestTopic(name=name) for name in sorted(wanted)]
        message = MetadataRequest(topics=asked, allow_auto_topic_creation=self.allow_auto_create and wanted is not None)
        # Version 0 can't ask for no topics: an empty list means all.
        self._network.request(ANY_BROKER, message, self._answered, versions=(1, MetadataRequest.VERSIONS[1]))

    def _answered(self, answer: MetadataResponse | ClientError) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        now_ms = self._network.now_ms()
        if isinstance(answer, MetadataResponse) and answer.error_code != ErrorCode.NONE:
            answer = BrokerError(answer.error_code, "metadata")
        if isinstance(answer, ClientError):
            self.failure = answer
            self._back_off(now_ms)
            return
        self.failure = None
        self._take(answer)
        if self._waits_for_more():
            self._back_off(now_ms)
        else:
            self._failures = 0
            self._not_before_ms = now_ms + max(self._backoff_ms, 1)
            self._plan(self._not_before_ms if self._is_stale else max(now_ms + self._max_age_ms, self._not_before_ms))
        self._serve_waiters()
        self._call_listeners()

    def _back_off(self, now_ms: int) -> None:
        self._not_before_ms = now_ms + self._backoff.delay_ms(self._failures)
        self._failures += 1
        self._plan(self._not_before_ms)

    def _waits_for_more(self) -> bool:
        """Whether a callback waits for a topic or a partition has no leader: the next answer may have it."""
        if any(not self.partition_count(waiter.topic) for waiter in self._waiters):
            return True
        return self._wanted is not None and any(
            self._errors.get(name) == ErrorCode.LEADER_NOT_AVAILABLE for name in self._wanted
        )

    def _connection_lost(self, _broker_id: BrokerId) -> None:
        if self.version:
            self.request_update()

    # Answers.

    def _take(self, answer: MetadataResponse) -> None:
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        if answer.brokers:
            self.brokers = addresses_in(answer)
            self.racks = {broker.node_id: broker.rack for broker in answer.brokers}
            self._network.set_brokers(self.brokers)
        wanted = self._wanted
        # The request may be older than the wish: topics that it did not ask for keep their old view.
        topics = {} if wanted is None else {name: info for name, info in self._topics.items() if name in wanted}
        errors: dict[str, int] = {}
        for topic in answer.topics:
            name = topic.name
            if name is None or (wanted is not None and name not in wanted):
                continue
            if topic.error_code != ErrorCode.NONE:
                errors[name] = topic.error_code
            if topic.error_code == ErrorCode.NONE or topic.partitions:
                topics[name] = topic_info(topic, self._topics.get(name))
            elif topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                topics.pop(name, None)
            if any(partition.leader_id < 0 for partition in topic.partitions):
                errors.setdefault(name, ErrorCode.LEADER_NOT_AVAILABLE)
        self._errors = errors
        self._names_by_id = {info.topic_id: name for name, info in topics.items()}
        self._topics = topics
        self.version += 1

    def _forget_others(self, wanted: set[str]) -> None:
        self._topics = {name: info for name, info in self._topics.items() if name in wanted}
        self._names_by_id = {info.topic_id: name for name, info in self._topics.items()}
        self._errors = {name: code for name, code in self._errors.items() if name in wanted}

    # Callbacks.

    def _call_listeners(self) -> None:
        for listener in list(self.on_change):
            listener()

    def _serve_waiters(self) -> None:
        for waiter in list(self._waiters):
            count = self.partition_count(waiter.topic)
            code = self.error_of(waiter.topic)
            if count:
                self._done(waiter, count)
            elif code != ErrorCode.NONE and code not in _PASSING:
                self._done(waiter, BrokerError(code, f"topic {waiter.topic}"))

    def _give_up(self, waiter: _Waiter, timeout_ms: int) -> None:
        code = self.error_of(waiter.topic)
        if self.failure is not None:
            reason = str(self.failure)
        elif code != ErrorCode.NONE:
            reason = f"the cluster says {error_name(code)}"
        else:
            reason = "no broker has answered"
        self._done(waiter, TimedOut(f"topic {waiter.topic}: not known after {timeout_ms} ms: {reason}"))

    def _done(self, waiter: _Waiter, outcome: int | ClientError) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            if waiter.timer is not None:
                waiter.timer.cancel()
            waiter.on_known(outcome)
