"""Events to topics: creates what is missing, sends, and counts what was sent, stored and refused for each topic."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from ottla.clients.admin import Admin
from ottla.clients.errors import OperationFailed, TimedOut
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.producer import Producer
from ottla.clients.topics import NewTopic
from ottla.core.errors import ErrorCode
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


def ensure_topics(admin: Admin, *, partitions: int, configs: tuple[tuple[str, str], ...] = ()) -> list[str]:
    """Create the app's topics where they are missing; the names of the new ones."""
    try:
        return list(admin.create_topics([NewTopic(name, partitions, configs=configs) for name in TOPIC_NAMES]))
    except OperationFailed as failed:
        for error in failed.failures.values():
            if error.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error from failed
        return [name for name in failed.outcomes if name not in failed.failures]


class EventSender:
    """Owned by one thread. How long the acknowledgement of every n-th record took is in `ack_latency`."""

    def __init__(self, settings: Mapping[str, object], *, measure_every: int = 0) -> None:
        """`settings` are the producer's."""
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
        """Wait until all is stored or refused; whether it is."""
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
        """What was not waited for is given up."""
        self._producer.close(timeout_ms=0)

    def _acked(self, handle: SendHandle, sent_at_ns: int) -> None:
        """In the producer's thread, the only one that writes it."""
        self.ack_latency.add((time.monotonic_ns() - sent_at_ns) / 1e6)
