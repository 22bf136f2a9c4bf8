"""Where records wait: any thread appends them to the open batch of their partition, the client loop takes due batches.

`buffer.memory` bounds the memory: a batch reserves its memory when it is opened, and releases it when it is done. The
accumulator wakes the client loop only when it has something to do, not for each record.
"""

import threading
from collections.abc import Callable, Iterable

from ottla.clients.partitioning import partition_for_key
from ottla.clients.producer.batch import NOT_TAKEN, ORDER_STEP, ProducerBatch
from ottla.clients.producer.errors import BufferExhausted, NoSuchPartition, RecordTooLarge
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.partitioners import Partitioner
from ottla.clients.producer.queues import PartitionQueue, TopicQueues
from ottla.clients.producer.settings import ProducerSettings
from ottla.core.types import TimestampMs, TopicPartition
from ottla.records.appender import FULL, BatchAppender
from ottla.records.build import RecordHeaders
from ottla.records.header import HEADER_BYTES

# Attributes, timestamp, offset and the lengths of a record: the most bytes that they need in a batch of usual size.
RECORD_OVERHEAD_BYTES = 21
_HEADER_OVERHEAD_BYTES = 10
NEVER_MS = 1 << 62


class Accumulator:
    """All threads of a producer share it. `wake` must make the client loop run the sender soon."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        now_ms: Callable[[], int],
        wake: Callable[[], None],
        partitioner: Partitioner | None = None,
        handle_type: type[SendHandle] = SendHandle,
    ) -> None:
        self.topics: dict[str, TopicQueues] = {}
        self.incomplete: dict[ProducerBatch, None] = {}  # in the order in which they were opened
        self.wakes_ms = NEVER_MS  # when the client loop runs again by itself; only the client loop writes it
        self.is_exhausted = False  # a sender waits for memory
        self._active: dict[PartitionQueue, None] = {}  # queues that have something to send; the first one is next
        self._settings = settings
        self._now_ms = now_ms
        self._wake = wake
        self._partitioner = partitioner
        self._handle_type = handle_type
        self._lock = threading.Lock()
        self._refusal: Exception | None = None
        self._free_bytes = settings.buffer_memory
        self._room_waiters: list[Callable[[], None]] = []
        self._batch_bytes = min(settings.batch_size, settings.buffer_memory)
        self._flushes = 0
        self._is_woken = False

    # From any thread

    def append(
        self,
        topic: TopicQueues,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: RecordHeaders,
        timestamp_ms: TimestampMs,
    ) -> SendHandle | None:
        """Append a record to its partition's open batch; None if there is no memory for a new batch now."""
        if partition is None:
            if self._partitioner is not None:
                partition = self._partitioner(topic.name, key, value, len(topic.queues))
            elif key is not None and not topic.ignores_keys:
                partition = partition_for_key(key, len(topic.queues))
        with self._lock:
            queue = topic.sticky if partition is None else topic.queue_of(partition)
            # The kernel's FastAppend does the same without the lock; its header says why.
            # Closed producers and ended transactions have no open batches: only code that opens one has to check
            # whether the producer takes records.
            if queue is not None and (batch := queue.open) is not None:
                index = batch.append(timestamp_ms, key, value, headers)
                if index >= 0:
                    return self._handle_type(batch, index, timestamp_ms)
        return self._append_to_new_batch(topic, partition, key, value, headers, timestamp_ms)

    def _append_to_new_batch(
        self,
        topic: TopicQueues,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: RecordHeaders,
        timestamp_ms: TimestampMs,
    ) -> SendHandle | None:
        size = _record_size(key, value, headers)
        self._check_size(topic, size)
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if partition is None:
                queue = topic.sticky_for_new_batch()
            elif (found := topic.queue_of(partition)) is not None:
                queue = found
            else:
                raise NoSuchPartition(
                    f"{topic.name}: no partition {partition}, it has {len(topic.queues)} (0 to {len(topic.queues) - 1})"
                )
            batch = queue.open
            index = FULL if batch is None else batch.append(timestamp_ms, key, value, headers)
            if index == FULL:
                # A record that is larger than batch.size gets a batch of its own.
                needed = max(self._batch_bytes, size + HEADER_BYTES)
                if self._free_bytes >= needed:
                    batch = self._open_batch(queue, needed)
                    index = batch.append(timestamp_ms, key, value, headers)
                    is_loop_needed = self._is_loop_needed_for(queue)
                    if partition is None:
                        topic.sticky_batch = batch
                else:
                    self.is_exhausted = True
                    is_loop_needed = True
                is_waking = is_loop_needed and not self._is_woken
                self._is_woken = self._is_woken or is_waking
            else:
                is_waking = False
        if is_waking:
            # Not under the lock: the client loop needs it at once.
            self._wake()
        return None if index == FULL or batch is None else self._handle_type(batch, index, timestamp_ms)

    def append_batch(self, topic: TopicQueues, partition: int, appender: BatchAppender) -> ProducerBatch | None:
        """Append a filled batch behind all batches of its partition; None if there is no memory."""
        needed = appender.size_bytes
        self._check_size(topic, needed - HEADER_BYTES)
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            queue = topic.queues[partition]
            is_enough = self._free_bytes >= needed
            batch = None
            if is_enough:
                batch = self._open_batch(queue, needed, appender)
                queue.waiting.append(batch)
            else:
                self.is_exhausted = True
            is_waking = not self._is_woken and (not is_enough or self._is_loop_needed_for(queue))
            self._is_woken = self._is_woken or is_waking
        if is_waking:
            self._wake()
        return batch

    def _check_size(self, topic: TopicQueues, size: int) -> None:
        if size + HEADER_BYTES > self._settings.max_request_size:
            raise RecordTooLarge(
                f"{topic.name}: a record of about {size} bytes, at most {self._settings.max_request_size} are allowed;"
                " raise max.request.size, and max.message.bytes of the topic"
            )
        if size + HEADER_BYTES > self._settings.buffer_memory:
            raise RecordTooLarge(
                f"{topic.name}: a record of about {size} bytes, buffer.memory is {self._settings.buffer_memory}"
            )

    def _open_batch(self, queue: PartitionQueue, needed: int, appender: BatchAppender | None = None) -> ProducerBatch:
        """Under the lock: reserve memory for a new batch; the open batch before it now waits to be sent."""
        self._free_bytes -= needed
        if queue.open is not None:
            queue.waiting.append(queue.open)
        batch = ProducerBatch(
            queue,
            self._lock,
            created_ms=self._now_ms(),
            reserved_bytes=needed,
            is_transactional=self._settings.transactional_id is not None,
            appender=appender,
        )
        queue.open = batch if appender is None else None
        self.incomplete[batch] = None
        self._active[queue] = None
        return batch

    def _is_loop_needed_for(self, queue: PartitionQueue) -> bool:
        if queue.waiting:
            # A full batch is sent at once, unless its leader is saturated: then the next answer wakes the loop.
            return queue.destination is None or not queue.destination.is_saturated
        assert queue.open is not None
        return queue.open.created_ms + self._settings.linger_ms < self.wakes_ms

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` from the client loop when memory is released; at once if no batch holds any."""
        with self._lock:
            if self.incomplete:
                self._room_waiters.append(callback)
                return
        callback()

    def exhausted_error(self, topic: TopicQueues) -> BufferExhausted:
        settings = self._settings
        return BufferExhausted(
            f"{topic.name}: no room for a record after {settings.max_block_ms} ms:"
            f" {self.buffered_bytes} of {settings.buffer_memory} bytes of buffer.memory are in use;"
            " the cluster accepts records more slowly than they come, or can't be reached"
        )

    def refuse(self, error: Exception | None) -> None:
        """Refuse records with this error, or with None take them again. Closes open batches, which are still sent."""
        with self._lock:
            self._refusal = error
            self._close_open_batches()

    def begin_flush(self) -> list[ProducerBatch]:
        """All batches that are not done; until `end_flush` none of them lingers."""
        with self._lock:
            self._flushes += 1
            self._close_open_batches()
            return list(self.incomplete)

    def end_flush(self) -> None:
        with self._lock:
            self._flushes -= 1

    def _close_open_batches(self) -> None:
        for queue in self._active:
            if queue.open is not None:
                queue.waiting.append(queue.open)
                queue.open = None

    # From the client loop

    def learn_topic(self, name: str, partition_count: int) -> TopicQueues:
        """Add a topic, or the new partitions of a known one."""
        with self._lock:
            topic = self.topics.get(name)
            if topic is None:
                topic = TopicQueues(name, self._settings)
            topic.grow([PartitionQueue(TopicPartition(name, partition)) for partition in range(partition_count)])
            self.topics[name] = topic
            return topic

    def active_queues(self) -> list[PartitionQueue]:
        """Queues that have something to send; also notes that the client loop is awake."""
        with self._lock:
            self._is_woken = False
            return list(self._active)

    def is_due(self, queue: PartitionQueue, now_ms: int) -> bool:
        """Whether the next batch of a queue has lingered long enough, is full, or must not linger."""
        if queue.waiting:
            return True
        batch = queue.open
        if batch is None:
            return False
        return now_ms >= batch.created_ms + self._settings.linger_ms or self._flushes > 0 or self.is_exhausted

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Take the next batch and close it; its unused memory is released."""
        with self._lock:
            if queue.waiting:
                batch = queue.waiting.popleft()
            else:
                assert queue.open is not None
                batch = queue.open
                queue.open = None
            if batch.order == NOT_TAKEN:
                queue.taken += ORDER_STEP
                batch.order = queue.taken
            # To the end: every partition gets its turn.
            del self._active[queue]
            if not queue.is_empty:
                self._active[queue] = None
            unused = batch.reserved_bytes - batch.appender.size_bytes
            if unused > 0:
                batch.reserved_bytes -= unused
                self._free_bytes += unused
        return batch

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch for another attempt, before the batches that were queued later."""
        with self._lock:
            batch.queue.requeue(batch)
            self._active[batch.queue] = None

    def replace(self, batch: ProducerBatch, parts: Iterable[ProducerBatch]) -> None:
        """Replace a batch that was too large by its parts."""
        with self._lock:
            self.incomplete.pop(batch, None)
            for part in parts:
                self.incomplete[part] = None
                part.queue.requeue(part)
            self._active[batch.queue] = None

    def plan(self, now_ms: int) -> int | None:
        """When the client loop must run again; None if its timer is early enough already.

        Under the lock: a thread that opens a batch must see a plan that agrees with the timer.
        """
        settings = self._settings
        wakes_ms = NEVER_MS
        with self._lock:
            oldest = next(iter(self.incomplete), None)
            if oldest is not None:
                wakes_ms = oldest.created_ms + settings.delivery_timeout_ms
            for queue in self._active:
                if queue.waiting:
                    due_ms = queue.waiting[0].not_before_ms
                elif queue.open is not None:
                    due_ms = queue.open.created_ms + settings.linger_ms
                else:
                    continue
                if now_ms < due_ms < wakes_ms:
                    wakes_ms = due_ms
            if now_ms < self.wakes_ms <= wakes_ms and self.wakes_ms != NEVER_MS:
                return None
            self.wakes_ms = wakes_ms
        return wakes_ms

    def oldest(self) -> ProducerBatch | None:
        """The oldest batch that is not done, in flight or not."""
        with self._lock:
            return next(iter(self.incomplete), None)

    def withdraw(self, batch: ProducerBatch) -> None:
        """Remove a batch from wherever it waits; does nothing for a batch in flight."""
        queue = batch.queue
        with self._lock:
            if queue.open is batch:
                queue.open = None
            elif batch in queue.waiting:
                queue.waiting.remove(batch)
            if queue.is_empty:
                self._active.pop(queue, None)

    def drop_waiting(self) -> list[ProducerBatch]:
        """Remove and return all batches that are not in flight; the caller must finish them."""
        with self._lock:
            self._close_open_batches()
            dropped = [batch for queue in self._active for batch in queue.waiting]
            for queue in self._active:
                queue.waiting.clear()
            self._active.clear()
            return dropped

    def release(self, batch: ProducerBatch) -> None:
        """A batch is done: release its memory."""
        with self._lock:
            self.incomplete.pop(batch, None)
            self._free_bytes += batch.reserved_bytes
            batch.reserved_bytes = 0
            waiters = self._room_waiters
            if waiters:
                self._room_waiters = []
            self.is_exhausted = False
        for waiter in waiters:
            waiter()

    @property
    def has_default_partitioner(self) -> bool:
        """Whether the user has set no partitioner."""
        return self._partitioner is None

    @property
    def buffered_bytes(self) -> int:
        return self._settings.buffer_memory - self._free_bytes

    @property
    def lock(self) -> threading.Lock:
        return self._lock


def _record_size(key: bytes | None, value: bytes | None, headers: RecordHeaders) -> int:
    """An upper estimate of a record's uncompressed size."""
    size = RECORD_OVERHEAD_BYTES + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
    for name, header_value in headers:
        # A character has at most four bytes in UTF-8.
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + (len(header_value) if header_value is not None else 0)
    return size
