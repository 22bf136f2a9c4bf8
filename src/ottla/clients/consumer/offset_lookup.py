"""Looks up offsets at the leaders: the ends of partitions, and the first offset at or after a time.

Runs in the client loop. A lookup retries while leaders move or are away, until its timeout; each partition has its own
outcome.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ottla.clients.consumer.errors import error_of
from ottla.clients.consumer.values import OffsetAndTimestamp
from ottla.clients.error_rules import RETRIABLE
from ottla.clients.errors import BrokerError, ClientError, TimedOut, UnsupportedByBroker
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TimestampMs, TopicPartition
from ottla.links.backoff import Backoff
from ottla.links.link import Timer
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

Found: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | ClientError]
NO_OFFSET: Final = -1


class OffsetLookup:
    """One per consumer; any number of lookups at a time."""

    def __init__(self, network: Network, metadata: Metadata, *, isolation_level: int, backoff: Backoff) -> None:
        self._network = network
        self._metadata = metadata
        self._isolation_level = isolation_level
        self._backoff = backoff
        self._without_leaders: list[_Lookup] = []
        metadata.on_change.append(self._metadata_changed)

    def find(
        self, timestamps: Mapping[TopicPartition, TimestampMs], *, timeout_ms: int, on_found: Callable[[Found], None]
    ) -> None:
        """Call back once, with an outcome for every partition; NO_OFFSET if no record is that late."""
        for topic in {topic_partition.topic for topic_partition in timestamps}:
            self._metadata.add_topic(topic)
        _Lookup(self, dict(timestamps), timeout_ms, on_found).attempt()

    def wait_for_leaders(self, lookup: "_Lookup") -> None:
        """No leader is known: continue after the next metadata update, as right after a consumer's start."""
        self._without_leaders.append(lookup)

    def _metadata_changed(self) -> None:
        waiting, self._without_leaders = self._without_leaders, []
        for lookup in waiting:
            lookup.go_on_now()

    def ask(
        self,
        broker_id: BrokerId,
        timestamps: Mapping[TopicPartition, TimestampMs],
        timeout_ms: int,
        on_response: Callable[[ListOffsetsResponse | ClientError], None],
    ) -> None:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic_partition, timestamp_ms in timestamps.items():
            partition = ListOffsetsPartition(
                partition_index=topic_partition.partition,
                current_leader_epoch=self._metadata.leader_epoch_of(topic_partition),
                timestamp=timestamp_ms,
            )
            topics.setdefault(topic_partition.topic, []).append(partition)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=timeout_ms,
        )
        self._network.request(broker_id, request, on_response)


class _Lookup:
    """One lookup: the partitions without an outcome, and why their last attempt failed."""

    def __init__(
        self,
        owner: OffsetLookup,
        left: dict[TopicPartition, TimestampMs],
        timeout_ms: int,
        on_found: Callable[[Found], None],
    ) -> None:
        self._owner = owner
        self._network = owner._network
        self._metadata = owner._metadata
        self._left = left
        self._timeout_ms = timeout_ms
        self._deadline_ms = self._network.now_ms() + timeout_ms
        self._on_found = on_found
        self._attempts = 0
        self._found: Found = {}
        self._why: dict[TopicPartition, ClientError] = {}
        self._in_flight = 0
        self._timer: Timer | None = None

    def attempt(self) -> None:
        self._timer = None
        led: dict[BrokerId, dict[TopicPartition, TimestampMs]] = {}
        for topic_partition, timestamp_ms in self._left.items():
            leader_id = self._metadata.leader_of(topic_partition)
            if leader_id >= 0:
                led.setdefault(leader_id, {})[topic_partition] = timestamp_ms
                continue
            code = self._metadata.error_of(topic_partition.topic) or (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if self._metadata.partition_info(topic_partition) is None
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
            self._failed(topic_partition, error_of(code, f"{topic_partition}: looking up an offset"))
        left_ms = max(1, self._deadline_ms - self._network.now_ms())
        self._in_flight = len(led)
        for broker_id, timestamps in led.items():
            self._owner.ask(broker_id, timestamps, left_ms, self._taker(timestamps))
        if not led:
            seen = self._metadata.version
            self._network.call_soon(lambda: self._go_on(without_leaders_in=seen))

    def go_on_now(self) -> None:
        """Retry now instead of waiting for the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self.attempt()

    def _taker(
        self, timestamps: dict[TopicPartition, TimestampMs]
    ) -> Callable[[ListOffsetsResponse | ClientError], None]:
        def take(answer: ListOffsetsResponse | ClientError) -> None:
            self._in_flight -= 1
            if isinstance(answer, ClientError):
                for topic_partition in timestamps:
                    self._failed(topic_partition, answer)
            else:
                self._take(answer)
            if not self._in_flight:
                self._go_on()

        return take

    def _take(self, answer: ListOffsetsResponse) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                if topic_partition not in self._left:
                    continue
                if partition.error_code != ErrorCode.NONE:
                    self._failed(
                        topic_partition, error_of(partition.error_code, f"{topic_partition}: looking up an offset")
                    )
                    continue
                del self._left[topic_partition]
                self._found[topic_partition] = OffsetAndTimestamp(
                    partition.offset, partition.timestamp, partition.leader_epoch
                )

    def _failed(self, topic_partition: TopicPartition, why: ClientError) -> None:
        self._why[topic_partition] = why
        is_final = isinstance(why, UnsupportedByBroker) or (
            isinstance(why, BrokerError) and why.error_code not in RETRIABLE
        )
        if is_final and self._left.pop(topic_partition, None) is not None:
            self._found[topic_partition] = why

    def _go_on(self, *, without_leaders_in: int | None = None) -> None:
        """`without_leaders_in`: the metadata version that had no leaders."""
        if self._left:
            if without_leaders_in is not None:
                if self._metadata.version != without_leaders_in:
                    self.attempt()
                    return
                self._owner.wait_for_leaders(self)
            self._metadata.request_update()
            backoff_ms = self._owner._backoff.delay_ms(self._attempts)
            self._attempts += 1
            if self._network.now_ms() + backoff_ms < self._deadline_ms:
                self._timer = self._network.call_later(backoff_ms, self.attempt)
                return
            for topic_partition in self._left:
                self._found[topic_partition] = self._timed_out(topic_partition)
        self._on_found(self._found)

    def _timed_out(self, topic_partition: TopicPartition) -> ClientError:
        why = self._why.get(topic_partition)
        if isinstance(why, BrokerError) and why.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return why
        return TimedOut(f"{topic_partition}: no offset found within {self._timeout_ms} ms: {why or 'no answer came'}")
