"""Events to topics: creates what is missing, sends, and counts what was sent, stored and refused for each topic."""

import time
from collections.abc import Callable
from struct import Struct
from typing import Final
from zlib import crc32

from ottla.clients.cluster import Cluster
from ottla.clients.producing import BatchSender, Delivery
from ottla.clients.sender_settings import SenderSettings
from ottla.clients.topics import NewTopic, create_topics, wait_for_leaders
from ottla.pipeline.latency import LatencyHistogram
from ottla.pipeline.topics import TOPIC_NAMES
from ottla.pipeline.traffic.events import Event, encode_value

SENT_AT_HEADER: Final = "sent_at_ns"
SENT_AT: Final = Struct(">q")  # CLOCK_MONOTONIC, which all processes of a machine share
_POLL_EVERY: Final = 64


class TopicCount:
    """Records of one topic; the checksum is the sum of those of all values, whatever their order."""

    __slots__ = ("checksum", "records", "size_bytes")

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0
        self.checksum = 0

    def add(self, value: bytes) -> None:
        self.records += 1
        self.size_bytes += len(value)
        self.checksum += crc32(value)


def ensure_topics(cluster: Cluster, *, partitions: int, configs: tuple[tuple[str, str], ...] = ()) -> list[str]:
    """Create the app's topics where they are missing; the names of the new ones."""
    topics = [NewTopic(name, partitions, configs=configs) for name in TOPIC_NAMES]
    created = create_topics(cluster, topics, keep_existing=True)
    wait_for_leaders(cluster, TOPIC_NAMES)
    return created


class EventSender:
    """Owned by one thread. Every n-th record may carry the time of its sending, for whoever measures the way."""

    def __init__(self, cluster: Cluster, settings: SenderSettings | None = None, *, stamp_every: int = 0) -> None:
        self.sent = {name: TopicCount() for name in TOPIC_NAMES}
        self.sent_count = 0
        self.stored_count = 0
        self.refused_count = 0
        self.first_refusal: str | None = None
        self.ack_latency = LatencyHistogram()
        self._stamp_every = stamp_every
        self._sender = BatchSender(cluster, settings, on_delivery=self._on_delivery)

    def send(self, event: Event) -> None:
        value = encode_value(event)
        self.sent[event.topic].add(value)
        self.sent_count = count = self.sent_count + 1
        if self._stamp_every and count % self._stamp_every == 0:
            headers = ((SENT_AT_HEADER, SENT_AT.pack(time.monotonic_ns())),)
            self._sender.send(event.topic, value, key=event.key.encode(), headers=headers)
        else:
            self._sender.send(event.topic, value, key=event.key.encode())
        if count % _POLL_EVERY == 0:
            self._sender.poll()

    def wait(self, seconds: float) -> None:
        """Send and receive for so long: nothing else is due."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            # Short rounds, or a batch whose lingering ends meanwhile would wait.
            self._sender.poll(min(left * 1000, 2))

    def finish(self, timeout_ms: int, *, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all is stored or refused; whether it is."""
        deadline = time.monotonic() + timeout_ms / 1000
        while not self._sender.flush(200):
            if give_up() or time.monotonic() > deadline:
                return False
        return True

    def close(self) -> None:
        self._sender.close()

    def _on_delivery(self, delivery: Delivery) -> None:
        self.ack_latency.add(delivery.latency_ms)
        if delivery.error_code == 0:
            self.stored_count += delivery.record_count
            return
        self.refused_count += delivery.record_count
        if self.first_refusal is None:
            self.first_refusal = f"{delivery.place}: {delivery.describe_error()}"
