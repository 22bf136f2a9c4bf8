"""The blocking consumer: `with Consumer({...}) as consumer: consumer.subscribe([...]); consumer.poll(timeout_ms=500)`.

A thin face: what the calls do is `session.py`, what happens in the background is `core.py` on the client's own thread.
Importing it imports next to nothing; the rest comes with the first consumer that is made.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    import pyarrow

    from ottla.clients import cluster_view, errors
    from ottla.clients import config as configs
    from ottla.clients.consumer import core as cores
    from ottla.clients.consumer import errors as consumer_errors
    from ottla.clients.consumer import keys, reset, session, values
    from ottla.clients.consumer.listener import RebalanceListener
    from ottla.clients.consumer.values import (
        ConsumerRecord,
        GroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        Offsets,
    )
    from ottla.clients.fetched_batches import WantedBatches
    from ottla.clients.network import caller_driven
    from ottla.clients.network import metadata as metadatas
    from ottla.core import types
    from ottla.core.types import BrokerId, Offset, TimestampMs, TopicPartition
else:
    from ottla.core.lazy_module import LazyModule

    configs = LazyModule("ottla.clients.config")
    errors = LazyModule("ottla.clients.errors")
    cores = LazyModule("ottla.clients.consumer.core")
    keys = LazyModule("ottla.clients.consumer.keys")
    reset = LazyModule("ottla.clients.consumer.reset")
    session = LazyModule("ottla.clients.consumer.session")
    values = LazyModule("ottla.clients.consumer.values")
    consumer_errors = LazyModule("ottla.clients.consumer.errors")
    caller_driven = LazyModule("ottla.clients.network.caller_driven")
    metadatas = LazyModule("ottla.clients.network.metadata")
    cluster_view = LazyModule("ottla.clients.cluster_view")
    types = LazyModule("ottla.core.types")

T = TypeVar("T")


class _ThreadWaiting:
    """The user's thread is the client loop while it waits; see `CallerDrivenNetwork`."""

    def __init__(self, network: caller_driven.CallerDrivenNetwork) -> None:
        self._network = network
        self._is_set = False
        self.now_ms = network.now_ms
        self.in_loop = network.call

    def post(self, callback: Callable[[], None]) -> None:
        self._network.call(callback)

    def clear(self) -> None:
        self._is_set = False

    def wake(self) -> None:
        """In the loop."""
        self._is_set = True

    def wake_from_outside(self) -> None:
        self._network.post(self.wake)

    async def wait(self, timeout_ms: int) -> None:
        self._network.run(lambda: self._is_set, timeout_ms)

    def failure(self) -> errors.ClientError | None:
        return self._network.failure


