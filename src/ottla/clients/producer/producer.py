"""The blocking face of a producer: what users' threads call. All behind it is the core's, in a thread of its own.

Importing it imports next to nothing; the core comes with the first producer that is made.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike
    from typing import Any

    from ottla.clients import config as configs
    from ottla.clients import errors
    from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
    from ottla.clients.network import threaded
    from ottla.clients.network.metadata import PartitionInfo
    from ottla.clients.producer import core, interceptors, keys, serializers, tables
    from ottla.clients.producer import errors as producer_errors
    from ottla.clients.producer import gate as gates
    from ottla.clients.producer import handle as handles
    from ottla.clients.producer.counts import ProducerCounts
    from ottla.clients.producer.topic_queues import TopicQueues
    from ottla.clients.producer.transactions import OnDone, Transactions
    from ottla.core.types import TimestampMs, TopicPartition
else:
    from ottla.core.lazy_module import LazyModule

    configs = LazyModule("ottla.clients.config")
    errors = LazyModule("ottla.clients.errors")
    threaded = LazyModule("ottla.clients.network.threaded")
    core = LazyModule("ottla.clients.producer.core")
    gates = LazyModule("ottla.clients.producer.gate")
    handles = LazyModule("ottla.clients.producer.handle")
    interceptors = LazyModule("ottla.clients.producer.interceptors")
    keys = LazyModule("ottla.clients.producer.keys")
    serializers = LazyModule("ottla.clients.producer.serializers")
    tables = LazyModule("ottla.clients.producer.tables")
    producer_errors = LazyModule("ottla.clients.producer.errors")

T = TypeVar("T")

# What the client loop may take beyond a timeout that it keeps itself, before it counts as stuck.
_GRACE_S = 5.0


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
        self._core = core.ProducerCore(self._network, config)
        self._network.on_broken.append(self._core.broken)
        self._max_block_ms = self._core.settings.max_block_ms
        self._accumulator = self._core.accumulator
        self._topics = self._accumulator.topics
        self._append = self._accumulator.append
        self._converts = self._core.converts
        self._close_lock = threading.Lock()
        self._is_closed = False
        if not self._converts and self._accumulator.places_by_default:
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
        intercepted = False
        if self._converts:
            record = self._core.prepare(
                interceptors.ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
            )
            topic, value, key, headers, partition, timestamp_ms = record
            intercepted = self._core.interceptors is not None
        if value.__class__ is not bytes:
            value = core.checked_bytes(topic, "value", value)
        if key.__class__ is not bytes:
            key = core.checked_bytes(topic, "key", key)
        headers = serializers.checked_headers(topic, headers) if headers else ()
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        queues = self._topics.get(topic)
        if queues is None:
            queues = self._find_topic(core.checked_topic(topic))
        handle = self._append(queues, partition, key, value, headers, timestamp_ms)
        if handle is None:
            handle = self._append_when_room(queues, partition, key, value, headers, timestamp_ms)
        if on_delivery is not None:
            handle.add_callback(on_delivery)
        if intercepted and self._core.interceptors is not None:
            handle.add_callback(self._core.interceptors.on_acknowledgement)
        return handle

    def send_arrow(self, topic: str, table: Any) -> tables.TableHandle:
        """Put all rows of an Arrow table, record batch or reader on their way; needs `ottla[columns]`.

        Columns: value, and if there are key, headers, partition, timestamp. Waits for memory as `send` does.
        """
        self._core.check_takes_tables()
        queues = self._topics.get(topic)
        if queues is None:
            queues = self._find_topic(core.checked_topic(topic))
        batches = []
        for partition, appender in tables.batches_of_table(table, queues, self._core.settings, time_ns() // 1_000_000):
            append = partial(self._accumulator.append_batch, queues, partition, appender)
            batches.append(self._when_room(queues, append))
        return tables.TableHandle(batches)

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything now, and wait until all of it is delivered or given up; callbacks have run then.

        Whether it was delivered is each handle's to tell. TimedOut if it takes longer than `timeout_ms`.
        """
        self._refuse_in_loop("flush")
        deadline = _deadline(timeout_ms)
        batches = self._accumulator.begin_flush()
        try:
            self._core.wake()
            for batch in batches:
                if not batch.wait(_left(deadline)):
                    undone = sum(not batch.is_done for batch in batches)
                    raise errors.TimedOut(
                        f"flush: {undone} of {len(batches)} batches still under way after {timeout_ms} ms"
                    )
        finally:
            self._accumulator.end_flush()

    def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records, deliver those there are, and end the thread. Doing it twice does nothing.

        After `timeout_ms` what is left is given up with `ProducerClosed`. Inside a callback nothing is waited for.
        """
        with self._close_lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            if not self._network.is_in_loop:
                self._abort_open_transaction(timeout_ms)
                self._core.refuse()
                self.flush(timeout_ms)
        except errors.TimedOut:
            pass  # given up below, each record with its own error
        finally:
            if self._network.failure is None:
                self._network.call(self._core.close)
            self._network.close()

    def counts(self) -> ProducerCounts:
        """What was delivered and what was given up so far; cheap, and right for all that a `flush` has waited for."""
        return self._core.counts()

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[PartitionInfo]:
        """The partitions of a topic, with leaders and replicas; waits for it as `send` does, or for so long."""
        if topic not in self._topics:
            self._find_topic(core.checked_topic(topic), timeout_ms)
        return list(self._core.metadata.partitions_of(topic))

    # Transactions

    def init_transactions(self) -> None:
        """Once, before the first transaction: fences earlier producers of the same id, ends what they left open."""
        self._wait_for("init_transactions", self._transactional("init_transactions").initialize)

    def begin_transaction(self) -> None:
        transactions = self._transactional("begin_transaction")
        self._network.call(transactions.begin)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commit a consumer's offsets with the transaction; `group` is `consumer.group_metadata()`, or an id alone."""
        transactions = self._transactional("send_offsets_to_transaction")
        full = core.full_offsets(offsets)
        metadata = core.group_of(group)
        if full:
            self._wait_for(
                "send_offsets_to_transaction", lambda on_done: transactions.send_offsets(full, metadata, on_done)
            )

    def commit_transaction(self) -> None:
        """Deliver everything that was sent in it, then make it visible; `TransactionMustAbort` if some failed."""
        self._wait_for("commit_transaction", self._transactional("commit_transaction").commit)

    def abort_transaction(self) -> None:
        """Drop what was not sent; what was is never seen by readers of committed records."""
        self._wait_for("abort_transaction", self._transactional("abort_transaction").abort)

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """`with producer.transaction():` begins one, commits it at the end, and aborts it if anything was raised."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            if self._transactional("abort_transaction").can_abort:
                self.abort_transaction()
            raise

    # Waiting

    def _find_topic(self, topic: str, timeout_ms: int | None = None) -> TopicQueues:
        limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms
        self._refuse_in_loop(f"send to {topic}, a topic that is new to this producer,")
        if self._is_closed:
            raise core.closed_error()
        outcome: list[TopicQueues | errors.ClientError] = []
        event = threading.Event()

        def known(found: TopicQueues | errors.ClientError) -> None:
            outcome.append(found)
            event.set()

        self._network.post(lambda: self._core.find_topic(topic, limit_ms, known))
        self._wait(event, limit_ms, f"topic {topic}: not known after {limit_ms} ms")
        found = outcome[0]
        if isinstance(found, errors.ClientError):
            raise found
        return found

    def _append_when_room(self, topic: TopicQueues, *record: Any) -> handles.SendHandle:
        return self._when_room(topic, lambda: self._append(topic, *record))

    def _when_room(self, topic: TopicQueues, append: Callable[[], T | None]) -> T:
        """Try until there is memory for it, `max.block.ms` at most."""
        appended = append()
        if appended is not None:
            return appended
        self._refuse_in_loop("send with buffer.memory used up")
        deadline = _deadline(self._max_block_ms)
        while True:
            event = threading.Event()
            self._accumulator.when_room(event.set)
            appended = append()
            if appended is not None:
                return appended
            if not event.wait(_left(deadline)):
                raise self._accumulator.exhausted_error(topic)

    def _abort_open_transaction(self, timeout_ms: int | None) -> None:
        transactions = self._core.transactions
        if transactions is not None and transactions.can_abort:
            try:
                self._wait_for("close", transactions.abort, timeout_ms)
            except errors.ClientError:
                pass  # its coordinator does it after transaction.timeout.ms

    def _wait_for(self, what: str, start: Callable[[OnDone], None], timeout_ms: int | None = None) -> None:
        """Run a step of a transaction in the client loop, and wait for its end."""
        self._refuse_in_loop(what)
        outcome: list[errors.ClientError | None] = []
        event = threading.Event()

        def done(error: errors.ClientError | None) -> None:
            outcome.append(error)
            event.set()

        self._network.call(lambda: start(done))
        limit_ms = self._max_block_ms if timeout_ms is None else min(timeout_ms, self._max_block_ms)
        if not event.wait(limit_ms / 1000):
            assert self._core.transactions is not None
            raise self._core.transactions.timed_out(what, limit_ms)
        if outcome[0] is not None:
            raise outcome[0]

    def _wait(self, event: threading.Event, timeout_ms: int, what: str) -> None:
        if not event.wait(timeout_ms / 1000 + _GRACE_S):
            raise self._network.failure or errors.TimedOut(what)

    def _transactional(self, what: str) -> Transactions:
        if self._core.transactions is None:
            raise producer_errors.InvalidTransactionState(f"{what}: the producer has no transactional.id")
        if self._is_closed:
            raise core.closed_error()
        return self._core.transactions

    def _refuse_in_loop(self, what: str) -> None:
        if self._network.is_in_loop:
            raise errors.ClientError(
                f"{what} would wait for the producer's own thread; it can't be called in a callback"
            )


def _deadline(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else time.monotonic() + timeout_ms / 1000


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
