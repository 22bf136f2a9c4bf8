"""A user's hooks on every record: before it is serialized, and when its outcome is known.

What a hook raises is logged and otherwise ignored, as with Kafka's: watching must not break sending.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.reporting import report_exception
from ottla.core.types import TimestampMs


class ProducerRecord(NamedTuple):
    """A record as it was given to `send`."""

    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int | None
    timestamp_ms: TimestampMs | None


class ProducerInterceptor(Protocol):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send in its place; runs in the thread that sends."""
        ...

    def on_acknowledgement(self, handle: SendHandle) -> None:
        """The record is done: delivered, or given up. Runs in the producer's own thread."""
        ...


class Interceptors:
    """Several, in order; each sees what the one before it made of a record."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._interceptors = interceptors

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:  # noqa: BLE001 - not our code
                report_exception("%r failed on a record for %s", interceptor, record.topic)
        return record

    def on_acknowledgement(self, handle: SendHandle) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(handle)
            except Exception:  # noqa: BLE001 - not our code
                report_exception("%r failed on an acknowledgement", interceptor)
