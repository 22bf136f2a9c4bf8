"""The asyncio face of a producer: the same core in the event loop that it is used in, without a thread."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from os import PathLike
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ottla.clients.config import ClientConfig
from ottla.clients.errors import ClientError, TimedOut
from ottla.clients.network.asyncio_network import AsyncioNetwork
from ottla.clients.network.metadata import PartitionInfo
from ottla.clients.producer.batch import ProducerBatch
from ottla.clients.producer.core import ProducerCore, checked_bytes, checked_topic, closed_error, full_offsets, group_of
from ottla.clients.producer.counts import ProducerCounts
from ottla.clients.producer.errors import InvalidTransactionState
from ottla.clients.producer.gate import Gate, new_gate
from ottla.clients.producer.handle import RecordMetadata, SendHandle
from ottla.clients.producer.interceptors import ProducerRecord
from ottla.clients.producer.keys import PRODUCER_DEFINITION
from ottla.clients.producer.serializers import checked_headers
from ottla.clients.producer.tables import AioTableHandle, batches_of_table
from ottla.clients.producer.topic_queues import TopicQueues
from ottla.core.types import TimestampMs, TopicPartition

if TYPE_CHECKING:
    from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
    from ottla.clients.producer.transactions import OnDone, Transactions

T = TypeVar("T")


class AioSendHandle(SendHandle):
    """The delivery of one record, to be awaited; `result` and `exception` only tell what is known already."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.add_callback(lambda _: None if future.done() else future.set_result(None))
            yield from future
        return SendHandle.result(self, 0)

    def _settled(self, timeout: float | None) -> tuple[ProducerBatch, int]:
        batch, index = self._batch.part_of(self._index)
        if not batch.is_done:
            raise asyncio.InvalidStateError(f"{batch.queue.place}: the record is under way; await the handle")
        return batch, index

    @property
    def is_first_of_batch(self) -> bool:
        return self._index == 0


