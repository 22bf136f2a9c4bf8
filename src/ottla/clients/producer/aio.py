"""The asyncio producer: the same core as the blocking one, in the user's event loop, without a thread."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from os import PathLike
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ottla.clients.cluster_view import PartitionInfo
from ottla.clients.config import ClientConfig
from ottla.clients.errors import ClientError
from ottla.clients.network.asyncio_network import AsyncioNetwork
from ottla.clients.producer.batch import ProducerBatch
from ottla.clients.producer.core import ProducerCore, ProducerCounts, checked_bytes, closed_error
from ottla.clients.producer.fast_append import FastAppend, new_fast_append
from ottla.clients.producer.handle import RecordMetadata, SendHandle
from ottla.clients.producer.interceptors import ProducerRecord
from ottla.clients.producer.keys import PRODUCER_DEFINITION
from ottla.clients.producer.serializers import checked_headers
from ottla.clients.producer.session import ProducerSession
from ottla.clients.producer.tables import AioTableHandle
from ottla.core.types import TimestampMs, TopicPartition

if TYPE_CHECKING:
    from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata

T = TypeVar("T")


class AioSendHandle(SendHandle):
    """The delivery of one record, to be awaited; `result` and `exception` don't wait."""

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
            raise asyncio.InvalidStateError(
                f"{batch.queue.topic_partition}: the record is not acknowledged yet; await the handle"
            )
        return batch, index

    @property
    def is_first_of_batch(self) -> bool:
        return self._index == 0


class Producer:
    """Sends records to topics. Create it anywhere; from its first use until `close` it belongs to one event loop."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        """Kafka's keys, in a dict or as keywords with underscores; ConfigError lists every problem."""
        self._set_up(ClientConfig.parse(PRODUCER_DEFINITION, config, **keywords))

    @classmethod
    def from_properties(
        cls, path: str | PathLike[str], /, config: Mapping[str, Any] | None = None, **keywords: Any
    ) -> "Producer":
        """From a properties file, with `config` and keywords on top; unknown keys in the file give a warning."""
        producer = cls.__new__(cls)
        producer._set_up(ClientConfig.from_properties(PRODUCER_DEFINITION, path, config, **keywords))
        return producer

    def _set_up(self, config: ClientConfig) -> None:
        self.config = config
        self._started: tuple[ProducerCore, ProducerSession] | None = None
        self._network: AsyncioNetwork | None = None
        self._fast_append: FastAppend | None = None
        self._is_closed = False

    @property
    def _core(self) -> ProducerCore:
        return self._parts()[0]

    @property
    def _session(self) -> ProducerSession:
        return self._parts()[1]

    def _parts(self) -> tuple[ProducerCore, ProducerSession]:
        """Created with the first use, when there is a loop."""
        if self._started is None:
            if self._is_closed:
                raise closed_error()
            config = self.config
            self._network = AsyncioNetwork(
                config.bootstrap, client_id=config.client_id, settings=config.network_settings()
            )
            core = ProducerCore(self._network, config, handle_type=AioSendHandle)
            self._started = core, ProducerSession(core, _LoopWaiting(self._network))
            if not core.converts and core.accumulator.has_default_partitioner:
                self._fast_append = new_fast_append(core.accumulator.topics, AioSendHandle, _not_served)
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
        """Send a record; awaiting the handle returns where it is stored, or raises why the producer gave it up.

        Waits only for the metadata of a new topic and for memory, `max.block.ms` at most, then raises `TimedOut`.
        """
        core = self._core
        if self._fast_append is not None and not headers and partition is None and timestamp_ms is None:
            passed: AioSendHandle | None = self._fast_append.send(topic, value, key)
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
        appended = None
        if queues is not None:
            appended = core.accumulator.append(queues, partition, key, value, headers, timestamp_ms)
        if appended is None:
            appended = await self._session.append(topic, partition, key, value, headers, timestamp_ms)
        handle = cast(AioSendHandle, appended)
        if on_delivery is not None:
            handle.add_callback(on_delivery)
        if interceptors is not None:
            handle.add_callback(interceptors.on_acknowledgement)
        if handle.is_first_of_batch:
            # A task that sends without a pause would keep the sender from running until memory is used up.
            await asyncio.sleep(0)
        return handle

    async def send_arrow(self, topic: str, table: Any) -> AioTableHandle:
        """Send all rows of an Arrow table, record batch or reader; needs the extra `columns`."""
        return AioTableHandle(await self._session.append_table(topic, table))

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything now, and wait until all of it is delivered or failed; TimedOut after `timeout_ms`."""
        await self._session.flush(timeout_ms)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records and deliver the rest; what is left after `timeout_ms` fails."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._network is None:
            return  # never used
        try:
            await self._session.close(timeout_ms)
        finally:
            await self._network.close()

    def counts(self) -> ProducerCounts:
        """What was delivered and what failed so far; exact for everything before the last `flush`."""
        return self._core.counts()

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, with leaders and replicas."""
        return await self._session.partitions_for(topic)

    # Transactions

    async def init_transactions(self) -> None:
        """Call it once, before the first transaction: fences older producers of this id and ends their transaction."""
        await self._session.init_transactions()

    async def begin_transaction(self) -> None:
        await self._session.begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: "Mapping[TopicPartition, OffsetAndMetadata | int]", group: "GroupMetadata | str"
    ) -> None:
        """Commit a consumer's offsets with the transaction; `group` is `consumer.group_metadata()`, or only an id."""
        await self._session.send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Deliver everything that was sent in it, then commit; `TransactionMustAbort` if a record failed."""
        await self._session.commit_transaction()

    async def abort_transaction(self) -> None:
        """Drop what was not sent; read_committed consumers never see what was."""
        await self._session.abort_transaction()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Producer"]:
        """`async with producer.transaction():` begins one, commits it, and aborts it if anything was raised."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self._session.can_abort:
                await self.abort_transaction()
            raise


class _LoopWaiting:
    """The user's task waits for a future; the client loop is the same event loop."""

    def __init__(self, network: AsyncioNetwork) -> None:
        self._loop = network.loop
        self.now_ms = network.now_ms
        self.post = network.call_soon

    def in_loop(self, callback: Callable[[], T]) -> T:
        return callback()

    def refuse_in_loop(self, what: str) -> None:
        pass  # a task that waits blocks nothing

    async def outcome(self, start: Callable[[Callable[[T], None]], None], timeout_ms: int | None) -> list[T]:
        future: asyncio.Future[list[T]] = self._loop.create_future()

        def settle(outcome: list[T]) -> None:
            if not future.done():
                future.set_result(outcome)

        start(lambda outcome: settle([outcome]))
        timer = None if timeout_ms is None else self._loop.call_later(timeout_ms / 1000, settle, [])
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()

    async def let_others_run(self) -> None:
        await asyncio.sleep(0)

    def failure(self) -> ClientError | None:
        return None


def _not_served(*_: object, **__: object) -> None:
    """The slow path of FastAppend: None says that the caller has to append the record itself."""