class Consumer:
    """Owned by one thread at a time: use from a second one while a call runs raises `ConcurrentUse`; only `wakeup` may
    be called from anywhere. Settings are Kafka's keys, as a mapping or as keywords with underscores. `close` it.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self._start(configs.ClientConfig.parse(keys.CONSUMER_DEFINITION, settings, **keywords))

    @classmethod
    def from_properties(
        cls, path: str | Path, settings: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> Consumer:
        """From a properties file; keys that are not a consumer's are warned of only."""
        consumer = cls.__new__(cls)
        consumer._start(configs.ClientConfig.from_properties(keys.CONSUMER_DEFINITION, path, settings, **keywords))
        return consumer

    def _start(self, config: configs.ClientConfig) -> None:
        self.config = config
        self._use = threading.RLock()
        self._network = self._new_network(config)
        waiting = _ThreadWaiting(self._network)
        try:
            metadata = make_metadata(self._network, config)
            core = cores.ConsumerCore(
                self._network, metadata, config, wall_ms=wall_ms, hand_over=waiting.post, on_attention=waiting.wake
            )
            self._session = session.Session(core, config, waiting)
        except BaseException:
            self._network.close()  # a deserializer or an interceptor that can't be had
            raise
        self._core = core
        self._waiting = waiting
        self._network.start()

    def _new_network(self, config: configs.ClientConfig) -> caller_driven.CallerDrivenNetwork:
        return caller_driven.CallerDrivenNetwork(
            config.bootstrap, client_id=config.client_id, settings=config.network_settings()
        )

    # Reading.

    def poll(self, timeout_ms: int = 500, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, after waiting for them at most so long; `max.poll.records` of them at most.

        Rebalances happen here: call it at least every `max.poll.interval.ms`, or the group goes on without you.
        """
        return self._run(self._session.poll(timeout_ms, max_records))

    def poll_arrow(self, timeout_ms: int = 500, *, with_headers: bool = False) -> pyarrow.RecordBatch | None:
        """The next records of one partition as a `pyarrow.RecordBatch` in the schema of Spark's Kafka source; None when
        none came. No Python object is made per record. Needs the extra `columns`.
        """
        from ottla.clients.consumer.arrow import decode_arrow

        wanted = self.poll_fetched(timeout_ms)
        return decode_arrow(wanted, with_headers=with_headers, check_crcs=self.config.get_bool("check.crcs"))

    def poll_fetched(self, timeout_ms: int = 500) -> WantedBatches | None:
        """The next batches of one partition as they were fetched, for whoever decodes them in a way of its own."""
        return self._run(self._session.poll_fetched(timeout_ms))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record by record, without end. Automatic commits cover a record only when the next poll follows it."""
        while True:
            yield from self.poll()

    def wakeup(self) -> None:
        """From any thread: the call that waits now, or the next one, raises `WokenUp`."""
        self._session.is_woken = True
        self._waiting.wake_from_outside()

    # What to read.

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Topics by name, or all that a compiled pattern finds now and later; the group shares partitions out.

        Replaces the subscription before it. Excludes `assign`.
        """
        self._run(self._session.subscribe(topics, listener))

    def unsubscribe(self) -> None:
        """From topics or partitions; leaves the group."""
        self._run(self._session.unsubscribe())

    def subscription(self) -> set[str]:
        """The topics; of a pattern, those that it means now."""
        subscription = self._core.subscription
        return set(subscription.topics) if subscription.is_of_group else set()

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """These partitions, by hand and without a group's rebalances. Excludes `subscribe`."""
        self._do(lambda: self._session.assign(topic_partitions))

    def assignment(self) -> set[TopicPartition]:
        return set(self._core.subscription.states)

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[TopicPartition]:
        """Raises `TimedOut` for a topic that doesn't turn up."""
        count = self._run(self._session.partition_count(topic, timeout_ms))
        return [types.TopicPartition(topic, number) for number in range(count)]

    def leader_of(self, topic_partition: TopicPartition) -> BrokerId | None:
        """The broker that leads a partition, by what is known now; None without one, or for a topic not in view."""
        leader_id = self._core.metadata.leader_of(types.TopicPartition(*topic_partition))
        return None if leader_id == cluster_view.NO_LEADER else leader_id

    @property
    def unreachable(self) -> errors.ClientError | None:
        """Why no broker answers at the moment; None while one does. Poll goes on trying all the same."""
        return self._core.metadata.failure

    def pause(self, *topic_partitions: TopicPartition) -> None:
        """Poll returns nothing of them until `resume`; what was fetched is kept. A rebalance forgets it."""
        self._in_loop(lambda: self._core.set_paused(topic_partitions, is_paused=True))

    def resume(self, *topic_partitions: TopicPartition) -> None:
        self._in_loop(lambda: self._core.set_paused(topic_partitions, is_paused=False))

    def paused(self) -> set[TopicPartition]:
        return {topic_partition for topic_partition, state in self._core.subscription.states.items() if state.is_paused}

    # From where.

    def seek(
        self, topic_partition: TopicPartition, offset: Offset | OffsetAndMetadata, *, until: Offset | None = None
    ) -> None:
        """Poll goes on from there. With `until`, no more is asked for than leads up to that offset; what an answer
        brings beyond it is handed out all the same.
        """
        self._in_loop(
            lambda: self._core.seek(types.TopicPartition(*topic_partition), checked_offset(offset), until=until)
        )

    def seek_to_beginning(self, *topic_partitions: TopicPartition) -> None:
        """All that are assigned unless some are given; found when poll or `position` needs it."""
        self._in_loop(lambda: self._core.seek_by(topic_partitions or self.assignment(), reset.EARLIEST))

    def seek_to_end(self, *topic_partitions: TopicPartition) -> None:
        self._in_loop(lambda: self._core.seek_by(topic_partitions or self.assignment(), reset.LATEST))

    def seek_to_time(
        self, timestamp_ms: TimestampMs, *topic_partitions: TopicPartition, timeout_ms: int | None = None
    ) -> None:
        """To the first record at or after a time, or to the end where there is none."""
        wanted = topic_partitions or tuple(self.assignment())
        found = self.offsets_for_times(dict.fromkeys(wanted, timestamp_ms), timeout_ms=timeout_ms)
        for topic_partition, offset in found.items():
            if offset is None:
                self.seek_to_end(topic_partition)
            else:
                self.seek(topic_partition, values.OffsetAndMetadata(offset.offset, "", offset.leader_epoch))

    def position(self, topic_partition: TopicPartition, timeout_ms: int | None = None) -> Offset:
        """The offset that poll returns next."""
        return self._run(self._session.position(topic_partition, timeout_ms))

    def beginning_offsets(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        return self._run(self._session.ends(topic_partitions, timeout_ms, is_beginning=True))

    def end_offsets(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        """One beyond the last record; with read_committed, beyond the last that is decided."""
        return self._run(self._session.ends(topic_partitions, timeout_ms, is_beginning=False))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, TimestampMs], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        return self._run(self._session.find_offsets(timestamps, timeout_ms))

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Records from the position to the end that the last fetch saw; None before the first one."""
        return self._in_loop(lambda: self._core.lag_of(types.TopicPartition(*topic_partition)))

    # Committing.

    def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """All that poll has returned, or these offsets: each the next one to read. Waits; retries what can pass."""
        self._run(self._session.commit(offsets, timeout_ms))

    def commit_async(self, offsets: Offsets | None = None, callback: session.OnCommit | None = None) -> None:
        """The same without waiting, tried once; commits stay in order. `callback(offsets, error or None)` runs within
        a later poll or close.
        """
        self._do(lambda: self._session.commit_async(offsets, callback))

    def committed(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing is."""
        return self._run(self._session.committed(topic_partitions, timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        """For `Producer.send_offsets_to_transaction`."""
        return self._in_loop(self._core.identity)

    def enforce_rebalance(self, reason: str = "enforce_rebalance was called") -> None:
        """Let the group share its partitions out anew; happens in later polls."""
        self._in_loop(lambda: self._core.enforce_rebalance(reason))

    # The end.

    def close(self, timeout_ms: int = 30_000) -> None:
        """Commit if that is automatic, tell the listener that all is revoked, leave the group. Twice does nothing."""
        if self._session.is_closed:
            return
        try:
            self._run(self._session.close(timeout_ms))
        finally:
            if self._session.is_closed:
                self._network.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # One user at a time.

    def _run(self, call: Coroutine[Any, None, T]) -> T:
        """To its end: where a coroutine of the session waits, this thread blocks."""
        if not self._use.acquire(blocking=False):
            call.close()
            raise consumer_errors.ConcurrentUse(
                "the consumer is in use by another thread; have one per thread, or a lock around it"
            )
        try:
            call.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            self._use.release()
        call.close()
        raise TypeError("a blocking consumer's listener must not return an awaitable; use ottla.aio for that")

    def _do(self, call: Callable[[], T]) -> T:
        async def run() -> T:
            return call()

        return self._run(run())

    def _in_loop(self, call: Callable[[], T]) -> T:
        if self._session.is_closed:
            raise errors.ClientClosed("the consumer is closed")
        return self._do(lambda: self._network.call(call))


def make_metadata(network: Any, config: configs.ClientConfig) -> metadatas.Metadata:
    return metadatas.Metadata(
        network,
        max_age_ms=config.get_int("metadata.max.age.ms"),
        backoff_ms=config.get_int("retry.backoff.ms"),
        backoff_max_ms=config.get_int("retry.backoff.max.ms"),
        allow_auto_create=config.get_bool("allow.auto.create.topics"),
    )


def wall_ms() -> TimestampMs:
    return time.time_ns() // 1_000_000


def checked_offset(offset: Offset | OffsetAndMetadata) -> OffsetAndMetadata:
    taken = offset if isinstance(offset, values.OffsetAndMetadata) else values.OffsetAndMetadata(offset)
    if taken.offset < 0:
        raise ValueError(f"seek to {taken.offset}: an offset is never below 0")
    return taken
