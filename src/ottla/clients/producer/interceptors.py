"""A user's hooks for every record: before it is serialized, and when its outcome is known.

What a hook raises is logged and otherwise ignored, as in Kafka: a hook must not break sending.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ottla.clients.producer.errors import report_exception
from ottla.clients.producer.handle import SendHandle
from ottla.core.types import TimestampMs


class ProducerRecord(NamedTuple):
    """A record as the user passed it to `send`."""

    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int | None
    timestamp_ms: TimestampMs | None


class ProducerInterceptor(Protocol):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Returns the record to send instead; runs in the thread that calls `send`."""
        ...

    def on_acknowledgement(self, handle: SendHandle) -> None:
        """The record was delivered or failed. Runs in the producer's own thread."""
        ...


class Interceptors:
    """Several interceptors in order; each gets the record that the one before it returned."""

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
