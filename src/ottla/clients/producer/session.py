"""All calls of a producer that may wait, for the blocking and the asyncio producer: a new topic, memory, a flush, the
steps of a transaction.

These are coroutines without an event loop: they await only their `Waiting`, which blocks a thread or suspends a task.
A record that needs no waiting never comes here.
"""

from collections.abc import Callable, Mapping
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ottla.clients.cluster_view import PartitionInfo
from ottla.clients.errors import ClientError, TimedOut
from ottla.clients.producer.batch import ProducerBatch
from ottla.clients.producer.core import ProducerCore, checked_topic, closed_error, full_offsets, group_of
from ottla.clients.producer.errors import InvalidTransactionState
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.queues import TopicQueues
from ottla.core.types import TimestampMs, TopicPartition

if TYPE_CHECKING:
    from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
    from ottla.clients.producer.transactions import OnDone, Transactions

T = TypeVar("T")

# How much longer than a timeout that it keeps itself the client loop may take, before we call it stuck.
_GRACE_MS: Final = 5_000


class Waiting(Protocol):
    """How the user's thread or task waits, and how it reaches the client loop."""

    def now_ms(self) -> int: ...

    def in_loop(self, callback: Callable[[], T]) -> T:
        """Run it in the client loop and return its result."""
        ...

    def post(self, callback: Callable[[], None]) -> None: ...

    def refuse_in_loop(self, what: str) -> None:
        """Raise ClientError where waiting would block what the caller waits for."""
        ...

    async def outcome(self, start: Callable[[Callable[[T], None]], None], timeout_ms: int | None) -> list[T]:
        """Call `start(done)` and return what `done` was called with; nothing if the time is over first."""
        ...

    async def let_others_run(self) -> None: ...

    def failure(self) -> ClientError | None:
        """Why no result will ever come, if that is so."""
        ...