class Producer:
    """Sends records to topics; made anywhere, used within one event loop, from its first use until `close`."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        """Kafka's keys, in a dict or as keywords with underscores; ConfigError names everything that is wrong."""
        self._set_up(ClientConfig.parse(PRODUCER_DEFINITION, config, **keywords))

    @classmethod
    def from_properties(
        cls, path: str | PathLike[str], /, config: Mapping[str, Any] | None = None, **keywords: Any
    ) -> "Producer":
        """From a Java-style file, with `config` and keywords on top; unknown keys in the file are warned of."""
        producer = cls.__new__(cls)
        producer._set_up(ClientConfig.from_properties(PRODUCER_DEFINITION, path, config, **keywords))
        return producer

    def _set_up(self, config: ClientConfig) -> None:
        self.config = config
        self._started: ProducerCore | None = None
        self._network: AsyncioNetwork | None = None
        self._gate: Gate | None = None
        self._is_closed = False

    @property
    def _core(self) -> ProducerCore:
        """Made with the first use, when there is a loop."""
        if self._started is None:
            if self._is_closed:
                raise closed_error()
            config = self.config
            self._network = AsyncioNetwork(
                config.bootstrap, client_id=config.client_id, settings=config.network_settings()
            )
            self._started = core = ProducerCore(self._network, config, handle_type=AioSendHandle)
            if not core.converts and core.accumulator.places_by_default:
                self._gate = new_gate(core.accumulator.topics, AioSendHandle, _not_served)
        return self._started

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: TimestampMs | None = None,
        on_delivery: Callable[[SendHandle], None] | None = None,
    ) -> AioSendHandle:
        """Put a record on its way; awaiting the handle tells where it is, or raises why it was given up.

        Waits only for the metadata of a new topic and for memory, `max.block.ms` at most, then raises `TimedOut`.
        """
        core = self._core
        if self._gate is not None and not headers and partition is None and timestamp_ms is None:
            passed: AioSendHandle | None = self._gate.send(topic, value, key)
            if passed is not None:
                if on_delivery is not None:
                    passed.add_callback(on_delivery)
                return passed
        interceptors = core.interceptors
        if core.converts:
            record = core.prepare(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
            topic, value, key, headers, partition, timestamp_ms = record
        if value.__class__ is not bytes:
            value = checked_bytes(topic, "value", value)
        if key.__class__ is not bytes:
            key = checked_bytes(topic, "key", key)
        headers = checked_headers(topic, headers) if headers else ()
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        queues = core.accumulator.topics.get(topic)
        if queues is None:
            queues = await self._find_topic(checked_topic(topic))
        appended = core.accumulator.append(queues, partition, key, value, headers, timestamp_ms)
        if appended is None:
            appended = await self._append_when_room(queues, partition, key, value, headers, timestamp_ms)
        handle = cast(AioSendHandle, appended)
        if on_delivery is not None:
            handle.add_callback(on_delivery)
        if interceptors is not None:
            handle.add_callback(interceptors.on_acknowledgement)
        if handle.is_first_of_batch:
            # A loop that sends without a pause would keep the sender from its turn until memory is used up.
            await asyncio.sleep(0)
        return handle

    async def send_arrow(self, topic: str, table: Any) -> AioTableHandle:
        """Put all rows of an Arrow table, record batch or reader on their way; needs `ottla[columns]`."""
        core = self._core
        core.check_takes_tables()
        queues = core.accumulator.topics.get(topic)
        if queues is None:
            queues = await self._find_topic(checked_topic(topic))
        batches = []
        for partition, appender in batches_of_table(table, queues, core.settings, time_ns() // 1_000_000):
            append = partial(core.accumulator.append_batch, queues, partition, appender)
            batches.append(await self._when_room(queues, append))
            await asyncio.sleep(0)
        return AioTableHandle(batches)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything now, and wait until all of it is delivered or given up; TimedOut after `timeout_ms`."""
        core = self._core
        batches = core.accumulator.begin_flush()
        try:
            core.wake()
            await asyncio.wait_for(_all_done(batches), None if timeout_ms is None else timeout_ms / 1000)
        except TimeoutError:
            undone = sum(not batch.is_done for batch in batches)
            raise TimedOut(f"flush: {undone} of {len(batches)} batches under way after {timeout_ms} ms") from None
        finally:
            core.accumulator.end_flush()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records and deliver those there are; what is left after `timeout_ms` is given up."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._started is None or self._network is None:
            return
        try:
            await self._abort_open_transaction(timeout_ms)
            self._started.refuse()
            await self.flush(timeout_ms)
        except TimedOut:
            pass  # given up below, each record with its own error
        finally:
            self._started.close()
            await self._network.close()

    def counts(self) -> ProducerCounts:
        """What was delivered and what was given up so far; right for all that a `flush` has waited for."""
        return self._core.counts()

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, with leaders and replicas."""
        if topic not in self._core.accumulator.topics:
            await self._find_topic(checked_topic(topic))
        return list(self._core.metadata.partitions_of(topic))

    # Transactions

    async def init_transactions(self) -> None:
        """Once, before the first transaction: fences earlier producers of the same id, ends what they left open."""
        await self._wait_for("init_transactions", self._transactional("init_transactions").initialize)

    async def begin_transaction(self) -> None:
        self._transactional("begin_transaction").begin()

    async def send_offsets_to_transaction(
        self, offsets: "Mapping[TopicPartition, OffsetAndMetadata | int]", group: "GroupMetadata | str"
    ) -> None:
        """Commit a consumer's offsets with the transaction; `group` is `consumer.group_metadata()`, or an id alone."""
        what = "send_offsets_to_transaction"
        transactions = self._transactional(what)
        full = full_offsets(offsets)
        metadata = group_of(group)
        if full:
            await self._wait_for(what, lambda on_done: transactions.send_offsets(full, metadata, on_done))

    async def commit_transaction(self) -> None:
        """Deliver everything that was sent in it, then make it visible; `TransactionMustAbort` if some failed."""
        await self._wait_for("commit_transaction", self._transactional("commit_transaction").commit)

    async def abort_transaction(self) -> None:
        """Drop what was not sent; what was is never seen by readers of committed records."""
        await self._wait_for("abort_transaction", self._transactional("abort_transaction").abort)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Producer"]:
        """`async with producer.transaction():` begins one, commits it, and aborts it if anything was raised."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self._transactional("abort_transaction").can_abort:
                await self.abort_transaction()
            raise

    # Waiting

    async def _find_topic(self, topic: str) -> TopicQueues:
        core = self._core
        if self._is_closed or self._network is None:
            raise closed_error()
        return await self._network.ask(lambda on_known: core.find_topic(topic, core.settings.max_block_ms, on_known))

    async def _append_when_room(self, topic: TopicQueues, *record: Any) -> SendHandle:
        return await self._when_room(topic, lambda: self._core.accumulator.append(topic, *record))

    async def _when_room(self, topic: TopicQueues, append: Callable[[], T | None]) -> T:
        """Try until there is memory for it, `max.block.ms` at most."""
        appended = append()
        if appended is not None:
            return appended
        accumulator = self._core.accumulator
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._core.settings.max_block_ms / 1000
        while True:
            future: asyncio.Future[None] = loop.create_future()
            accumulator.when_room(lambda future=future: None if future.done() else future.set_result(None))  # type: ignore[misc]
            appended = append()
            if appended is not None:
                return appended
            try:
                await asyncio.wait_for(future, max(deadline - loop.time(), 0))
            except TimeoutError:
                raise accumulator.exhausted_error(topic) from None

    async def _abort_open_transaction(self, timeout_ms: int | None) -> None:
        transactions = self._core.transactions
        if transactions is not None and transactions.can_abort:
            try:
                await self._wait_for("close", transactions.abort, timeout_ms)
            except ClientError:
                pass  # its coordinator does it after transaction.timeout.ms

    async def _wait_for(self, what: str, start: "Callable[[OnDone], None]", timeout_ms: int | None = None) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ClientError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        start(done)
        max_block_ms = self._core.settings.max_block_ms
        limit_ms = max_block_ms if timeout_ms is None else min(timeout_ms, max_block_ms)
        try:
            await asyncio.wait_for(future, limit_ms / 1000)
        except TimedOut:
            raise
        except TimeoutError:
            assert self._core.transactions is not None
            raise self._core.transactions.timed_out(what, limit_ms) from None

    def _transactional(self, what: str) -> "Transactions":
        if self._is_closed:
            raise closed_error()
        if self._core.transactions is None:
            raise InvalidTransactionState(f"{what}: the producer has no transactional.id")
        return self._core.transactions


def _not_served(*_: object, **__: object) -> None:
    """What the gate gives for a record that must go the long way."""


async def _all_done(batches: list[ProducerBatch]) -> None:
    for batch in batches:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if batch.when_done(lambda future=future: None if future.done() else future.set_result(None)):  # type: ignore[misc]
            await future
