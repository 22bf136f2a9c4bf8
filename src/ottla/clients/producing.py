"""Sending records: gathered into batches by partition, several requests in flight on a connection, order kept.

A partition has at most one batch under way, so a retry can't overtake what came after it; requests of other partitions
fill the connection meanwhile. With a producer id from the cluster a batch that is sent twice is stored once.
"""

import selectors
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.clients.cluster import NO_LEADER, Cluster
from ottla.clients.errors import RETRIABLE, BrokerError, ConnectionFailed, check, error_name
from ottla.clients.partitioning import partition_for_key
from ottla.clients.produce_channel import InFlight, PartitionAnswer, ProduceChannel
from ottla.clients.sender_settings import ACKS_ALL, SenderSettings
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_PRODUCER_ID, BrokerId, Offset, TimestampMs, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.records.build import BatchBuilder, RecordHeaders
from ottla.records.header import NO_PRODUCER_EPOCH, NO_SEQUENCE, add_to_sequence

_RETRY_WAIT_MS: Final = 50
_LEFT_OUT: Final = PartitionAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, -1, "left out of the answer")
_OUT_OF_TIME: Final = PartitionAnswer(ErrorCode.REQUEST_TIMED_OUT, -1, "not delivered in time")
_NO_ANSWER: Final = PartitionAnswer(ErrorCode.NONE, -1)  # acks 0
_NEW_CONNECTION_WAIT_MS: Final = 100


class Delivery(NamedTuple):
    """What became of one batch. `error_code` 0: stored from `base_offset` on; -1 as offset with acks 0."""

    place: TopicPartition
    base_offset: Offset
    record_count: int
    size_bytes: int
    latency_ms: float  # from its first record's arrival to the answer
    error_code: int
    error_message: str | None = None
    # Given with the records by their sender, in order; empty when none were.
    tags: Sequence[object] = ()
    # (index in the batch, why) of the records that the broker names as the cause (KIP-467).
    record_errors: Sequence[tuple[int, str | None]] = ()

    def describe_error(self) -> str:
        return error_name(self.error_code) + (f" ({self.error_message})" if self.error_message else "")


class _Batch:
    """Records of one partition on their way; built at its first sending, and a retry sends the very same bytes."""

    __slots__ = ("builder", "created_at", "data", "not_before", "place", "size_bytes", "tags")

    def __init__(self, place: TopicPartition, now: float) -> None:
        self.place = place
        self.builder = BatchBuilder()
        self.created_at = now
        self.not_before = 0.0
        self.data: bytearray | None = None
        self.size_bytes = 0  # uncompressed, known when nothing is added any more
        self.tags: list[object] = []


class _Lane:
    """One partition: the batch being filled, those that wait, and whether one is under way."""

    __slots__ = ("filling", "is_busy", "next_sequence", "place", "waiting")

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.filling: _Batch | None = None
        self.waiting: deque[_Batch] = deque()
        self.is_busy = False
        self.next_sequence = 0


