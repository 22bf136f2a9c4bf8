"""The asyncio consumer: the methods of the blocking one, with `await` where a call may wait; all in one event loop.

A thin layer over `session.py`; the event loop is the client loop.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.clients.cluster_view import NO_LEADER
from ottla.clients.config import ClientConfig
from ottla.clients.consumer.consumer import checked_offset, make_metadata, wall_ms
from ottla.clients.consumer.core import ConsumerCore
from ottla.clients.consumer.errors import ConcurrentUse
from ottla.clients.consumer.keys import CONSUMER_DEFINITION
from ottla.clients.consumer.listener import RebalanceListener
from ottla.clients.consumer.reset import EARLIEST, LATEST
from ottla.clients.consumer.session import OnCommit, Session
from ottla.clients.consumer.values import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
)
from ottla.clients.errors import ClientClosed, ClientError
from ottla.clients.network.asyncio_network import AsyncioNetwork
from ottla.core.types import BrokerId, Offset, TimestampMs, TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

T = TypeVar("T")


class _LoopWaiting:
    """The user's task waits for a future; the client loop is the same event loop."""

    def __init__(self, network: AsyncioNetwork) -> None:
        self._loop = network.loop
        self._is_set = False
        self._future: asyncio.Future[None] | None = None
        self.now_ms = network.now_ms
        self.post = network.call_soon

    def in_loop(self, callback: Callable[[], T]) -> T:
        return callback()

    def clear(self) -> None:
        self._is_set = False

    def wake(self) -> None:
        self._is_set = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, timeout_ms: int) -> None:
        if self._is_set:
            await asyncio.sleep(0)
            return
        self._future = self._loop.create_future()
        timer = self._loop.call_later(timeout_ms / 1000, self.wake)
        try:
            await self._future
        finally:
            timer.cancel()
            self._future = None

    def failure(self) -> ClientError | None:
        return None