class ProducerSession:
    """Owned by one producer. Any thread of a blocking producer may use it; each call waits by itself."""

    def __init__(self, core: ProducerCore, waiting: Waiting) -> None:
        self.is_closed = False
        self._core = core
        self._waiting = waiting
        self._accumulator = core.accumulator
        self._max_block_ms = core.settings.max_block_ms

    # Sending

    async def append(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        timestamp_ms: TimestampMs,
    ) -> SendHandle:
        """Send a record that has to wait for its topic or for memory."""
        queues = await self._topic(topic)
        append = partial(self._accumulator.append, queues, partition, key, value, headers, timestamp_ms)
        return await self._when_room(queues, append)

    async def append_table(self, topic: str, table: Any) -> list[ProducerBatch]:
        """Send all rows of an Arrow table, record batch or reader; returns their batches."""
        from ottla.clients.producer.tables import batches_of_table

        self._core.check_takes_tables()
        queues = await self._topic(topic)
        batches = []
        for partition, appender in batches_of_table(table, queues, self._core.settings, time_ns() // 1_000_000):
            append = partial(self._accumulator.append_batch, queues, partition, appender)
            batches.append(await self._when_room(queues, append))
            await self._waiting.let_others_run()
        return batches

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[PartitionInfo]:
        await self._topic(topic, timeout_ms)
        return list(self._core.metadata.partitions_of(topic))

    async def flush(self, timeout_ms: int | None = None) -> None:
        waiting = self._waiting
        waiting.refuse_in_loop("flush")
        deadline_ms = None if timeout_ms is None else waiting.now_ms() + timeout_ms
        batches = self._accumulator.begin_flush()
        try:
            self._core.wake()
            for batch in batches:
                left_ms = None if deadline_ms is None else max(deadline_ms - waiting.now_ms(), 0)
                if not batch.is_done and not await waiting.outcome(partial(_when_done, batch), left_ms):
                    undone = sum(not batch.is_done for batch in batches)
                    raise TimedOut(f"flush: {undone} of {len(batches)} batches not done after {timeout_ms} ms")
        finally:
            self._accumulator.end_flush()

    async def close(self, timeout_ms: int | None, *, may_wait: bool = True) -> None:
        """Take no more records, deliver the rest; what is left when the time is over fails."""
        self.is_closed = True
        try:
            if may_wait:
                await self._abort_open_transaction(timeout_ms)
                self._core.refuse()
                await self.flush(timeout_ms)
        except TimedOut:
            pass  # they fail below, each record with its own error
        finally:
            if self._waiting.failure() is None:
                self._waiting.in_loop(self._core.close)

    # Transactions

    async def init_transactions(self) -> None:
        await self._step("init_transactions", self._transactions("init_transactions").initialize)

    async def begin_transaction(self) -> None:
        self._waiting.in_loop(self._transactions("begin_transaction").begin)

    async def send_offsets(
        self, offsets: "Mapping[TopicPartition, OffsetAndMetadata | int]", group: "GroupMetadata | str"
    ) -> None:
        what = "send_offsets_to_transaction"
        transactions = self._transactions(what)
        full = full_offsets(offsets)
        metadata = group_of(group)
        if full:
            await self._step(what, lambda on_done: transactions.send_offsets(full, metadata, on_done))

    async def commit_transaction(self) -> None:
        await self._step("commit_transaction", self._transactions("commit_transaction").commit)

    async def abort_transaction(self) -> None:
        await self._step("abort_transaction", self._transactions("abort_transaction").abort)

    @property
    def can_abort(self) -> bool:
        return self._transactions("abort_transaction").can_abort

    # Waiting

    async def _topic(self, topic: str, timeout_ms: int | None = None) -> TopicQueues:
        known = self._accumulator.topics.get(topic)
        if known is not None:
            return known
        checked_topic(topic)
        waiting = self._waiting
        waiting.refuse_in_loop(f"send to {topic}, a topic that is new to this producer,")
        if self.is_closed:
            raise closed_error()
        limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms

        def start(done: Callable[[TopicQueues | ClientError], None]) -> None:
            waiting.post(lambda: self._core.find_topic(topic, limit_ms, done))

        outcome = await waiting.outcome(start, limit_ms + _GRACE_MS)
        if not outcome:
            raise waiting.failure() or TimedOut(f"topic {topic}: not known after {limit_ms} ms")
        if isinstance(outcome[0], ClientError):
            raise outcome[0]
        return outcome[0]

    async def _when_room(self, topic: TopicQueues, append: Callable[[], T | None]) -> T:
        """Retry until there is memory for it, `max.block.ms` at most."""
        appended = append()
        if appended is not None:
            return appended
        waiting = self._waiting
        waiting.refuse_in_loop("send with buffer.memory used up")
        deadline_ms = waiting.now_ms() + self._max_block_ms
        while True:
            appended_now: list[T] = []
            is_woken = await waiting.outcome(
                partial(self._try_again, append, appended_now), max(deadline_ms - waiting.now_ms(), 0)
            )
            if appended_now:
                return appended_now[0]
            if not is_woken:
                raise self._accumulator.exhausted_error(topic)

    def _try_again(self, append: Callable[[], T | None], appended: list[T], done: Callable[[None], None]) -> None:
        """Call `done` when memory is released; at once if that happened meanwhile."""
        self._accumulator.when_room(lambda: done(None))
        found = append()
        if found is not None:
            appended.append(found)
            done(None)

    async def _abort_open_transaction(self, timeout_ms: int | None) -> None:
        transactions = self._core.transactions
        if transactions is not None and transactions.can_abort:
            try:
                await self._step("close", transactions.abort, timeout_ms)
            except ClientError:
                pass  # the coordinator aborts it after transaction.timeout.ms

    async def _step(self, what: str, start: "Callable[[OnDone], None]", timeout_ms: int | None = None) -> None:
        """Run a step of a transaction in the client loop, and wait for its end."""
        waiting = self._waiting
        waiting.refuse_in_loop(what)
        limit_ms = self._max_block_ms if timeout_ms is None else min(timeout_ms, self._max_block_ms)

        def begin(done: Callable[[ClientError | None], None]) -> None:
            waiting.in_loop(lambda: start(done))

        outcome = await waiting.outcome(begin, limit_ms)
        if not outcome:
            assert self._core.transactions is not None
            raise self._core.transactions.timed_out(what, limit_ms)
        if outcome[0] is not None:
            raise outcome[0]

    def _transactions(self, what: str) -> "Transactions":
        if self._core.transactions is None:
            raise InvalidTransactionState(f"{what}: the producer has no transactional.id")
        if self.is_closed:
            raise closed_error()
        return self._core.transactions


def _when_done(batch: ProducerBatch, done: Callable[[None], None]) -> None:
    if not batch.when_done(lambda: done(None)):
        done(None)