class BatchSender:
    """Owned by one thread, which calls `send` and, whenever it has a moment, `poll`; `flush` before the end.

    `on_delivery` is called from within these, once for each batch. Memory is bounded: `send` waits for room.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: SenderSettings | None = None,
        *,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> None:
        self.settings = settings or SenderSettings()
        self.buffered_bytes = 0
        self._cluster = cluster
        self._on_delivery = on_delivery
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._open_lanes: dict[TopicPartition, _Lane] = {}  # those with anything to send, in order of arrival
        self._partition_counts: dict[str, int] = {}
        self._next_without_key: dict[str, int] = {}
        self._selector = selectors.DefaultSelector()
        self._channels: dict[BrokerId, ProduceChannel[_Batch]] = {}
        self._no_connection_before: dict[BrokerId, float] = {}
        self._refresh_not_before = 0.0
        self._linger = self.settings.linger_ms / 1000
        self._batch_size = self.settings.batch_size
        self._producer_id = NO_PRODUCER_ID
        self._producer_epoch = NO_PRODUCER_EPOCH
        self._needs_producer_id = False
        if self.settings.enable_idempotence and self.settings.acks == ACKS_ALL:
            self._become_idempotent()

    def __enter__(self) -> "BatchSender":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def in_flight(self) -> int:
        return sum(len(channel.in_flight) for channel in self._channels.values())

    @property
    def is_busy(self) -> bool:
        """Whether anything waits to be sent or answered."""
        return bool(self._open_lanes) or self.in_flight > 0

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: RecordHeaders = (),
        timestamp_ms: TimestampMs | None = None,
        partition: int | None = None,
        tag: object = None,
    ) -> None:
        """Add a record to its partition's batch. Records without a key and a partition go round in turn.

        A `tag` that is not None comes back with the delivery; then every record must have one.
        """
        if partition is None:
            count = self._partition_counts.get(topic) or self._count_partitions(topic)
            if key is not None:
                partition = partition_for_key(key, count)
            else:
                partition = self._next_without_key.get(topic, 0)
                self._next_without_key[topic] = (partition + 1) % count
        lane = self._lanes.get((topic, partition))  # type: ignore[call-overload]  # as good a key, and at hand
        if lane is None:
            place = TopicPartition(topic, partition)
            lane = self._lanes[place] = _Lane(place)
        batch = lane.filling
        if batch is not None and batch.builder.size_bytes_with(key, value, headers) > self._batch_size:
            self._close_batch(lane)
            batch = None
        if batch is None:
            if self.buffered_bytes > self.settings.buffer_memory:
                self._wait_for_room()
            batch = lane.filling = _Batch(lane.place, time.monotonic())
            self._open_lanes[lane.place] = lane
        batch.builder.append(int(time.time() * 1000) if timestamp_ms is None else timestamp_ms, key, value, headers)
        if tag is not None:
            batch.tags.append(tag)

    def poll(self, timeout_ms: float = 0) -> None:
        """Send what is due, take in what was answered; wait for that at most `timeout_ms`."""
        self._send_due(time.monotonic(), is_flushing=False)
        self._exchange(timeout_ms / 1000)

    def flush(self, timeout_ms: int | None = None) -> bool:
        """Send all and wait for the answers; whether nothing is left."""
        limit_ms = self.settings.delivery_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        while True:
            now = time.monotonic()
            self._send_due(now, is_flushing=True)
            if not self._open_lanes and not self.in_flight:
                return True
            if now >= deadline:
                return False
            self._exchange(min(deadline - now, 0.05))

    def close(self) -> None:
        """Close the connections; what was not flushed is given up."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._selector.close()

    def _become_idempotent(self) -> None:
        def attempt() -> None:
            connection = self._cluster.any_connection()
            if not connection.serves(ApiKey.INIT_PRODUCER_ID):
                return
            ask = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            answer = connection.request(ask, InitProducerIdResponse)
            check(answer.error_code, "asking for a producer id")
            self._producer_id = answer.producer_id
            self._producer_epoch = answer.producer_epoch

        self._cluster.retry(attempt)

    def _count_partitions(self, topic: str) -> int:
        count = self._cluster.retry(lambda: self._cluster.partition_count(topic))
        self._partition_counts[topic] = count
        return count

    def _wait_for_room(self) -> None:
        while self.buffered_bytes > self.settings.buffer_memory:
            self.poll(10)

    def _close_batch(self, lane: _Lane) -> None:
        batch = lane.filling
        assert batch is not None
        batch.size_bytes = batch.builder.size_bytes
        lane.filling = None
        lane.waiting.append(batch)
        self.buffered_bytes += batch.size_bytes

    def _build(self, lane: _Lane, batch: _Batch) -> bytearray:
        """Header, codec and checksum; with a producer id also the sequence, which the batch keeps for ever."""
        sequence = NO_SEQUENCE
        if self._producer_id != NO_PRODUCER_ID:
            sequence = lane.next_sequence
            lane.next_sequence = add_to_sequence(sequence, batch.builder.record_count)
        return batch.builder.build(
            codec=self.settings.codec,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )

    def _start_sequences_anew(self) -> None:
        """After a batch was given up: its place in the sequence stays empty, so all go on under another producer id.

        What was built before keeps its old id. The two don't mix: a partition has one batch under way.
        """
        self._become_idempotent()
        self._needs_producer_id = False
        for lane in self._lanes.values():
            lane.next_sequence = 0

    def _send_due(self, now: float, *, is_flushing: bool) -> None:
        """One batch of every partition that is due and not under way, grouped into requests by leader."""
        if not self._open_lanes:
            return
        if self._needs_producer_id:
            self._start_sequences_anew()
        ready: dict[BrokerId, list[_Batch]] = {}
        emptied = []
        for place, lane in self._open_lanes.items():
            filling = lane.filling
            if lane.is_busy:
                continue  # what is being filled goes on filling: nothing is gained by closing it early
            is_due = filling is not None and (is_flushing or now - filling.created_at >= self._linger)
            if is_due and not lane.waiting:
                self._close_batch(lane)
            if not lane.waiting:
                if lane.filling is None:
                    emptied.append(place)
                continue
            batch = lane.waiting[0]
            if now - batch.created_at > self.settings.delivery_timeout_ms / 1000:
                lane.waiting.popleft()
                self._deliver(batch, _OUT_OF_TIME, now)
            elif batch.not_before <= now:
                leader_id = self._cluster.leader_of(place)
                if leader_id == NO_LEADER:
                    self._retry_later(batch, now)
                else:
                    ready.setdefault(leader_id, []).append(batch)
        for place in emptied:
            del self._open_lanes[place]
        for leader_id, batches in ready.items():
            self._request(leader_id, batches, now)

    def _request(self, leader_id: BrokerId, batches: list[_Batch], now: float) -> None:
        channel = self._channel_to(leader_id, now)
        if channel is None:
            return
        start = 0
        while start < len(batches) and len(channel.in_flight) < self.settings.max_in_flight:
            end, size = start, 0
            while end < len(batches):
                size += batches[end].size_bytes
                if end > start and size > self.settings.max_request_size:
                    break
                end += 1
            chosen = batches[start:end]
            topics: dict[str, list[tuple[int, bytearray]]] = {}
            for batch in chosen:
                lane = self._lanes[batch.place]
                if batch.data is None:
                    batch.data = self._build(lane, batch)
                topics.setdefault(batch.place.topic, []).append((batch.place.partition, batch.data))
                lane.waiting.popleft()
                lane.is_busy = True
            channel.send(chosen, topics, acks=self.settings.acks, timeout_ms=self.settings.request_timeout_ms, now=now)
            if self.settings.acks == 0:
                for batch in chosen:
                    self._finish(batch, _NO_ANSWER, now)
            start = end

    def _channel_to(self, leader_id: BrokerId, now: float) -> ProduceChannel[_Batch] | None:
        channel = self._channels.get(leader_id)
        if channel is not None:
            return channel
        address = self._cluster.brokers.get(leader_id)
        if address is None or now < self._no_connection_before.get(leader_id, 0.0):
            self._refresh(now)
            return None
        try:
            connection = self._cluster.open_connection(address)
        except ConnectionFailed:
            # The batches wait in their lanes, until their delivery timeout at most.
            self._no_connection_before[leader_id] = time.monotonic() + _NEW_CONNECTION_WAIT_MS / 1000
            return None
        channel = self._channels[leader_id] = ProduceChannel(connection, self._selector)
        return channel

    def _exchange(self, timeout: float) -> None:
        """One round of reading and writing."""
        if not self._channels:
            if timeout > 0:
                time.sleep(min(timeout, _RETRY_WAIT_MS / 1000))
            return
        for channel in self._channels.values():
            channel.want_events()
        ready = self._selector.select(timeout)
        now = time.monotonic()
        for key, mask in ready:
            channel = key.data
            try:
                for request, answer in channel.on_ready(mask):
                    self._take_answer(request, answer, now)
            except ConnectionFailed:
                self._drop(channel, now)
        for channel in list(self._channels.values()):
            if channel.in_flight and now - channel.in_flight[0].sent_at > self.settings.request_timeout_ms / 1000:
                self._drop(channel, now)

    def _take_answer(
        self, request: InFlight[_Batch], answer: dict[TopicPartition, PartitionAnswer], now: float
    ) -> None:
        for batch in request.batches:
            outcome = answer.get(batch.place, _LEFT_OUT)
            if outcome.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                # Stored by an earlier attempt whose answer was lost.
                outcome = outcome._replace(error_code=ErrorCode.NONE)
            if outcome.error_code in RETRIABLE:
                self._lanes[batch.place].waiting.appendleft(batch)
                self._lanes[batch.place].is_busy = False
                self._retry_later(batch, now)
            else:
                self._finish(batch, outcome, now)

    def _drop(self, channel: ProduceChannel[_Batch], now: float) -> None:
        """The connection is gone; whether its batches were stored is not known, so they are sent again."""
        leader_id = next(broker_id for broker_id, known in self._channels.items() if known is channel)
        del self._channels[leader_id]
        channel.close()
        self._no_connection_before[leader_id] = now + _NEW_CONNECTION_WAIT_MS / 1000
        for request in channel.in_flight:
            for batch in request.batches:
                lane = self._lanes[batch.place]
                if lane.is_busy:
                    lane.waiting.appendleft(batch)
                    lane.is_busy = False
                    batch.not_before = now + _RETRY_WAIT_MS / 1000
        self._refresh(now)

    def _retry_later(self, batch: _Batch, now: float) -> None:
        batch.not_before = now + _RETRY_WAIT_MS / 1000
        self._refresh(now)

    def _refresh(self, now: float) -> None:
        """New metadata, not more often than the retries; a cluster that is away is asked again later."""
        if now < self._refresh_not_before:
            return
        self._refresh_not_before = now + _RETRY_WAIT_MS / 1000
        try:
            self._cluster.refresh(sorted({place.topic for place in self._lanes}))
        except (ConnectionFailed, BrokerError):
            self._refresh_not_before = time.monotonic() + _NEW_CONNECTION_WAIT_MS / 1000

    def _finish(self, batch: _Batch, outcome: PartitionAnswer, now: float) -> None:
        self._lanes[batch.place].is_busy = False
        self._deliver(batch, outcome, now)

    def _deliver(self, batch: _Batch, outcome: PartitionAnswer, now: float) -> None:
        self.buffered_bytes -= batch.size_bytes
        error_code, base_offset, message, record_errors = outcome
        if error_code != ErrorCode.NONE and self._producer_id != NO_PRODUCER_ID:
            self._needs_producer_id = True
        if self._on_delivery is not None:
            latency_ms = (now - batch.created_at) * 1000
            self._on_delivery(
                Delivery(
                    batch.place,
                    base_offset,
                    batch.builder.record_count,
                    batch.size_bytes,
                    latency_ms,
                    error_code,
                    message,
                    batch.tags,
                    record_errors,
                )
            )