class Consumer:
    """Create and use it within one event loop, in one task at a time: a second task during a call raises
    `ConcurrentUse`; only `wakeup` may be called from anywhere. `await close()` it, or use `async with`.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self._start(ClientConfig.parse(CONSUMER_DEFINITION, settings, **keywords))

    @classmethod
    def from_properties(
        cls, path: "str | Path", settings: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> "Consumer":
        """From a properties file; keys that are not a consumer's only give a warning."""
        consumer = cls.__new__(cls)
        consumer._start(ClientConfig.from_properties(CONSUMER_DEFINITION, path, settings, **keywords))
        return consumer

    def _start(self, config: ClientConfig) -> None:
        self.config = config
        self._owner: asyncio.Task[Any] | None = None
        self._network = AsyncioNetwork(config.bootstrap, client_id=config.client_id, settings=config.network_settings())
        self._waiting = _LoopWaiting(self._network)
        metadata = make_metadata(self._network, config)
        self._core = ConsumerCore(
            self._network,
            metadata,
            config,
            wall_ms=wall_ms,
            hand_over=self._waiting.post,
            on_attention=self._waiting.wake,
        )
        self._session = Session(self._core, config, self._waiting)

    # Reading.

    async def poll(self, timeout_ms: int = 500, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records; waits for them up to `timeout_ms`. Rebalances happen here."""
        with self._sole_use():
            return await self._session.poll(timeout_ms, max_records)

    async def poll_arrow(self, timeout_ms: int = 500, *, with_headers: bool = False) -> "pyarrow.RecordBatch | None":
        """The next records of one partition as a `pyarrow.RecordBatch`; None if none came."""
        from ottla.clients.consumer.arrow import decode_arrow

        with self._sole_use():
            wanted = await self._session.poll_fetched(timeout_ms)
        return decode_arrow(wanted, with_headers=with_headers, check_crcs=self.config.get_bool("check.crcs"))

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            for record in await self.poll():
                yield record

    def wakeup(self) -> None:
        """From any thread: make the call that waits now, or the next one, raise `WokenUp`."""
        self._session.is_woken = True
        self._network.post(self._waiting.wake)

    # What to read.

    async def subscribe(
        self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Topics by name, or all that a compiled pattern matches now and later. Methods of the listener may be
        coroutines.
        """
        with self._sole_use():
            await self._session.subscribe(topics, listener)

    async def unsubscribe(self) -> None:
        with self._sole_use():
            await self._session.unsubscribe()

    def subscription(self) -> set[str]:
        subscription = self._core.subscription
        return set(subscription.topics) if subscription.is_of_group else set()

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        with self._sole_use():
            self._session.assign(topic_partitions)

    def assignment(self) -> set[TopicPartition]:
        return set(self._core.subscription.states)

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[TopicPartition]:
        with self._sole_use():
            count = await self._session.partition_count(topic, timeout_ms)
        return [TopicPartition(topic, number) for number in range(count)]

    def leader_of(self, topic_partition: TopicPartition) -> BrokerId | None:
        leader_id = self._core.metadata.leader_of(TopicPartition(*topic_partition))
        return None if leader_id == NO_LEADER else leader_id

    @property
    def unreachable(self) -> ClientError | None:
        return self._core.metadata.failure

    def pause(self, *topic_partitions: TopicPartition) -> None:
        with self._sole_use():
            self._core.set_paused(topic_partitions, is_paused=True)

    def resume(self, *topic_partitions: TopicPartition) -> None:
        with self._sole_use():
            self._core.set_paused(topic_partitions, is_paused=False)

    def paused(self) -> set[TopicPartition]:
        return {topic_partition for topic_partition, state in self._core.subscription.states.items() if state.is_paused}

    # From where.

    def seek(
        self, topic_partition: TopicPartition, offset: Offset | OffsetAndMetadata, *, until: Offset | None = None
    ) -> None:
        """With `until`, fetch only up to that offset."""
        with self._sole_use():
            self._core.seek(TopicPartition(*topic_partition), checked_offset(offset), until=until)

    def seek_to_beginning(self, *topic_partitions: TopicPartition) -> None:
        with self._sole_use():
            self._core.seek_by(topic_partitions or self.assignment(), EARLIEST)

    def seek_to_end(self, *topic_partitions: TopicPartition) -> None:
        with self._sole_use():
            self._core.seek_by(topic_partitions or self.assignment(), LATEST)

    async def seek_to_time(
        self, timestamp_ms: TimestampMs, *topic_partitions: TopicPartition, timeout_ms: int | None = None
    ) -> None:
        wanted = topic_partitions or tuple(self.assignment())
        found = await self.offsets_for_times(dict.fromkeys(wanted, timestamp_ms), timeout_ms=timeout_ms)
        for topic_partition, offset in found.items():
            if offset is None:
                self.seek_to_end(topic_partition)
            else:
                self.seek(topic_partition, OffsetAndMetadata(offset.offset, "", offset.leader_epoch))

    async def position(self, topic_partition: TopicPartition, timeout_ms: int | None = None) -> Offset:
        with self._sole_use():
            return await self._session.position(topic_partition, timeout_ms)

    async def beginning_offsets(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        with self._sole_use():
            return await self._session.ends(topic_partitions, timeout_ms, is_beginning=True)

    async def end_offsets(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        with self._sole_use():
            return await self._session.ends(topic_partitions, timeout_ms, is_beginning=False)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, TimestampMs], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        with self._sole_use():
            return await self._session.find_offsets(timestamps, timeout_ms)

    def lag(self, topic_partition: TopicPartition) -> int | None:
        return self._core.lag_of(TopicPartition(*topic_partition))

    # Committing.

    async def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        with self._sole_use():
            await self._session.commit(offsets, timeout_ms)

    def commit_async(self, offsets: Offsets | None = None, callback: OnCommit | None = None) -> None:
        with self._sole_use():
            self._session.commit_async(offsets, callback)

    async def committed(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        with self._sole_use():
            return await self._session.committed(topic_partitions, timeout_ms)

    def group_metadata(self) -> GroupMetadata:
        return self._core.identity()

    def enforce_rebalance(self, reason: str = "enforce_rebalance was called") -> None:
        self._core.enforce_rebalance(reason)

    # The end.

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Commit if commits are automatic, revoke all partitions, leave the group. A second call does nothing."""
        if self._session.is_closed:
            return
        with self._sole_use():
            try:
                await self._session.close(timeout_ms)
            finally:
                await self._network.close()

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @contextmanager
    def _sole_use(self) -> Iterator[None]:
        """One task at a time; a listener runs in the task that polls and may call the consumer."""
        if self._session.is_closed:
            raise ClientClosed("the consumer is closed")
        task = asyncio.current_task()
        before = self._owner
        if before is not None and before is not task:
            raise ConcurrentUse("the consumer is in use by another task; use one per task, or a lock")
        self._owner = task
        try:
            yield
        finally:
            self._owner = before
