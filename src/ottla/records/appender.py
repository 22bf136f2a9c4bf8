"""A batch that a producer fills record by record up to a size; with the kernel, an append is one C call.

Only one writer may use it at a time, under the accumulator's lock. `build` takes what is known last: sequence, codec,
epoch.
"""

from typing import TYPE_CHECKING

from ottla.core.types import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    Buffer,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TimestampMs,
)
from ottla.records.build import BatchBuilder, RecordHeaders, assemble_batch
from ottla.records.compression import NONE, compress
from ottla.records.header import NO_PRODUCER_EPOCH, NO_SEQUENCE, TRANSACTIONAL_MASK
from ottla.records.kernel import IS_COMPILED, kernel

FULL = -1


class BuildsBatch:
    """Finishes a batch; the subclass holds the encoded records."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def record_count(self) -> int: ...
        @property
        def base_timestamp_ms(self) -> TimestampMs: ...
        @property
        def max_timestamp_ms(self) -> TimestampMs: ...
        def records(self) -> Buffer: ...

    def build(
        self,
        *,
        codec: int = NONE,
        level: int | None = None,
        base_offset: Offset = 0,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> bytearray:
        """The finished batch. The records stay, so it can be built again with another sequence or codec."""
        return assemble_batch(
            compress(codec, self.records(), level),
            record_count=self.record_count,
            last_offset_delta=self.record_count - 1,
            base_timestamp_ms=self.base_timestamp_ms,
            max_timestamp_ms=self.max_timestamp_ms,
            attributes=codec | TRANSACTIONAL_MASK if is_transactional else codec,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )


class PythonAppender(BuildsBatch):
    """The kernel's Appender in Python, for machines without the kernel."""

    __slots__ = ("_builder", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes < 0:
            raise ValueError(f"a limit of {limit_bytes} bytes")
        self.limit_bytes = limit_bytes
        self._builder = BatchBuilder()

    @property
    def record_count(self) -> int:
        return self._builder.record_count

    @property
    def size_bytes(self) -> int:
        return self._builder.size_bytes

    @property
    def base_timestamp_ms(self) -> TimestampMs:
        return self._builder.base_timestamp_ms

    @property
    def max_timestamp_ms(self) -> TimestampMs:
        return self._builder.max_timestamp_ms

    def append(
        self, timestamp_ms: TimestampMs, key: Buffer | None, value: Buffer | None, headers: RecordHeaders = (), /
    ) -> int:
        index = self._builder.record_count
        if not self._builder.append_within(self.limit_bytes, timestamp_ms, key, value, headers):
            return FULL
        return index

    def records(self) -> Buffer:
        return self._builder.encoded_records


if TYPE_CHECKING:
    _Appender = PythonAppender
elif IS_COMPILED:
    _Appender = kernel.Appender
else:
    _Appender = PythonAppender


class BatchAppender(_Appender, BuildsBatch):
    """One batch that is being filled.

    `append(timestamp_ms, key, value, headers=())` returns the record's index in the batch, or FULL (-1) when it would
    make the batch larger than `limit_bytes`. It always takes the first record: the accumulator refuses records that
    are too large, with their topic in the message. `size_bytes`, `record_count`, `base_timestamp_ms` and
    `max_timestamp_ms` describe the batch so far, uncompressed; `build(…)` finishes it.
    """

    __slots__ = ()
