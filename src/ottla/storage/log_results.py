"""What a log answers: to an append, to a read, to a question for a time, and after its recovery."""

from typing import NamedTuple, TypeAlias

from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_TIMESTAMP_MS, LeaderEpoch, Offset, TimestampMs


class AppendInfo(NamedTuple):
    """Where a batch went, or why it did not: with an `error_code` other than 0 nothing was written."""

    first_offset: Offset
    last_offset: Offset
    append_time_ms: TimestampMs  # -1 where the producer's own timestamps are kept
    log_start_offset: Offset
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    record_indexes: tuple[int, ...] = ()  # the records at fault, where single ones are
    is_duplicate: bool = False  # it was in the log already


class LogRead(NamedTuple):
    """A stretch of the log, whole batches but for the last; None when there is nothing (yet) or on an error."""

    slice: FileSlice | None
    error_code: ErrorCode = ErrorCode.NONE


class TimestampOffset(NamedTuple):
    """A record found by its time."""

    timestamp_ms: TimestampMs
    offset: Offset
    leader_epoch: LeaderEpoch


class RecoveryReport(NamedTuple):
    """What loading a log had to repair, for the caller to report."""

    segments_checked: int = 0
    bytes_truncated: int = 0
    segments_dropped: int = 0
    indexes_rebuilt: int = 0
    leftovers_removed: int = 0
    swaps_finished: int = 0
    first_fault: str | None = None  # what the first broken batch looked like
    losses: tuple[str, ...] = ()  # what is no longer in the log, from where to where, and why

    @property
    def is_clean(self) -> bool:
        return not (self.bytes_truncated or self.segments_dropped or self.indexes_rebuilt)

    def notes(self, name: str) -> list[str]:
        """What the operator has to know of it, as lines with the log's name."""
        notes = [f"{name}: {loss}" for loss in self.losses]
        if self.first_fault is not None and not notes:
            notes.append(f"{name}: damaged, nothing is dropped: {self.first_fault}")
        return notes


NOTHING = LogRead(None)
OUT_OF_RANGE = LogRead(None, ErrorCode.OFFSET_OUT_OF_RANGE)
CORRUPT = LogRead(None, ErrorCode.CORRUPT_MESSAGE)


def refused(
    error_code: ErrorCode, message: str, *, log_start_offset: Offset, record_indexes: tuple[int, ...] = ()
) -> AppendInfo:
    """The answer to an append that did not happen."""
    return AppendInfo(-1, -1, NO_TIMESTAMP_MS, log_start_offset, error_code, message, record_indexes)


# Log end offset, log start offset, size in bytes, segments; messages and bytes appended since it was loaded.
LogFigures: TypeAlias = tuple[Offset, Offset, int, int, int, int]
