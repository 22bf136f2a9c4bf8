"""Sending Arrow tables: whole batches instead of records, and one handle for all of them.

The first table imports numpy and pyarrow: a producer of records never needs them.
"""

from collections.abc import Generator, Iterator
from time import monotonic
from typing import Any, NamedTuple

from ottla.clients.producer.batch import ProducerBatch
from ottla.clients.producer.queues import TopicQueues
from ottla.clients.producer.settings import ProducerSettings
from ottla.core.extras import needs_extra
from ottla.core.types import Offset, TimestampMs
from ottla.records.appender import BatchAppender


class BatchMetadata(NamedTuple):
    """Where some rows of a table are stored, in order."""

    topic: str
    partition: int
    base_offset: Offset
    record_count: int


class TableHandle:
    """The delivery of a table; safe to use from any thread."""

    __slots__ = ("_batches",)

    def __init__(self, batches: list[ProducerBatch]) -> None:
        self._batches = batches

    @property
    def row_count(self) -> int:
        return sum(batch.record_count for batch in self._batches)

    def done(self) -> bool:
        return all(batch.is_done for batch in self._batches)

    def result(self, timeout: float | None = None) -> list[BatchMetadata]:
        """Wait (in seconds) and return where the rows are; raises the first error if some failed."""
        deadline = None if timeout is None else monotonic() + timeout
        for batch in self._batches:
            if not batch.wait(None if deadline is None else max(deadline - monotonic(), 0.0)):
                raise TimeoutError(f"{batch.queue.topic_partition}: the table was not acknowledged within {timeout} s")
        return [self._metadata(part) for batch in self._batches for part in batch.all_parts()]

    def _metadata(self, batch: ProducerBatch) -> BatchMetadata:
        if batch.error is not None:
            raise batch.error
        return BatchMetadata(*batch.queue.topic_partition, batch.base_offset, batch.record_count)

    def when_done(self, callback: Any) -> None:
        """Call `callback()` in the client loop when all rows are done; at once if they are."""
        left = len(self._batches)

        def one_done() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                callback()

        if not self._batches:
            callback()
        for batch in self._batches:
            if not batch.when_done(one_done):
                one_done()


class AioTableHandle(TableHandle):
    """The same handle, to be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, list[BatchMetadata]]:
        if not self.done():
            from asyncio import get_running_loop  # a task that awaits has imported it already

            future = get_running_loop().create_future()
            self.when_done(lambda: None if future.done() else future.set_result(None))
            yield from future
        return self.result(0)


def batches_of_table(
    table: Any, topic: TopicQueues, settings: ProducerSettings, now_ms: TimestampMs
) -> Iterator[tuple[int, BatchAppender]]:
    """The rows of a table as (partition, filled batch), by the same rules as single records."""
    with needs_extra("send_arrow", "columns"):
        from ottla.columns.encoding import LIMIT_BYTES, batches_of

    limit_bytes = min(LIMIT_BYTES, settings.max_request_size, settings.buffer_memory)
    return batches_of(
        table,
        partition_count=len(topic.queues),
        now_ms=now_ms,
        limit_bytes=limit_bytes,
        first_run=topic.next_run(),
        ignores_keys=topic.ignores_keys,
    )
