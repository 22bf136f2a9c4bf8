"""Types of the C kernel; `_kernel.c` says what each of them does."""

from collections.abc import Callable
from typing import Any

from ottla.core.types import Buffer
from ottla.records.build import RecordHeaders

INTERFACE: int

class FetchedRecord: ...

class Appender:
    limit_bytes: int
    record_count: int
    size_bytes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    def __init__(self, limit_bytes: int) -> None: ...
    def append(
        self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: RecordHeaders = ..., /
    ) -> int: ...
    def append_rows(
        self,
        rows: Any,
        first: int,
        timestamps_ms: Any,
        key: Any,
        value: Any,
        headers: Any,
        /,
    ) -> int: ...
    def records(self) -> bytes: ...

class PartitionSlot: ...
class TopicSlots: ...
class Delivery: ...

class FastAppend:
    def __init__(self, topics: dict[str, Any], handle_type: type, slow: Callable[..., Any], /) -> None: ...
    send: Callable[..., Any]

class ColumnSink:
    count: int
    data_bytes: int
    def __init__(self, with_headers: bool) -> None: ...
    def append(
        self,
        body: Buffer,
        base_offset: int,
        base_timestamp_ms: int,
        append_time_ms: int | None,
        last_offset_delta: int,
        record_count: int,
        from_offset: int,
        to_offset: int,
        /,
    ) -> int: ...
    def reserve(self, body_bytes: int, records: int, /) -> None: ...
    def finish(self) -> tuple[Any, ...]: ...

def split_records(
    body: bytes,
    topic: str,
    partition: int,
    leader_epoch: int,
    base_offset: int,
    base_timestamp_ms: int,
    append_time_ms: int | None,
    last_offset_delta: int,
    record_count: int,
    from_offset: int,
    to_offset: int,
    /,
) -> list[Any]: ...
def walk_records(
    data: Buffer, position: int, record_count: int, base_timestamp_ms: int, with_keyless: bool, /
) -> tuple[int, int, list[int] | None]: ...
def murmur2(key: Buffer, /) -> int: ...
def hash_keys(key: Any, count: int, /) -> bytearray: ...
