"""Finds positions: the committed offset of the group, else by `auto.offset.reset` or a seek by time.

Runs in the client loop. It retries until each partition has a position; errors that are not retriable go to the user.
"""

from collections.abc import Callable
from typing import Final

from ottla.clients.consumer.commits import Commits
from ottla.clients.consumer.errors import NoOffsetForPartition
from ottla.clients.consumer.offset_lookup import NO_OFFSET, Found, OffsetLookup
from ottla.clients.consumer.reset import LATEST, NOWHERE, ResetStrategy
from ottla.clients.consumer.subscription import PartitionState, Subscription
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.clients.error_rules import RETRIABLE
from ottla.clients.errors import BrokerError, ClientError, ConnectionFailed, TimedOut
from ottla.clients.network.port import Network
from ottla.core.types import TimestampMs, TopicPartition
from ottla.links.backoff import Backoff

_LOOKUP_TIMEOUT_MS: Final = 30_000  # then check again whether the partition is still ours


class Positions:
    """Owned by the consumer's core; `commits` is None without a group."""

    def __init__(
        self,
        network: Network,
        subscription: Subscription,
        lookup: OffsetLookup,
        commits: Commits | None,
        *,
        reset: ResetStrategy,
        backoff: Backoff,
        wall_ms: Callable[[], TimestampMs],
        on_found: Callable[[], None],
        on_error: Callable[[ClientError], None],
    ) -> None:
        self._network = network
        self._subscription = subscription
        self._lookup = lookup
        self._commits = commits
        self._reset = reset
        self._backoff = backoff
        self._wall_ms = wall_ms
        self._on_found = on_found
        self._on_error = on_error
        self._is_retry_planned = False

    def advance(self) -> None:
        """Start a lookup for every missing position that has none yet."""
        now_ms = self._network.now_ms()
        missing = [
            state
            for state in self._subscription.states.values()
            if state.position is None and not state.is_looking and not state.is_held
        ]
        ready = [state for state in missing if state.retry_at_ms <= now_ms]
        if len(ready) < len(missing):
            self._retry_later()
        fresh = [state for state in ready if state.reset is None]
        if fresh and self._commits is not None:
            self._fetch_committed(self._commits, fresh)
        elif fresh:
            self._reset_by_default(fresh)
        resetting = [state for state in ready if state.reset is not None and not state.is_looking]
        if resetting:
            self._look_up(resetting)

    def _fetch_committed(self, commits: Commits, states: list[PartitionState]) -> None:
        counts = self._mark(states)

        def on_fetched(found: dict[TopicPartition, OffsetAndMetadata] | ClientError) -> None:
            waiting = self._still_waiting(counts)
            if isinstance(found, ClientError):
                self._failed(waiting, found)
                return
            without = []
            for state in waiting:
                committed = found.get(state.topic_partition)
                if committed is None:
                    without.append(state)
                else:
                    state.seek(committed.offset, committed.leader_epoch)
            if without:
                self._reset_by_default(without)
            self.advance()
            self._on_found()

        commits.fetch([state.topic_partition for state in states], timeout_ms=_LOOKUP_TIMEOUT_MS, on_fetched=on_fetched)

    def _reset_by_default(self, states: list[PartitionState]) -> None:
        if self._reset != NOWHERE:
            for state in states:
                state.reset = self._reset
            return
        for state in states:
            state.back_off(self._backoff, self._network.now_ms())
        self._on_error(NoOffsetForPartition(state.topic_partition for state in states))

    def _look_up(self, states: list[PartitionState]) -> None:
        wall_ms = self._wall_ms()
        timestamps: dict[TopicPartition, TimestampMs] = {}
        for state in states:
            assert state.reset is not None
            timestamp_ms = state.reset.timestamp_at(wall_ms)
            assert timestamp_ms is not None, "`none` needs no lookup"
            timestamps[state.topic_partition] = timestamp_ms
        counts = self._mark(states)

        def on_found(found: Found) -> None:
            for state in self._still_waiting(counts):
                outcome = found[state.topic_partition]
                if isinstance(outcome, ClientError):
                    self._failed([state], outcome)
                elif outcome.offset == NO_OFFSET:
                    state.reset = LATEST  # no record is that late: read from the end
                else:
                    # Without an epoch: the leader has just named the offset, so there is nothing to validate.
                    state.seek(outcome.offset)
            self.advance()
            self._on_found()

        self._lookup.find(timestamps, timeout_ms=_LOOKUP_TIMEOUT_MS, on_found=on_found)

    def _mark(self, states: list[PartitionState]) -> dict[PartitionState, int]:
        for state in states:
            state.is_looking = True
        return {state: state.seek_count for state in states}

    def _still_waiting(self, counts: dict[PartitionState, int]) -> list[PartitionState]:
        """The partitions that were neither revoked nor moved meanwhile."""
        for state in counts:
            state.is_looking = False
        return [state for state, count in counts.items() if state.is_assigned and state.seek_count == count]

    def _failed(self, states: list[PartitionState], failure: ClientError) -> None:
        for state in states:
            state.back_off(self._backoff, self._network.now_ms())
        is_retriable = isinstance(failure, ConnectionFailed | TimedOut) or (
            isinstance(failure, BrokerError) and failure.error_code in RETRIABLE
        )
        if is_retriable:
            self._retry_later()
        elif states:
            self._on_error(failure)

    def _retry_later(self) -> None:
        if self._is_retry_planned:
            return
        self._is_retry_planned = True

        def retry() -> None:
            self._is_retry_planned = False
            self.advance()

        self._network.call_later(max(1, self._backoff.first_ms), retry)
