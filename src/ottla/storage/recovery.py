"""Recovery of segments after an unclean stop: every batch is checked, the log is cut at the first that fails.

Reads in blocks of bounded size. Indexes and the leader epochs of what is read are rebuilt on the way. Returns what was
lost; reporting it is the caller's business.
"""

from collections.abc import Iterator

from ottla.core.types import NO_LEADER_EPOCH, Offset
from ottla.records.errors import CorruptBatch
from ottla.records.header import BatchHeader
from ottla.storage.batch_scan import scan_checked
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segment import Segment


class SegmentCheck:
    """One pass over one segment; afterwards it knows where the sound part ends."""

    __slots__ = ("_leader_epochs", "_segment", "end_offset", "fault", "has_gaps", "valid_bytes")

    def __init__(self, segment: Segment, leader_epochs: LeaderEpochs) -> None:
        self._segment = segment
        self._leader_epochs = leader_epochs
        self.end_offset: Offset = segment.base_offset
        self.valid_bytes = 0
        self.has_gaps = False
        self.fault: str | None = None

    def run(self) -> int:
        """Check, rebuild both indexes, cut what is broken; returns how many bytes were cut."""
        segment = self._segment
        size_bytes = segment.size_bytes
        try:
            segment.rebuild_indexes(self._sound_batches())
        except CorruptBatch as error:
            self.fault = f"{segment.log_path}: {error}"
            segment.truncate_at(self.valid_bytes, offset=self.end_offset)
        return size_bytes - self.valid_bytes

    def _sound_batches(self) -> Iterator[tuple[int, BatchHeader]]:
        segment = self._segment
        leader_epochs = self._leader_epochs
        if not segment.size_bytes:
            return
        for position, header in scan_checked(segment.log_file(), start=0, end=segment.size_bytes):
            base_offset = header.base_offset
            if base_offset < self.end_offset:
                raise CorruptBatch(f"batch at {position}: base offset {base_offset} after {self.end_offset - 1}")
            if not segment.holds_relative_offset(header.last_offset):
                raise CorruptBatch(f"batch at {position}: offset {header.last_offset} is too far for the segment")
            # Epochs only grow along a log: a smaller one is what was here before a truncation that did not survive.
            if NO_LEADER_EPOCH < header.leader_epoch < leader_epochs.latest_epoch:
                raise CorruptBatch(
                    f"batch at {position}: leader epoch {header.leader_epoch} after {leader_epochs.latest_epoch}"
                )
            if base_offset > self.end_offset:
                self.has_gaps = True
            yield position, header
            if header.leader_epoch > leader_epochs.latest_epoch:
                leader_epochs.assign(header.leader_epoch, base_offset)
            self.end_offset = header.next_offset
            self.valid_bytes = position + header.size_bytes


class RecoveredSegments:
    """The outcome of a recovery over the last segments of a log."""

    __slots__ = ("bytes_truncated", "checked", "dropped", "first_fault")

    def __init__(self) -> None:
        self.checked: list[Segment] = []  # what is left of those that were read
        self.dropped: list[Segment] = []  # later ones that can't follow
        self.bytes_truncated = 0
        self.first_fault: str | None = None


def recover_segments(segments: list[Segment], *, leader_epochs: LeaderEpochs, is_compacted: bool) -> RecoveredSegments:
    """Check `segments`, in their order, until one was cut or can't follow the one before it."""
    outcome = RecoveredSegments()
    previous: SegmentCheck | None = None
    for index, segment in enumerate(segments):
        fault = None if previous is None else _fault_between(previous, segment, is_compacted=is_compacted)
        if fault is None:
            check = SegmentCheck(segment, leader_epochs)
            outcome.bytes_truncated += check.run()
            outcome.checked.append(segment)
            previous = check
            fault = check.fault
            index += 1
        if fault is not None:
            outcome.first_fault = fault
            outcome.dropped = segments[index:]
            outcome.bytes_truncated += sum(dropped.size_bytes for dropped in outcome.dropped)
            break
    return outcome


def _fault_between(previous: SegmentCheck, segment: Segment, *, is_compacted: bool) -> str | None:
    base_offset = segment.base_offset
    if base_offset < previous.end_offset:
        return f"{segment.log_path}: begins below {previous.end_offset}, where the segment before it ends"
    # A log that was never compacted has no gaps: what is missing was lost with the power, and order comes before size.
    if base_offset > previous.end_offset and not is_compacted and not previous.has_gaps:
        return f"{segment.log_path}: offsets from {previous.end_offset} on are missing before it"
    return None


def remove_files(segments: list[Segment]) -> None:
    """Remove segments that recovery dropped, newest first: whatever part of it survives a crash leaves no hole."""
    for segment in reversed(segments):
        segment.remove_files()
