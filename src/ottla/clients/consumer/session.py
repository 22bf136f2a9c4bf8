"""The user's side of a consumer, for the blocking and the asyncio one: poll, commit, seek and the rest.

These are coroutines without an event loop: they await only their `Waiting`, which blocks a thread or suspends a task.
They reach the client loop only by `in_loop` and `post`.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from ottla.clients.config import ClientConfig
from ottla.clients.consumer.core import ConsumerCore
from ottla.clients.consumer.errors import CommitFailed, IllegalUse, RebalanceInProgress, WokenUp
from ottla.clients.consumer.listener import Interceptors, RebalanceListener
from ottla.clients.consumer.offset_lookup import NO_OFFSET, Found
from ottla.clients.consumer.rebalance import EventKind, RebalanceEvent
from ottla.clients.consumer.reset import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.clients.consumer.subscription import Kind, as_offsets
from ottla.clients.consumer.values import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp
from ottla.clients.errors import ClientClosed, ClientError, TimedOut
from ottla.clients.fetched_batches import WantedBatches
from ottla.core.types import Offset, TimestampMs, TopicPartition

T = TypeVar("T")
Done = Callable[[Any], None]
OnCommit = Callable[[dict[TopicPartition, OffsetAndMetadata], ClientError | None], None]

logger: Final = logging.getLogger("ottla.clients")
_LEAVE_TIMEOUT_MS: Final = 5_000
# The client loop keeps the timeout of an operation itself; this is for a loop that is stuck.
_LOOP_SLACK_MS: Final = 1_000


class Waiting(Protocol):
    """How the user's side waits, and how it reaches the client loop."""

    def now_ms(self) -> int: ...

    def in_loop(self, callback: Callable[[], T]) -> T:
        """Run it in the client loop, at once or while this thread waits."""
        ...

    def post(self, callback: Callable[[], None]) -> None: ...

    def clear(self) -> None:
        """After this `wait` waits for a new `wake`."""
        ...

    def wake(self) -> None:
        """Called in the client loop."""
        ...

    async def wait(self, timeout_ms: int) -> None:
        """Wait until `wake`, or until the timeout."""
        ...

    def failure(self) -> ClientError | None:
        """Why `wake` will never come, if that is so."""
        ...


