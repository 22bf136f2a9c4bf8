"""A client that produces for a run: an idempotent producer with acks=all, that never gives a batch up.

Only where an unclean election may have lost what it sent does it begin anew, with another producer id.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ottla.clients.error_rules import RETRIABLE
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from ottla.links.errors import ClientError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.history import History
from ottla.testing.simulation.requests import Producer, produce
from ottla.testing.simulation.topic_leaders import NOT_KNOWN, TopicLeaders

_BACKOFF_S: Final = 0.1
_TIMEOUT_MS: Final = 5_000
_BATCH_MAX_RECORDS: Final = 5
_NO_PRODUCER_ID: Final = -1


class _Slot:
    """One partition: one batch at a time, sent again until it is acknowledged."""

    __slots__ = ("batch", "next_sequence", "partition", "producer_epoch", "producer_id")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.producer_id = _NO_PRODUCER_ID
        self.producer_epoch = -1
        self.next_sequence = 0
        self.batch: list[bytes] = []


class LoadProducer:
    """Made by a run; `start` once, `stop` once. It is idle when `stop` was called and nothing is open."""

    def __init__(
        self,
        client: SimulatedClient,
        history: History,
        topic: str,
        *,
        partitions: int,
        brokers: Sequence[BrokerId],
        pause_s: float,
        name: str = "",
        topic_id: bytes | None = None,
        is_leading: Callable[[BrokerId, TopicPartition], bool] = lambda _, __: True,
    ) -> None:
        """`pause_s` is the time between an acknowledgement and the next batch, on average; `name`, by default the
        client's, begins every value, so no other producer of the run may have it. `is_leading`: a broker leads in the
        epoch that the store has, and knows it."""
        self._is_leading = is_leading
        self._client = client
        self._name = name or client.name
        self._history = history
        self._brokers = list(brokers)
        self._leaders = TopicLeaders(client, topic, self._brokers, topic_id=topic_id)
        self._slots = [_Slot(TopicPartition(topic, partition)) for partition in range(partitions)]
        self._pause_s = pause_s
        self._is_stopped = False
        self._is_dropped = False
        self._values = 0
        self.acked = 0

    @property
    def is_idle(self) -> bool:
        return self._is_stopped and not any(slot.batch for slot in self._slots)

    def start(self) -> None:
        """Get a producer id for every partition, and produce to it."""
        for slot in self._slots:
            self._begin(slot)

    def stop(self) -> None:
        """Begin no batch any more; those that are open are sent until they are acknowledged."""
        self._is_stopped = True

    def drop(self) -> None:
        """End at once: what is open stays open."""
        self._is_stopped = self._is_dropped = True

    def _begin(self, slot: _Slot) -> None:
        broker_id = self._client.random.choice(self._brokers)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self._client.request(broker_id, request, partial(self._on_producer_id, slot), timeout_ms=_TIMEOUT_MS)

    def _on_producer_id(self, slot: _Slot, response: Any) -> None:
        if self._is_stopped:
            return
        if isinstance(response, ClientError) or response.error_code != ErrorCode.NONE:
            self._client.loop.call_later(_BACKOFF_S, partial(self._begin, slot))
            return
        slot.producer_id, slot.producer_epoch = response.producer_id, response.producer_epoch
        slot.next_sequence = 0
        self._begin_batch(slot)

    def _begin_batch(self, slot: _Slot) -> None:
        if self._is_stopped:
            return
        for _ in range(self._client.random.randint(1, _BATCH_MAX_RECORDS)):
            self._values += 1
            value = f"{self._name}/{self._values}".encode()
            slot.batch.append(value)
            self._history.sent(value, self._name, slot.partition, is_idempotent=True)
        self._send(slot)

    def _send(self, slot: _Slot) -> None:
        if self._is_dropped:
            return
        topic, partition = slot.partition
        leader = self._leaders.leader_of(partition)
        if leader == NOT_KNOWN:
            self._send_later(slot)
            return
        produce(
            self._client,
            leader,
            topic,
            partition,
            slot.batch,
            producer=Producer(slot.producer_id, slot.producer_epoch, slot.next_sequence),
            timeout_ms=_TIMEOUT_MS,
            on_response=partial(self._on_produced, slot, self._is_leading(leader, slot.partition)),
        )

    def _send_later(self, slot: _Slot) -> None:
        self._leaders.refresh()
        self._client.loop.call_later(_BACKOFF_S * (0.5 + self._client.random.random()), partial(self._send, slot))

    def _on_produced(self, slot: _Slot, was_leading: bool, response: Any) -> None:
        if self._is_dropped:
            return
        if isinstance(response, ClientError):
            self._send_later(slot)
            return
        error_code = response.error_code
        if error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._on_acked(slot, response.base_offset)
        elif error_code in RETRIABLE or not was_leading:
            # One that was deposed unknown to it may lack what its successor has acknowledged since.
            self._send_later(slot)
        elif slot.partition in self._history.lossy:
            slot.batch = []
            self._begin(slot)
        else:
            # All that was acknowledged is there, so the cluster knows this producer and its sequence.
            raise BrokenRule(
                "an idempotent producer can go on",
                f"{self._name}, {slot.partition}, sequence {slot.next_sequence}: error {error_code}",
            )

    def _on_acked(self, slot: _Slot, base_offset: int) -> None:
        leader_epoch = self._leaders.leader_epoch_of(slot.partition.partition)
        for position, value in enumerate(slot.batch):
            offset = base_offset + position if base_offset >= 0 else base_offset
            self._history.acked(value, slot.partition, offset, leader_epoch)
        self.acked += len(slot.batch)
        slot.next_sequence += len(slot.batch)
        slot.batch = []
        self._client.loop.call_later(
            self._client.random.expovariate(1 / self._pause_s), partial(self._begin_batch, slot)
        )
