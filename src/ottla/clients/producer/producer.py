"""The blocking face of a producer: what users' threads call. All behind it is the core's, in a thread of its own.

Importing it imports next to nothing; the core comes with the first producer that is made.
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
    from ottla.clients.producer import gate as gates
    from ottla.clients.producer import handle as handles
    from ottla.clients.producer import interceptors, keys, serializers, tables
    from ottla.clients.producer import session as sessions
    from ottla.clients.producer.counts import ProducerCounts
    from ottla.core.types import TimestampMs, TopicPartition
else:
    from ottla.core.lazy_module import LazyModule

    configs = LazyModule("ottla.clients.config")
    errors = LazyModule("ottla.clients.errors")
    threaded = LazyModule("ottla.clients.network.threaded")
    cores = LazyModule("ottla.clients.producer.core")
    gates = LazyModule("ottla.clients.producer.gate")
    handles = LazyModule("ottla.clients.producer.handle")
    interceptors = LazyModule("ottla.clients.producer.interceptors")
    keys = LazyModule("ottla.clients.producer.keys")
    serializers = LazyModule("ottla.clients.producer.serializers")
    sessions = LazyModule("ottla.clients.producer.session")
    tables = LazyModule("ottla.clients.producer.tables")

T = TypeVar("T")


class Producer:
    """Sends records to topics; one for a whole program, used by all of its threads.

    Lives from its making, which starts a thread, until `close`, which sends what is left. What was not flushed or
    closed is lost when the program ends.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        """Kafka's keys, in a dict or as keywords with underscores; ConfigError names everything that is wrong."""
        self._start(configs.ClientConfig.parse(keys.PRODUCER_DEFINITION, config, **keywords))

    @classmethod
    def from_properties(
        cls, path: str | PathLike[str], /, config: Mapping[str, Any] | None = None, **keywords: Any
    ) -> Producer:
        """From a Java-style file, with `config` and keywords on top; unknown keys in the file are warned of."""
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
        is_plain = not self._converts and self._core.accumulator.places_by_default
        # A subclass that has a `send` of its own is called for every record.
        if is_plain and type(self).send is Producer.send:
            gate = gates.new_gate(self._topics, handles.SendHandle, self.send)
            if gate is not None:
                # The usual record needs no Python at all; every other one comes back to `send`.
                self.send = gate.send  # type: ignore[method-assign]
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
        """Put a record on its way and return at once; the handle tells what became of it.

        Waits only for the metadata of a new topic and for memory, `max.block.ms` at most, then raises `TimedOut`.
        `on_delivery(handle)` is called in the producer's thread. None as a value deletes the key in a compacted topic.
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
        """Put all rows of an Arrow table, record batch or reader on their way; needs the extra `columns`.

        Columns: value, and if there are key, headers, partition, timestamp. Waits for memory as `send` does.
        """
        return tables.TableHandle(self._run(self._session.append_table(topic, table)))

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything now, and wait until all of it is delivered or given up; callbacks have run then.

        Whether it was delivered is each handle's to tell. TimedOut if it takes longer than `timeout_ms`.
        """
        self._run(self._session.flush(timeout_ms))

    def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records, deliver those there are, and end the thread. Doing it twice does nothing.

        After `timeout_ms` what is left is given up with `ProducerClosed`. Inside a callback nothing is waited for.
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
        """What was delivered and what was given up so far; cheap, and right for all that a `flush` has waited for."""
        return self._core.counts()

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[PartitionInfo]:
        """The partitions of a topic, with leaders and replicas; waits for it as `send` does, or for so long."""
        return self._run(self._session.partitions_for(topic, timeout_ms))

    # Transactions

    def init_transactions(self) -> None:
        """Once, before the first transaction: fences earlier producers of the same id, ends what they left open."""
        self._run(self._session.init_transactions())

    def begin_transaction(self) -> None:
        self._run(self._session.begin_transaction())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commit a consumer's offsets with the transaction; `group` is `consumer.group_metadata()`, or an id alone."""
        self._run(self._session.send_offsets(offsets, group))

    def commit_transaction(self) -> None:
        """Deliver everything that was sent in it, then make it visible; `TransactionMustAbort` if some failed."""
        self._run(self._session.commit_transaction())

    def abort_transaction(self) -> None:
        """Drop what was not sent; what was is never seen by readers of committed records."""
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
        """To its end: where a coroutine of the session waits, this thread blocks."""
        try:
            call.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError("a blocking producer's session never suspends")


class _ThreadWaiting:
    """A user's thread waits for an event that the client's thread sets."""

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
