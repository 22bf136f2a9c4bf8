"""Batches as a follower gets them from its leader's log: checked as a whole, then appended in runs.

Offsets and leader epochs stay as the leader wrote them. Decides nothing about truncation.
"""

from collections.abc import Iterator
from typing import TypeAlias

from ottla.core.errors import ErrorCode
from ottla.core.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, TimestampMs
from ottla.records.errors import CorruptBatch
from ottla.records.header import BatchHeader, crc_of, iter_headers
from ottla.records.validate import ProduceFault
from ottla.storage.segment_list import SegmentList

PositionedBatch: TypeAlias = tuple[int, BatchHeader]  # where it begins in the bytes


def check_replicated(
    records: memoryview,
    *,
    log_end_offset: Offset,
    latest_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    leader_epoch: LeaderEpoch | None = None,
) -> list[PositionedBatch] | ProduceFault:
    """The whole batches in `records`, or why none of them may be appended. A partial one at the end is left out.

    So is what is of a later epoch than `leader_epoch`, that of the fetch: a leader that lost its leadership cuts its
    log, and what a later leader wrote in that place may be in the answer that it had begun to send (KAFKA-18723).
    """
    try:
        batches = list(iter_headers(records, allow_partial_tail=True))
        for position, header in batches:
            if header.last_offset_delta < 0:
                raise CorruptBatch(f"batch at {header.base_offset}: last offset delta {header.last_offset_delta}")
            crc = crc_of(records, position, header.size_bytes)
            if crc != header.crc:
                raise CorruptBatch(f"batch at {header.base_offset}: checksum {crc:#010x}, {header.crc:#010x} expected")
    except CorruptBatch as error:
        return ProduceFault(ErrorCode.CORRUPT_MESSAGE, str(error))
    next_offset = log_end_offset
    for index, (_, header) in enumerate(batches):
        if leader_epoch is not None and header.leader_epoch > leader_epoch:
            return batches[:index]
        if NO_LEADER_EPOCH < header.leader_epoch < latest_epoch:
            return ProduceFault(
                ErrorCode.CORRUPT_MESSAGE,
                f"batch at {header.base_offset} of leader epoch {header.leader_epoch} after epoch {latest_epoch}",
            )
        latest_epoch = header.leader_epoch
        if header.base_offset < next_offset:
            return ProduceFault(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"batch at {header.base_offset} from the leader, {next_offset} or later expected",
            )
        next_offset = header.next_offset
    return batches


def split_into_runs(
    records: memoryview, batches: list[PositionedBatch], segments: SegmentList, *, now_ms: TimestampMs
) -> Iterator[tuple[memoryview, list[PositionedBatch]]]:
    """As many batches as go into the same segment, so that they take one write; positions are those in the run.

    Each run must be appended before the next one is asked for: how much fits depends on what is in the segment.
    """
    run: list[PositionedBatch] = []
    run_start = run_end = 0
    for position, header in batches:
        size_bytes = run_end - run_start + header.size_bytes
        if run and (
            # An empty segment never has to be rolled, but the run alone may fill it.
            segments.active.size_bytes + size_bytes > segments.config.segment_bytes
            or segments.must_roll(
                size_bytes=size_bytes,
                last_offset=header.last_offset,
                timestamp_ms=header.max_timestamp_ms,
                now_ms=now_ms,
            )
        ):
            yield records[run_start:run_end], run
            run = []
        if not run:
            run_start = position
        run.append((position - run_start, header))
        run_end = position + header.size_bytes
    if run:
        yield records[run_start:run_end], run