class Session:
    """Owned by one consumer, which lets only one thread or task in at a time."""

    def __init__(self, core: ConsumerCore, config: ClientConfig, waiting: Waiting) -> None:
        self.core = core
        self.is_woken = False  # written by any thread
        self.is_closed = False
        self.default_timeout_ms = config.get_int("default.api.timeout.ms")
        self._waiting = waiting
        self._listener: RebalanceListener | None = None
        self._max_poll_records = config.get_int("max.poll.records")
        auto_commit = config["enable.auto.commit"]
        self._is_auto_commit = core.group is not None if auto_commit is None else bool(auto_commit)
        self._auto_commit_interval_ms = config.get_int("auto.commit.interval.ms")
        self._auto_commit_at_ms = waiting.now_ms() + self._auto_commit_interval_ms
        self._revoking_commit_ms = config.get_int("max.poll.interval.ms")
        self._interceptors = Interceptors(config.get_objects("interceptor.classes"))
        self._callbacks: deque[Callable[[], None]] = deque()  # of commits that are done; they run on the user's side

    # Reading.

    async def poll(self, timeout_ms: int, max_records: int | None = None) -> list[ConsumerRecord]:
        count = self._max_poll_records if max_records is None else max_records
        records: list[ConsumerRecord] = await self._poll(timeout_ms, lambda: self.core.fetch_buffer.take(count)) or []
        return self._interceptors.on_consume(records) if records else records

    async def poll_fetched(self, timeout_ms: int) -> WantedBatches | None:
        """One partition's batches, undecoded, for columns."""
        return await self._poll(timeout_ms, self.core.fetch_buffer.take_fetched)

    async def _poll(self, timeout_ms: int, take: Callable[[], T]) -> T:
        self._check()
        core, waiting = self.core, self._waiting
        if core.subscription.kind is Kind.NOTHING:
            raise IllegalUse("nothing to poll: subscribe to topics or assign partitions first")
        started_ms = waiting.now_ms()
        core.last_poll_ms = started_ms
        core.is_polling = True
        try:
            if self._is_auto_commit and started_ms >= self._auto_commit_at_ms:
                self._commit_in_background(started_ms)
            is_first = True
            while True:
                waiting.clear()
                await self._raise_and_call_back()
                taken = take()
                if taken:
                    return taken
                left_ms = started_ms + timeout_ms - waiting.now_ms()
                if is_first:
                    waiting.post(core.advance)
                    is_first = False
                if left_ms <= 0:
                    return taken
                await waiting.wait(left_ms)
        finally:
            core.is_polling = False
            core.last_poll_ms = waiting.now_ms()

    async def _raise_and_call_back(self) -> None:
        """Raise waiting errors, run waiting callbacks, call the listener."""
        self._check()
        while self._callbacks:
            self._callbacks.popleft()()
        core = self.core
        while core.attention:
            error = core.take_error()
            if error is not None:
                raise error
            event = self._waiting.in_loop(core.take_event)
            if event is not None:
                await self._call_listener(event)

    def _check(self) -> None:
        if self.is_closed:
            raise ClientClosed("the consumer is closed")
        if self.is_woken:
            self.is_woken = False
            raise WokenUp("wakeup was called")
        failure = self._waiting.failure()
        if failure is not None:
            raise failure

    async def _call_listener(self, event: RebalanceEvent) -> None:
        listener = self._listener
        try:
            if event.kind is EventKind.REVOKED:
                if self._is_auto_commit:
                    await self._commit_before_revoking()
                answer = listener.on_partitions_revoked(event.topic_partitions) if listener is not None else None
            elif listener is None:
                answer = None
            elif event.kind is EventKind.LOST:
                answer = listener.on_partitions_lost(event.topic_partitions)
            else:
                answer = listener.on_partitions_assigned(event.topic_partitions)
            if answer is not None:
                await answer
        finally:
            self._waiting.in_loop(lambda: self.core.finish(event))

    # Committing.

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | Offset] | None, timeout_ms: int | None
    ) -> None:
        to_commit = self._offsets_to_commit(offsets)
        limit_ms = self.default_timeout_ms if timeout_ms is None else timeout_ms

        def start(done: Done) -> None:
            self.core.commit(to_commit, timeout_ms=limit_ms, is_retried=True, on_committed=done)

        await self._ask("commit", start, limit_ms)
        self._interceptors.on_commit(to_commit)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | Offset] | None, callback: OnCommit | None
    ) -> None:
        to_commit = self._offsets_to_commit(offsets)

        def call_back(failure: ClientError | None) -> None:
            if failure is None:
                self._interceptors.on_commit(to_commit)
            if callback is not None:
                callback(to_commit, failure)

        def done(failure: ClientError | None) -> None:
            self._callbacks.append(lambda: call_back(failure))

        timeout_ms = self.default_timeout_ms
        self._waiting.post(
            lambda: self.core.commit(to_commit, timeout_ms=timeout_ms, is_retried=False, on_committed=done)
        )

    async def committed(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self._need_group("committed")
        wanted = [TopicPartition(*topic_partition) for topic_partition in topic_partitions]
        limit_ms = self.default_timeout_ms if timeout_ms is None else timeout_ms

        def start(done: Done) -> None:
            self.core.fetch_committed(wanted, timeout_ms=limit_ms, on_fetched=done)

        found: dict[TopicPartition, OffsetAndMetadata] = await self._ask("committed", start, limit_ms)
        return {topic_partition: found.get(topic_partition) for topic_partition in wanted}

    def _offsets_to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | Offset] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._need_group("commit")
        self._check()
        return self.core.subscription.positions() if offsets is None else as_offsets(offsets)

    def _commit_in_background(self, now_ms: int) -> None:
        self._auto_commit_at_ms = now_ms + self._auto_commit_interval_ms
        if self.core.subscription.states:
            # Read here, before poll returns more: when the user polls again, it is done with the records that it has.
            self.commit_async(None, _log_failed_commit)

    async def _commit_before_revoking(self) -> None:
        try:
            await self.commit(None, min(self.default_timeout_ms, self._revoking_commit_ms))
        except (CommitFailed, RebalanceInProgress, TimedOut) as failure:
            logger.warning("automatic commit before partitions are revoked: %s", failure)

    # What to read, and from where.

    async def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None) -> None:
        self._check()
        core = self.core
        if isinstance(topics, str):
            raise IllegalUse(f"subscribe takes a list of topics or a compiled pattern; did you mean [{topics!r}]?")
        if isinstance(topics, re.Pattern):
            pattern = topics
            self._waiting.in_loop(lambda: core.subscribe_pattern(pattern))
        else:
            names = list(topics)
            if not names:
                await self.unsubscribe()
                return
            if not all(isinstance(name, str) and name.strip() for name in names):
                raise IllegalUse(f"subscribe: {names!r} has an invalid topic name")
            self._waiting.in_loop(lambda: core.subscribe(names))
        self._listener = listener

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        self._check()
        wanted = [TopicPartition(*topic_partition) for topic_partition in topic_partitions]
        if self._is_auto_commit and self.core.subscription.states:
            self._commit_in_background(self._waiting.now_ms())
        self._waiting.in_loop(lambda: self.core.assign(wanted))

    async def unsubscribe(
        self, reason: str = "the consumer unsubscribed from all topics", timeout_ms: int = _LEAVE_TIMEOUT_MS
    ) -> None:
        """Revoke all partitions: automatic commit and listener first, then leave the group."""
        self._check()
        core = self.core
        if core.group is not None:
            core.group.is_wanted = False  # revoking the partitions is not a step of a rebalance any more
        try:
            if core.subscription.is_of_group and core.subscription.states:
                kind = EventKind.REVOKED
                if core.group is not None and core.group.generation_id < 0:
                    kind = EventKind.LOST
                await self._call_listener(RebalanceEvent(kind, tuple(core.subscription.states)))
        finally:
            try:
                await self._ask("leave", lambda done: core.unsubscribe(reason, lambda: done(None)), timeout_ms)
            except TimedOut as failure:
                logger.warning(
                    "leaving the group: %s; the coordinator removes this member after session.timeout.ms", failure
                )

    async def position(self, topic_partition: TopicPartition, timeout_ms: int | None) -> Offset:
        """The next offset that poll returns; waits until it is found."""
        limit_ms = self.default_timeout_ms if timeout_ms is None else timeout_ms
        waiting, core = self._waiting, self.core
        deadline_ms = waiting.now_ms() + limit_ms
        state = core.subscription.state_of(TopicPartition(*topic_partition))
        while True:
            waiting.clear()
            self._check()
            position = state.position
            if position is not None:
                return position
            error = core.take_error()
            if error is not None:
                raise error
            waiting.post(core.advance)
            left_ms = deadline_ms - waiting.now_ms()
            if left_ms <= 0:
                raise TimedOut(f"{state.topic_partition}: no position found within {limit_ms} ms")
            await waiting.wait(min(left_ms, 10))

    async def find_offsets(
        self, timestamps: Mapping[TopicPartition, TimestampMs], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wanted = {
            TopicPartition(*topic_partition): timestamp_ms for topic_partition, timestamp_ms in timestamps.items()
        }
        limit_ms = self.default_timeout_ms if timeout_ms is None else timeout_ms

        def start(done: Done) -> None:
            self.core.find_offsets(wanted, timeout_ms=limit_ms, on_found=done)

        found: Found = await self._ask("look up offsets", start, limit_ms)
        offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for topic_partition, outcome in found.items():
            if isinstance(outcome, ClientError):
                raise outcome
            offsets[topic_partition] = None if outcome.offset == NO_OFFSET else outcome
        return offsets

    async def ends(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None, *, is_beginning: bool
    ) -> dict[TopicPartition, Offset]:
        timestamp_ms = EARLIEST_TIMESTAMP if is_beginning else LATEST_TIMESTAMP
        found = await self.find_offsets(dict.fromkeys(topic_partitions, timestamp_ms), timeout_ms)
        return {topic_partition: offset.offset for topic_partition, offset in found.items() if offset is not None}

    async def partition_count(self, topic: str, timeout_ms: int | None) -> int:
        limit_ms = self.default_timeout_ms if timeout_ms is None else timeout_ms

        def start(done: Done) -> None:
            self.core.metadata.wait_for_topic(topic, limit_ms, done)

        count: int = await self._ask("look up a topic", start, limit_ms)
        return count

    async def close(self, timeout_ms: int) -> None:
        """Commit if commits are automatic, call the listener, leave the group; the timeout bounds each of these."""
        self.is_woken = False
        self._revoking_commit_ms = timeout_ms
        core = self.core
        try:
            if self._is_auto_commit and core.subscription.states and not core.subscription.is_of_group:
                await self.commit(None, timeout_ms)
            if core.subscription.states or core.subscription.is_of_group:
                await self.unsubscribe("the consumer is being closed", min(timeout_ms, _LEAVE_TIMEOUT_MS))
            while self._callbacks:
                self._callbacks.popleft()()
        finally:
            self.is_closed = True
            self._waiting.in_loop(core.close)
            self._interceptors.close()

    # Waiting for an operation.

    async def _ask(self, what: str, start: Callable[[Done], None], limit_ms: int) -> Any:
        """Start it in the client loop and wait until it calls back; raises the ClientError that it gets."""
        self._check()
        waiting = self._waiting
        outcomes: list[Any] = []
        wake = waiting.wake

        def done(outcome: Any) -> None:
            outcomes.append(outcome)
            wake()

        waiting.post(lambda: start(done))
        deadline_ms = waiting.now_ms() + limit_ms + _LOOP_SLACK_MS
        while True:
            waiting.clear()
            if outcomes:
                break
            self._check()
            left_ms = deadline_ms - waiting.now_ms()
            if left_ms <= 0:
                raise TimedOut(f"{what}: not done within {limit_ms} ms")
            await waiting.wait(left_ms)
        if isinstance(outcomes[0], ClientError):
            raise outcomes[0]
        return outcomes[0]

    def _need_group(self, call: str) -> None:
        if self.core.group is None:
            raise IllegalUse(f"{call} needs a group.id")


def _log_failed_commit(offsets: dict[TopicPartition, OffsetAndMetadata], failure: ClientError | None) -> None:
    if failure is not None:
        logger.warning("automatic commit of %d partitions: %s; the next one includes them again", len(offsets), failure)
