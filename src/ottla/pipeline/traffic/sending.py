"""Sends events to topics, and counts what was sent, stored and refused for each topic."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from ottla.clients.errors import TimedOut
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.producer import Producer
from ottla.pipeline.latency import LatencyHistogram
from ottla.pipeline.topics import TOPIC_NAMES
from ottla.pipeline.traffic.events import Event, encode_value

_FLUSH_MS: Final = 200


class TopicCount:
    """Records of one topic, and the size of their values."""

    __slots__ = ("records", "size_bytes")

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0

    def add(self, value: bytes) -> None:
        self.records += 1
        self.size_bytes += len(value)


class EventSender:
    """Owned by one thread. `ack_latency` has the time until the acknowledgement of every n-th record."""

    def __init__(self, settings: Mapping[str, object], *, measure_every: int = 0) -> None:
        """With the producer's settings."""
        self.sent = {name: TopicCount() for name in TOPIC_NAMES}
        self.sent_count = 0
        self.ack_latency = LatencyHistogram()
        self._measure_every = measure_every
        self._producer = Producer(settings)

    @property
    def stored_count(self) -> int:
        return self._producer.counts().stored_records

    @property
    def refused_count(self) -> int:
        return self._producer.counts().failed_records

    @property
    def first_refusal(self) -> str | None:
        failure = self._producer.counts().first_failure
        return None if failure is None else str(failure)

    def send(self, event: Event) -> None:
        value = encode_value(event)
        self.sent[event.topic].add(value)
        self.sent_count = count = self.sent_count + 1
        if self._measure_every and count % self._measure_every == 0:
            now_ns = time.monotonic_ns()
            self._producer.send(
                event.topic, value, event.key.encode(), on_delivery=lambda handle: self._acked(handle, now_ns)
            )
        else:
            self._producer.send(event.topic, value, event.key.encode())

    def finish(self, timeout_ms: int, *, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all is stored or refused; returns whether it is."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                self._producer.flush(_FLUSH_MS)
            except TimedOut:
                if give_up() or time.monotonic() > deadline:
                    return False
            else:
                return True

    def close(self) -> None:
        """Gives up records that are still waiting."""
        self._producer.close(timeout_ms=0)

    def _acked(self, handle: SendHandle, sent_at_ns: int) -> None:
        """Runs in the producer's thread, which alone writes it."""
        self.ack_latency.add((time.monotonic_ns() - sent_at_ns) / 1e6)
