"""The blocking consumer: `with Consumer({...}) as consumer: consumer.subscribe([...]); consumer.poll(timeout_ms=500)`.

A thin layer: `session.py` implements the calls, `core.py` the background work on the client's own thread.
Importing this module imports next to nothing; the first consumer imports the rest.
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
        """Runs in the client loop."""
        self._is_set = True

    def wake_from_outside(self) -> None:
        self._network.post(self.wake)

    async def wait(self, timeout_ms: int) -> None:
        self._network.run(lambda: self._is_set, timeout_ms)

    def failure(self) -> errors.ClientError | None:
        return self._network.failure


class Consumer:
    """For one thread at a time: a second thread during a call raises `ConcurrentUse`; only `wakeup` may be called from
    anywhere. Settings are Kafka's keys, as a mapping or as keywords with underscores. `close` it.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self._start(configs.ClientConfig.parse(keys.CONSUMER_DEFINITION, settings, **keywords))

    @classmethod
    def from_properties(
        cls, path: str | Path, settings: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> Consumer:
        """From a properties file; keys that are not a consumer's only give a warning."""
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
            self._network.close()  # a deserializer or an interceptor could not be created
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
        """The next records, `max.poll.records` at most; waits for them up to `timeout_ms`.

        Rebalances happen here: call it at least every `max.poll.interval.ms`, or this member leaves the group.
        """
        return self._run(self._session.poll(timeout_ms, max_records))

    def poll_arrow(self, timeout_ms: int = 500, *, with_headers: bool = False) -> pyarrow.RecordBatch | None:
        """The next records of one partition as a `pyarrow.RecordBatch` in the schema of Spark's Kafka source; None if
        none came. Creates no Python object per record. Needs the extra `columns`.
        """
        from ottla.clients.consumer.arrow import decode_arrow

        wanted = self.poll_fetched(timeout_ms)
        return decode_arrow(wanted, with_headers=with_headers, check_crcs=self.config.get_bool("check.crcs"))

    def poll_fetched(self, timeout_ms: int = 500) -> WantedBatches | None:
        """The next batches of one partition as they were fetched, for callers that decode them themselves."""
        return self._run(self._session.poll_fetched(timeout_ms))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record by record, without end. An automatic commit includes a record only after the next poll."""
        while True:
            yield from self.poll()

    def wakeup(self) -> None:
        """From any thread: make the call that waits now, or the next one, raise `WokenUp`."""
        self._session.is_woken = True
        self._waiting.wake_from_outside()

    # What to read.

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Topics by name, or all that a compiled pattern matches now and later; the group assigns the partitions.

        Replaces the subscription before it. Not together with `assign`.
        """
        self._run(self._session.subscribe(topics, listener))

    def unsubscribe(self) -> None:
        """Give up all topics or partitions, and leave the group."""
        self._run(self._session.unsubscribe())

    def subscription(self) -> set[str]:
        """The topics; for a pattern, those that it matches now."""
        subscription = self._core.subscription
        return set(subscription.topics) if subscription.is_of_group else set()

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group's rebalances. Not together with `subscribe`."""
        self._do(lambda: self._session.assign(topic_partitions))

    def assignment(self) -> set[TopicPartition]:
        return set(self._core.subscription.states)

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[TopicPartition]:
        """Raises `TimedOut` for a topic that does not appear in time."""
        count = self._run(self._session.partition_count(topic, timeout_ms))
        return [types.TopicPartition(topic, number) for number in range(count)]

    def leader_of(self, topic_partition: TopicPartition) -> BrokerId | None:
        """The leader of a partition in the current metadata; None if there is none, or for an unknown topic."""
        leader_id = self._core.metadata.leader_of(types.TopicPartition(*topic_partition))
        return None if leader_id == cluster_view.NO_LEADER else leader_id

    @property
    def unreachable(self) -> errors.ClientError | None:
        """Why no broker answers at the moment; None while one does. Poll retries in any case."""
        return self._core.metadata.failure

    def pause(self, *topic_partitions: TopicPartition) -> None:
        """Poll returns no records of them until `resume`; fetched records are kept. A rebalance ends the pause."""
        self._in_loop(lambda: self._core.set_paused(topic_partitions, is_paused=True))

    def resume(self, *topic_partitions: TopicPartition) -> None:
        self._in_loop(lambda: self._core.set_paused(topic_partitions, is_paused=False))

    def paused(self) -> set[TopicPartition]:
        return {topic_partition for topic_partition, state in self._core.subscription.states.items() if state.is_paused}

    # From where.

    def seek(
        self, topic_partition: TopicPartition, offset: Offset | OffsetAndMetadata, *, until: Offset | None = None
    ) -> None:
        """Poll continues from there. With `until`, the consumer fetches only up to that offset, but also returns
        further records that an answer has.
        """
        self._in_loop(
            lambda: self._core.seek(types.TopicPartition(*topic_partition), checked_offset(offset), until=until)
        )

    def seek_to_beginning(self, *topic_partitions: TopicPartition) -> None:
        """All assigned partitions by default; the offset is looked up when poll or `position` needs it."""
        self._in_loop(lambda: self._core.seek_by(topic_partitions or self.assignment(), reset.EARLIEST))

    def seek_to_end(self, *topic_partitions: TopicPartition) -> None:
        self._in_loop(lambda: self._core.seek_by(topic_partitions or self.assignment(), reset.LATEST))

    def seek_to_time(
        self, timestamp_ms: TimestampMs, *topic_partitions: TopicPartition, timeout_ms: int | None = None
    ) -> None:
        """To the first record at or after a time, or to the end if there is none."""
        wanted = topic_partitions or tuple(self.assignment())
        found = self.offsets_for_times(dict.fromkeys(wanted, timestamp_ms), timeout_ms=timeout_ms)
        for topic_partition, offset in found.items():
            if offset is None:
                self.seek_to_end(topic_partition)
            else:
                self.seek(topic_partition, values.OffsetAndMetadata(offset.offset, "", offset.leader_epoch))

    def position(self, topic_partition: TopicPartition, timeout_ms: int | None = None) -> Offset:
        """The next offset that poll returns."""
        return self._run(self._session.position(topic_partition, timeout_ms))

    def beginning_offsets(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        return self._run(self._session.ends(topic_partitions, timeout_ms, is_beginning=True))

    def end_offsets(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        """The offset after the last record; with read_committed, the last stable offset."""
        return self._run(self._session.ends(topic_partitions, timeout_ms, is_beginning=False))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, TimestampMs], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None if there is none."""
        return self._run(self._session.find_offsets(timestamps, timeout_ms))

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Records from the position to the end as of the last fetch; None before the first one."""
        return self._in_loop(lambda: self._core.lag_of(types.TopicPartition(*topic_partition)))

    # Committing.

    def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commit all that poll has returned, or these offsets (the next ones to read). Waits and retries."""
        self._run(self._session.commit(offsets, timeout_ms))

    def commit_async(self, offsets: Offsets | None = None, callback: session.OnCommit | None = None) -> None:
        """The same without waiting and without retries; commits stay in order. `callback(offsets, error or None)` runs
        in a later poll or close.
        """
        self._do(lambda: self._session.commit_async(offsets, callback))

    def committed(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None for partitions without a commit."""
        return self._run(self._session.committed(topic_partitions, timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        """For `Producer.send_offsets_to_transaction`."""
        return self._in_loop(self._core.identity)

    def enforce_rebalance(self, reason: str = "enforce_rebalance was called") -> None:
        """Make the group rebalance; it happens in later polls."""
        self._in_loop(lambda: self._core.enforce_rebalance(reason))

    # The end.

    def close(self, timeout_ms: int = 30_000) -> None:
        """Commit if commits are automatic, revoke all partitions, leave the group. A second call does nothing."""
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
        """Run a coroutine of the session to its end: where it waits, this thread blocks."""
        if not self._use.acquire(blocking=False):
            call.close()
            raise consumer_errors.ConcurrentUse(
                "the consumer is in use by another thread; use one per thread, or a lock"
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
        raise ValueError(f"seek to {taken.offset}: an offset can't be below 0")
    return taken
