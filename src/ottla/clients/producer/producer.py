"""The blocking producer: what users' threads call. The core does the rest, in a thread of its own.

Importing this module imports next to nothing; the first producer imports the core.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from time import time_ns
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from os import PathLike
    from typing import Any

    from ottla.clients import config as configs
    from ottla.clients import errors
    from ottla.clients.cluster_view import PartitionInfo
    from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
    from ottla.clients.network import threaded
    from ottla.clients.producer import core as cores
    from ottla.clients.producer import fast_append as fast_appends
    from ottla.clients.producer import handle as handles
    from ottla.clients.producer import interceptors, keys, serializers, tables
    from ottla.clients.producer import session as sessions
    from ottla.clients.producer.core import ProducerCounts
    from ottla.core.types import TimestampMs, TopicPartition
else:
    from ottla.core.lazy_module import LazyModule

    configs = LazyModule("ottla.clients.config")
    errors = LazyModule("ottla.clients.errors")
    threaded = LazyModule("ottla.clients.network.threaded")
    cores = LazyModule("ottla.clients.producer.core")
    fast_appends = LazyModule("ottla.clients.producer.fast_append")
    handles = LazyModule("ottla.clients.producer.handle")
    interceptors = LazyModule("ottla.clients.producer.interceptors")
    keys = LazyModule("ottla.clients.producer.keys")
    serializers = LazyModule("ottla.clients.producer.serializers")
    sessions = LazyModule("ottla.clients.producer.session")
    tables = LazyModule("ottla.clients.producer.tables")

T = TypeVar("T")


class Producer:
    """Sends records to topics; all threads of a program can share one.

    Creating it starts a thread; `close` sends what is left and ends the thread. Records are lost if the program ends
    without `flush` or `close`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        """Kafka's keys, in a dict or as keywords with underscores; ConfigError lists every problem."""
        self._start(configs.ClientConfig.parse(keys.PRODUCER_DEFINITION, config, **keywords))

    @classmethod
    def from_properties(
        cls, path: str | PathLike[str], /, config: Mapping[str, Any] | None = None, **keywords: Any
    ) -> Producer:
        """From a properties file, with `config` and keywords on top; unknown keys in the file give a warning."""
        producer = cls.__new__(cls)
        producer._start(configs.ClientConfig.from_properties(keys.PRODUCER_DEFINITION, path, config, **keywords))
        return producer

    def _start(self, config: configs.ClientConfig) -> None:
        self.config = config
        self._network = self._new_network(config)
        self._core = cores.ProducerCore(self._network, config)
        self._network.on_broken.append(self._core.broken)
        self._session = sessions.ProducerSession(self._core, _ThreadWaiting(self._network))
        self._topics = self._core.accumulator.topics
        self._append = self._core.accumulator.append
        self._converts = self._core.converts
        self._close_lock = threading.Lock()
        is_plain = not self._converts and self._core.accumulator.has_default_partitioner
        # The `send` of a subclass is called for every record.
        if is_plain and type(self).send is Producer.send:
            fast_append = fast_appends.new_fast_append(self._topics, handles.SendHandle, self.send)
            if fast_append is not None:
                # The usual record needs no Python; FastAppend passes every other one to `send`.
                self.send = fast_append.send  # type: ignore[method-assign]
        self._network.start()

    def _new_network(self, config: configs.ClientConfig) -> threaded.ThreadNetwork:
        return threaded.ThreadNetwork(config.bootstrap, client_id=config.client_id, settings=config.network_settings())

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: TimestampMs | None = None,
        on_delivery: Callable[[handles.SendHandle], None] | None = None,
    ) -> handles.SendHandle:
        """Send a record and return at once; the handle has its outcome.

        Waits only for the metadata of a new topic and for memory, `max.block.ms` at most, then raises `TimedOut`.
        `on_delivery(handle)` runs in the producer's thread. None as a value deletes the key in a compacted topic.
        """
        core = self._core
        if self._converts:
            topic, value, key, headers, partition, timestamp_ms = core.prepare(
                interceptors.ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
            )
        if value.__class__ is not bytes:
            value = cores.checked_bytes(topic, "value", value)
        if key.__class__ is not bytes:
            key = cores.checked_bytes(topic, "key", key)
        headers = serializers.checked_headers(topic, headers) if headers else ()
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        queues = self._topics.get(topic)
        handle = None
        if queues is not None:
            handle = self._append(queues, partition, key, value, headers, timestamp_ms)
        if handle is None:
            handle = self._run(self._session.append(topic, partition, key, value, headers, timestamp_ms))
        if on_delivery is not None:
            handle.add_callback(on_delivery)
        if core.interceptors is not None:
            handle.add_callback(core.interceptors.on_acknowledgement)
        return handle

    def send_arrow(self, topic: str, table: Any) -> tables.TableHandle:
        """Send all rows of an Arrow table, record batch or reader; needs the extra `columns`.

        Columns: value, and optionally key, headers, partition, timestamp. Waits for memory as `send` does.
        """
        return tables.TableHandle(self._run(self._session.append_table(topic, table)))

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything now, and wait until all of it is delivered or failed; then all callbacks have run.

        Each handle says whether its record was delivered. TimedOut if it takes longer than `timeout_ms`.
        """
        self._run(self._session.flush(timeout_ms))

    def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records, deliver the rest, and end the thread. A second call does nothing.

        After `timeout_ms` what is left fails with `ProducerClosed`. Inside a callback it does not wait.
        """
        with self._close_lock:
            if self._session.is_closed:
                return
            self._session.is_closed = True
        try:
            self._run(self._session.close(timeout_ms, may_wait=not self._network.is_in_loop))
        finally:
            self._network.close()

    def counts(self) -> ProducerCounts:
        """What was delivered and what failed so far; cheap, and exact for everything before the last `flush`."""
        return self._core.counts()

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[PartitionInfo]:
        """The partitions of a topic, with leaders and replicas; waits for it as `send` does, or for `timeout_ms`."""
        return self._run(self._session.partitions_for(topic, timeout_ms))

    # Transactions

    def init_transactions(self) -> None:
        """Call it once, before the first transaction: fences older producers of this id and ends their transaction."""
        self._run(self._session.init_transactions())

    def begin_transaction(self) -> None:
        self._run(self._session.begin_transaction())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commit a consumer's offsets with the transaction; `group` is `consumer.group_metadata()`, or only an id."""
        self._run(self._session.send_offsets(offsets, group))

    def commit_transaction(self) -> None:
        """Deliver everything that was sent in it, then commit; `TransactionMustAbort` if a record failed."""
        self._run(self._session.commit_transaction())

    def abort_transaction(self) -> None:
        """Drop what was not sent; read_committed consumers never see what was."""
        self._run(self._session.abort_transaction())

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """`with producer.transaction():` begins one, commits it at the end, and aborts it if anything was raised."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            if self._session.can_abort:
                self.abort_transaction()
            raise

    def _run(self, call: Coroutine[Any, None, T]) -> T:
        """Run a coroutine of the session to its end: where it waits, this thread blocks."""
        try:
            call.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError("a blocking producer's session never suspends")


class _ThreadWaiting:
    """The user's thread waits for an event that the client's thread sets."""

    def __init__(self, network: threaded.ThreadNetwork) -> None:
        self._network = network
        self.now_ms = network.now_ms
        self.in_loop = network.call
        self.post = network.post

    def refuse_in_loop(self, what: str) -> None:
        if self._network.is_in_loop:
            raise errors.ClientError(
                f"{what} would wait for the producer's own thread; it can't be called in a callback"
            )

    async def outcome(self, start: Callable[[Callable[[T], None]], None], timeout_ms: int | None) -> list[T]:
        outcomes: list[T] = []
        event = threading.Event()

        def done(outcome: T) -> None:
            outcomes.append(outcome)
            event.set()

        start(done)
        event.wait(None if timeout_ms is None else timeout_ms / 1000)
        return outcomes

    async def let_others_run(self) -> None:
        pass

    def failure(self) -> errors.ClientError | None:
        return self._network.failure
