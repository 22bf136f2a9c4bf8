"""Which of the oldest segments may go: too old, too much, or wholly below the log's start. Decides, deletes nothing."""

from ottla.core.types import Offset, TimestampMs
from ottla.storage.log_config import LogConfig
from ottla.storage.segment import Segment


def count_deletable(
    segments: list[Segment],
    config: LogConfig,
    *,
    now_ms: TimestampMs,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
) -> int:
    """How many segments from the oldest on have to go; all of them when the active one has expired too.

    What is not replicated yet (at or above the high watermark) stays whatever its age.
    """
    deletable = _count_while_below(
        segments, limit=min(high_watermark, log_start_offset), log_end_offset=None
    )  # delete-records: the active segment waits until it is rolled
    if not config.delete:
        return deletable
    committed = _count_while_below(segments, limit=high_watermark, log_end_offset=log_end_offset)
    if config.retention_ms >= 0:
        deletable = max(deletable, _count_expired(segments[:committed], now_ms - config.retention_ms))
    if config.retention_bytes >= 0:
        deletable = max(
            deletable,
            _count_oversize(
                segments[:committed], sum(segment.size_bytes for segment in segments) - config.retention_bytes
            ),
        )
    return deletable


def _count_while_below(segments: list[Segment], *, limit: Offset, log_end_offset: Offset | None) -> int:
    """Segments that end at or below `limit`; the active one counts if it holds anything and its end is given."""
    count = 0
    for following in segments[1:]:
        if following.base_offset > limit:
            return count
        count += 1
    if log_end_offset is not None and log_end_offset <= limit and segments[-1].size_bytes:
        count += 1
    return count


def _count_expired(segments: list[Segment], oldest_allowed_ms: TimestampMs) -> int:
    count = 0
    for segment in segments:
        timestamp_ms = segment.max_timestamp()[0]
        if timestamp_ms < 0:
            timestamp_ms = segment.created_ms  # records without time: as old as the segment is known
        if timestamp_ms >= oldest_allowed_ms:
            break
        count += 1
    return count


def _count_oversize(segments: list[Segment], excess_bytes: int) -> int:
    """Only segments that are wholly in excess go, so that at least `retention.bytes` stay."""
    count = 0
    for segment in segments:
        excess_bytes -= segment.size_bytes
        if excess_bytes < 0:
            break
        count += 1
    return count
