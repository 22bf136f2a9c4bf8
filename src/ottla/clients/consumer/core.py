"""The consumer without I/O: connects subscription, group, positions and fetches, over the network port.

Runs in the client loop, except for a few plain attributes that the user's side reads or writes (`attention`,
`last_poll_ms`, `is_polling`); each of them has one writer.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.clients.config import ClientConfig
from ottla.clients.consumer.commits import Commits, Offsets, OnCommitted, OnFetched
from ottla.clients.consumer.coordinator import Coordinator
from ottla.clients.consumer.errors import IllegalUse, NoOffsetForPartition, error_of
from ottla.clients.consumer.fetch_buffer import FetchBuffer
from ottla.clients.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED, Fetcher, FetchSettings
from ottla.clients.consumer.group import Group
from ottla.clients.consumer.group_requests import GroupSettings
from ottla.clients.consumer.offset_lookup import Found, OffsetLookup
from ottla.clients.consumer.positions import Positions
from ottla.clients.consumer.rebalance import RebalanceEvent
from ottla.clients.consumer.reset import ResetStrategy, parse_reset
from ottla.clients.consumer.strategies import parse_strategies
from ottla.clients.consumer.subscription import Kind, Subscription
from ottla.clients.consumer.validation import Validation
from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
from ottla.clients.errors import ClientClosed, ClientError
from ottla.clients.network.coordinators import Coordinators
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, TimestampMs, TopicPartition

# Errors in a topic's metadata that are not retriable.
_TOPIC_ERRORS: Final = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


class ConsumerCore:
    """One per consumer. `on_attention` wakes the user's side: records, an event or an error wait; with `hand_over` the
    user's side runs something in the client loop without waiting for it.
    """

    def __init__(
        self,
        network: Network,
        metadata: Metadata,
        config: ClientConfig,
        *,
        wall_ms: Callable[[], TimestampMs],
        hand_over: Callable[[Callable[[], None]], None],
        on_attention: Callable[[], None],
    ) -> None:
        self.attention = False  # written in the loop: there are events or errors
        self.last_poll_ms = network.now_ms()  # written by the user's side
        self.is_polling = False  # written by the user's side
        self.errors: deque[ClientError] = deque()
        self.subscription = Subscription()
        self.metadata = metadata
        self._network = network
        self._config = config
        self._wake = on_attention
        backoff = config.retry_backoff()
        is_committed_only = config.get_str("isolation.level") == "read_committed"
        isolation_level = READ_COMMITTED if is_committed_only else READ_UNCOMMITTED
        reset = parse_reset(config.get_str("auto.offset.reset"))
        self.fetch_buffer = FetchBuffer(
            check_crcs=config.get_bool("check.crcs"),
            key_deserializer=config.get_object("key.deserializer"),
            value_deserializer=config.get_object("value.deserializer"),
            on_drained=lambda: hand_over(self.fetch),
        )
        self._lookup = OffsetLookup(network, metadata, isolation_level=isolation_level, backoff=backoff)
        self.group: Group | None = None
        self._commits: Commits | None = None
        group_id = config.get_optional_str("group.id")
        if group_id is not None:
            coordinators = Coordinators(network, metadata, backoff)
            coordinator = Coordinator(network, coordinators, group_id)
            self.group = Group(
                network,
                metadata,
                coordinator,
                self.subscription,
                _group_settings(config, group_id),
                on_attention=self._call_attention,
                on_error=self._put_error,
                on_topics=self._show_topics,
                poll_idle_ms=self._poll_idle_ms,
            )
            self._commits = Commits(network, coordinator, self.group, backoff=backoff)
        self._positions = Positions(
            network,
            self.subscription,
            self._lookup,
            self._commits,
            reset=reset,
            backoff=backoff,
            wall_ms=wall_ms,
            on_found=self.fetch,
            on_error=self._put_error,
        )
        fetch_settings = FetchSettings(
            max_wait_ms=config.get_int("fetch.max.wait.ms"),
            min_bytes=config.get_int("fetch.min.bytes"),
            max_bytes=config.get_int("fetch.max.bytes"),
            partition_max_bytes=config.get_int("max.partition.fetch.bytes"),
            isolation_level=isolation_level,
            rack_id=config.get_str("client.rack"),
            backoff=backoff,
            preferred_replica_ms=config.get_int("metadata.max.age.ms"),
            reset=reset,
        )
        self._validation = Validation(
            network,
            metadata,
            self.subscription,
            reset=reset,
            backoff=backoff,
            on_valid=lambda: self._fetcher.send(),
            on_reset=self._positions.advance,
            on_error=self._put_error,
        )
        self._fetcher = Fetcher(
            network,
            metadata,
            self.subscription,
            self.fetch_buffer,
            fetch_settings,
            is_unchecked=self._validation.is_open,
            on_ready=on_attention,
            on_reset=self._positions.advance,
        )
        metadata.on_change.append(self._metadata_changed)

    # Progress.

    def advance(self) -> None:
        """Do all that can be done; each poll that has to wait calls it."""
        if self.group is not None and self.subscription.is_of_group:
            self.group.is_wanted = True
            self.group.advance()
        self._positions.advance()
        self.fetch()

    def fetch(self) -> None:
        self._validation.advance()
        self._fetcher.send()

    def take_error(self) -> ClientError | None:
        """The next error to raise; not a missing position that was found or set meanwhile."""
        while self.errors:
            error = self.errors.popleft()
            if not isinstance(error, NoOffsetForPartition):
                return error
            states = [self.subscription.states.get(topic_partition) for topic_partition in error.topic_partitions]
            if any(state is not None and state.position is None and state.reset is None for state in states):
                return error
        return None

    def take_event(self) -> RebalanceEvent | None:
        """The next event for the listener; `finish` it. Without events and errors, attention ends."""
        event = self.group.take_event() if self.group is not None else None
        if event is None and not self.errors:
            self.attention = False
        return event

    def finish(self, event: RebalanceEvent) -> None:
        assert self.group is not None
        self.group.finish(event)
        self._positions.advance()
        self.fetch()

    # What to read.

    def subscribe(self, topics: Iterable[str]) -> None:
        group = self._need_group("subscribe")
        self.subscription.subscribe(topics)
        self._show_topics()
        group.subscribed()

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        group = self._need_group("subscribe")
        self.subscription.subscribe_pattern(pattern)
        self._show_topics()
        if self.metadata.version:
            self._match()
            self.metadata.request_update()
        group.subscribed()

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        self.subscription.assign_partitions(TopicPartition(*topic_partition) for topic_partition in topic_partitions)
        self._show_topics()

    def unsubscribe(self, reason: str, on_done: Callable[[], None]) -> None:
        is_of_group = self.subscription.is_of_group
        self.subscription.unsubscribe()
        self._show_topics()
        if self.group is not None and is_of_group:
            self.group.leave(reason, on_done)
        else:
            self._network.call_soon(on_done)

    def seek(self, topic_partition: TopicPartition, offset: OffsetAndMetadata, *, until: Offset | None = None) -> None:
        self.subscription.state_of(topic_partition).seek(offset.offset, offset.leader_epoch, until=until)
        self.fetch()

    def seek_by(self, topic_partitions: Iterable[TopicPartition], strategy: ResetStrategy) -> None:
        for state in [self.subscription.state_of(topic_partition) for topic_partition in topic_partitions]:
            state.seek_by(strategy)
        self._positions.advance()

    def set_paused(self, topic_partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        for state in [self.subscription.state_of(topic_partition) for topic_partition in topic_partitions]:
            state.is_paused = is_paused
        self.fetch()

    # Asking.

    def commit(self, offsets: Offsets, *, timeout_ms: int, is_retried: bool, on_committed: OnCommitted) -> None:
        assert self._commits is not None, "the user's side has checked that there is a group"
        self._commits.commit(offsets, timeout_ms=timeout_ms, is_retried=is_retried, on_committed=on_committed)

    def fetch_committed(
        self, topic_partitions: Iterable[TopicPartition], *, timeout_ms: int, on_fetched: OnFetched
    ) -> None:
        assert self._commits is not None, "the user's side has checked that there is a group"
        self._commits.fetch(topic_partitions, timeout_ms=timeout_ms, on_fetched=on_fetched)

    def find_offsets(
        self, timestamps: Mapping[TopicPartition, TimestampMs], *, timeout_ms: int, on_found: Callable[[Found], None]
    ) -> None:
        self._lookup.find(timestamps, timeout_ms=timeout_ms, on_found=on_found)

    def identity(self) -> GroupMetadata:
        return self._need_group("group_metadata").identity

    def enforce_rebalance(self, reason: str) -> None:
        self._need_group("enforce_rebalance").rejoin(reason)

    def lag_of(self, topic_partition: TopicPartition) -> int | None:
        """Records from the position to the end as of the last fetch."""
        state = self.subscription.state_of(topic_partition)
        is_committed_only = self._config.get_str("isolation.level") == "read_committed"
        end: Offset | None = state.last_stable_offset if is_committed_only else state.high_watermark
        return None if end is None or state.position is None else max(0, end - state.position)

    def close(self) -> None:
        self._fetcher.close()
        self.metadata.close(ClientClosed("the consumer is closed"))

    # Inside.

    def _need_group(self, call: str) -> Group:
        if self.group is None:
            raise IllegalUse(f"{call} needs a group.id; without one, use assign")
        return self.group

    def _show_topics(self) -> None:
        """Keep metadata of the topics that this consumer reads, and of those that it assigns as leader."""
        if self.subscription.kind is Kind.PATTERN:
            self.metadata.set_topics(None)
        else:
            group_topics = self.group.group_topics if self.group is not None else frozenset[str]()
            is_leader = self.group is not None and self.group.is_leader
            self.metadata.set_topics(self.subscription.topics | (group_topics if is_leader else frozenset()))

    def _metadata_changed(self) -> None:
        subscription = self.subscription
        if subscription.kind is Kind.PATTERN:
            self._match()
        else:
            for topic in subscription.topics:
                code = self.metadata.error_of(topic)
                if code in _TOPIC_ERRORS:
                    self._put_error(error_of(code, f"topic {topic}"))
        if self.group is not None and subscription.is_of_group:
            self.group.metadata_changed()
        self._positions.advance()
        self.fetch()

    def _match(self) -> None:
        is_changed = self.subscription.match(
            self.metadata.names(), exclude_internal=self._config.get_bool("exclude.internal.topics")
        )
        if is_changed and self.group is not None:
            self.group.subscribed()

    def _poll_idle_ms(self) -> int:
        return 0 if self.is_polling else self._network.now_ms() - self.last_poll_ms

    def _put_error(self, error: ClientError) -> None:
        self.errors.append(error)
        self._call_attention()

    def _call_attention(self) -> None:
        self.attention = True
        self._wake()


def _group_settings(config: ClientConfig, group_id: str) -> GroupSettings:
    return GroupSettings(
        group_id=group_id,
        instance_id=config.get_optional_str("group.instance.id"),
        session_timeout_ms=config.get_int("session.timeout.ms"),
        heartbeat_interval_ms=config.get_int("heartbeat.interval.ms"),
        max_poll_interval_ms=config.get_int("max.poll.interval.ms"),
        backoff=config.retry_backoff(),
        request_timeout_ms=config.get_int("request.timeout.ms"),
        strategies=parse_strategies(config.get_list("partition.assignment.strategy")),
        rack_id=config.get_str("client.rack") or None,
    )
