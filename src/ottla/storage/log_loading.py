"""Making a `Log` from a partition's folder: new, after a clean stop, or after an unclean one.

A clean log costs one listing of its folder and a look at the end of its last segment; everything else is read when it
is needed. After an unclean stop all from the recovery point on is checked.
"""

from collections.abc import Iterator
from contextlib import suppress

from ottla.core.disk import DirEntry
from ottla.core.errors import StorageError
from ottla.core.types import LeaderEpoch, Offset, TimestampMs
from ottla.records.errors import CorruptBatch
from ottla.storage.checkpoints import MalformedCheckpoint
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.leftovers import finish_leftovers, has_leftovers
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_results import RecoveryReport
from ottla.storage.offset_index import OFFSET_ENTRY
from ottla.storage.open_files import OpenFiles
from ottla.storage.producer_state import ProducerState
from ottla.storage.recovery import recover_segments, remove_files
from ottla.storage.segment import Segment
from ottla.storage.segment_files import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    is_partition_folder,
    parse_name,
    segment_path,
)
from ottla.storage.segment_list import SegmentList
from ottla.storage.sparse_index import IndexCorrupt
from ottla.storage.time_index import TIME_ENTRY

_ONE_DAY_MS = 24 * 3600 * 1000


class NotAPartition(Exception):
    """A folder that is named like a partition and holds none of Kafka's files: it is not ours."""


def load_log(
    open_files: OpenFiles,
    directory: str,
    config: LogConfig,
    *,
    recovery_point: Offset,
    log_start_offset: Offset,
    was_clean: bool,
    now_ms: TimestampMs,
    producer_expiration_ms: int = _ONE_DAY_MS,
    is_new: bool = False,
    is_found: bool = False,
) -> Log:
    """The log in `directory`, which is made when it is missing; `log.recovery` has what was repaired.

    `is_new`: the folder was just made, and has no segment. `is_found`: only its name says that it is a partition;
    NotAPartition when nothing in it does. May run on a thread, one log at a time. StorageError: the disk fails.
    """
    loading = _Loading(open_files, directory, config, now_ms=now_ms, is_new=is_new, is_found=is_found)
    try:
        return loading.run(
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            was_clean=was_clean,
            producer_expiration_ms=producer_expiration_ms,
        )
    except OSError as error:
        raise StorageError(f"{directory}: loading failed: {error}") from error


class _Loading:
    """One load, step by step; thrown away afterwards."""

    def __init__(
        self,
        open_files: OpenFiles,
        directory: str,
        config: LogConfig,
        *,
        now_ms: TimestampMs,
        is_new: bool,
        is_found: bool,
    ) -> None:
        self.open_files = open_files
        self.disk = open_files.disk
        self.directory = directory
        self.config = config
        self.now_ms = now_ms
        self.is_new = is_new
        self.is_found = is_found
        self.report = RecoveryReport()
        self.sizes: dict[Offset, dict[str, int]] = {}  # base offset -> suffix -> bytes
        self.snapshot_offsets: list[Offset] = []
        self.has_epoch_file = False
        self.segments: list[Segment] = []
        self.unsynced: list[Segment] = []
        self.needs_dir_sync = False

    def run(
        self, *, recovery_point: Offset, log_start_offset: Offset, was_clean: bool, producer_expiration_ms: int
    ) -> Log:
        if not self.is_new:
            self._take_names(self._list_in_order())
        self._make_segments()
        log_start_offset = max(log_start_offset, self.segments[0].base_offset if self.segments else 0)
        leader_epochs = self._load_leader_epochs(log_start_offset)
        if was_clean:
            end_offset = self._end_offset_of_clean_log()
            if end_offset is None:
                was_clean = False
        if not was_clean:
            end_offset = self._recover(recovery_point, leader_epochs)
        if end_offset is None or end_offset < log_start_offset or not self.segments:
            end_offset = self._start_empty(log_start_offset, old_end_offset=end_offset)
        leader_epochs.truncate_from_end(end_offset)
        leader_epochs.truncate_from_start(log_start_offset)
        producer_state = ProducerState(
            self.disk,
            self.directory,
            expiration_ms=producer_expiration_ms,
            snapshot_offsets=self.snapshot_offsets,
        )
        segment_list = SegmentList(
            self.directory,
            self.config,
            open_files=self.open_files,
            segments=self.segments,
            unsynced=self.unsynced,
            needs_dir_sync=self.needs_dir_sync or not was_clean,
        )
        log = Log(
            segment_list,
            disk=self.disk,
            log_start_offset=log_start_offset,
            log_end_offset=end_offset,
            # A clean stop has fsynced everything, whatever an older checkpoint has.
            recovery_point=end_offset if was_clean else max(min(recovery_point, end_offset), log_start_offset),
            producer_state=producer_state,
            leader_epochs=leader_epochs,
            recovery=self.report,
            was_changed=not was_clean or self.needs_dir_sync,
            now_ms=self.now_ms,
        )
        if len(self.snapshot_offsets) > 2:
            producer_state.remove_stray_snapshots(segment.base_offset for segment in self.segments)
        # From what is in the files, even below the log's start: a producer may continue after a deleted record.
        replay_from = producer_state.load(
            log_start_offset=segment_list.first_base_offset,
            log_end_offset=end_offset,
            now_ms=self.now_ms,
            is_clean=was_clean,
        )
        # A broken header in an old segment must not keep the log from its use: readers find it, and so does the scrub.
        with suppress(CorruptBatch):
            log.replay_producers(replay_from)
        for path in self.segments[-1].paths:
            self.open_files.forget(path)  # thousands of logs are loaded, few are used at once
        return log

    def _list_in_order(self) -> list[DirEntry]:
        try:
            entries = self.disk.list(self.directory)
        except FileNotFoundError:
            self.disk.make_dirs(self.directory)
            return []
        if self.is_found and not is_partition_folder(entries):
            raise NotAPartition(f"{self.directory}: named like a partition, but holds no file of one; left alone")
        if has_leftovers(entries):
            removed, finished = finish_leftovers(self.disk, self.directory, entries)
            self.report = self.report._replace(leftovers_removed=removed, swaps_finished=finished)
            entries = self.disk.list(self.directory)
        return entries

    def _take_names(self, entries: list[DirEntry]) -> None:
        for name, _, size_bytes in entries:
            parsed = parse_name(name)
            if parsed is None:
                if name == LEADER_EPOCH_FILE:
                    self.has_epoch_file = True
                continue
            base_offset, suffix = parsed
            if suffix == SNAPSHOT_SUFFIX:
                self.snapshot_offsets.append(base_offset)
            elif suffix in SEGMENT_SUFFIXES:
                self.sizes.setdefault(base_offset, {})[suffix] = size_bytes

    def _make_segments(self) -> None:
        for base_offset in sorted(self.sizes):
            sizes = self.sizes[base_offset]
            if LOG_SUFFIX not in sizes:
                for suffix in sizes:  # an index without its log
                    self.disk.remove(segment_path(self.directory, base_offset, suffix))
                continue
            segment = Segment(
                self.directory,
                base_offset,
                open_files=self.open_files,
                config=self.config,
                created_ms=self.now_ms,
                log_bytes=sizes[LOG_SUFFIX],
                offset_index_bytes=sizes.get(OFFSET_INDEX_SUFFIX, 0),
                time_index_bytes=sizes.get(TIME_INDEX_SUFFIX, 0),
                transaction_index_bytes=sizes.get(TRANSACTION_INDEX_SUFFIX, 0),
            )
            self.segments.append(segment)

    def _load_leader_epochs(self, log_start_offset: Offset) -> LeaderEpochs:
        """From the file; from the batches' own headers where it is missing or malformed, or begins too late.

        It begins too late when a crash came between its write and that of a log start that had moved up: without the
        epochs before, a follower would be sent to a wrong offset.
        """
        leader_epochs = LeaderEpochs(self.disk, self.directory)
        if self.has_epoch_file:
            try:
                leader_epochs.load()
            except MalformedCheckpoint:
                leader_epochs.clear()
        known = leader_epochs.entries()
        if known and known[0][1] <= log_start_offset:
            return leader_epochs
        if known:
            leader_epochs.clear()
        for epoch, start_offset in (*self._epochs_of_batches(before=known[0][1] if known else None), *known):
            leader_epochs.assign(epoch, start_offset)
        return leader_epochs

    def _epochs_of_batches(self, *, before: Offset | None) -> Iterator[tuple[LeaderEpoch, Offset]]:
        for segment in self.segments:
            try:
                for _, header in segment.headers():
                    if before is not None and header.base_offset >= before:
                        return
                    yield header.leader_epoch, header.base_offset
            except CorruptBatch:
                return  # what is behind it is recovered, and assigned then

    def _end_offset_of_clean_log(self) -> Offset | None:
        """From the last segment's last index entry on; None when the stop can't have been that clean."""
        if not self.segments:
            return None
        for segment in self.segments:
            self._repair_indexes(segment)
        active = self.segments[-1]
        if not active.size_bytes:
            return active.base_offset
        try:
            return _end_offset_of(active)
        except (CorruptBatch, IndexCorrupt):
            return None

    def _repair_indexes(self, segment: Segment) -> None:
        """Rebuild indexes that are missing or of an impossible size; other damage is found when they are used."""
        sizes = self.sizes[segment.base_offset]
        offset_index_bytes = sizes.get(OFFSET_INDEX_SUFFIX)
        time_index_bytes = sizes.get(TIME_INDEX_SUFFIX)
        if not segment.size_bytes and not offset_index_bytes and not time_index_bytes:
            return
        if (
            offset_index_bytes is None
            or time_index_bytes is None
            or offset_index_bytes % OFFSET_ENTRY.size
            or time_index_bytes % TIME_ENTRY.size
        ):
            self._rebuild_indexes(segment)

    def _rebuild_indexes(self, segment: Segment) -> None:
        try:
            segment.rebuild_indexes(segment.headers())
        except CorruptBatch as error:
            if self.report.first_fault is None:
                self.report = self.report._replace(first_fault=f"{segment.log_path}: {error}")
        if segment is not self.segments[-1]:
            self.unsynced.append(segment)
        self.needs_dir_sync = True
        self.report = self.report._replace(indexes_rebuilt=self.report.indexes_rebuilt + 1)

    def _recover(self, recovery_point: Offset, leader_epochs: LeaderEpochs) -> Offset | None:
        segments = self.segments
        if not segments:
            return None
        # A segment that ends at the recovery point is read again too: its log is durable, its indexes may not be.
        first = 0
        while first + 1 < len(segments) and segments[first + 1].base_offset < recovery_point:
            first += 1
        self.unsynced.clear()
        for segment in segments[:first]:
            self._repair_indexes(segment)
        leader_epochs.truncate_from_end(segments[first].base_offset)
        outcome = recover_segments(
            segments[first:],
            leader_epochs=leader_epochs,
            is_compacted=self.config.compact,
        )
        remove_files(outcome.dropped)
        del segments[first + len(outcome.checked) :]
        self.unsynced += outcome.checked[:-1]
        self.report = self.report._replace(
            segments_checked=len(outcome.checked),
            bytes_truncated=outcome.bytes_truncated,
            segments_dropped=len(outcome.dropped),
            first_fault=outcome.first_fault or self.report.first_fault,
        )
        active = segments[-1]
        end_offset = _end_offset_of(active) if active.size_bytes else active.base_offset
        if outcome.bytes_truncated or outcome.dropped:
            loss = f"cut at offset {end_offset}, {outcome.bytes_truncated} bytes are dropped"
            if outcome.dropped:
                loss += f", with {len(outcome.dropped)} segments from {outcome.dropped[0].base_offset} on"
            self._note_loss(f"{loss}: {outcome.first_fault}")
        return end_offset

    def _note_loss(self, loss: str) -> None:
        self.report = self.report._replace(losses=(*self.report.losses, loss))

    def _start_empty(self, offset: Offset, *, old_end_offset: Offset | None) -> Offset:
        """A new log, or one whose rest lies below its start: an empty segment at `offset`."""
        if self.segments:
            self.report = self.report._replace(
                segments_dropped=self.report.segments_dropped + len(self.segments),
                bytes_truncated=self.report.bytes_truncated + sum(segment.size_bytes for segment in self.segments),
            )
            self._note_loss(
                f"log start moved from {self.segments[0].base_offset} to {offset}, {len(self.segments)} segments that"
                f" end at {old_end_offset} are dropped: they lie below the log start that the checkpoint names"
            )
            remove_files(self.segments)
        self.unsynced.clear()
        segment = Segment(
            self.directory, offset, open_files=self.open_files, config=self.config, created_ms=self.now_ms
        )
        segment.create_files()
        self.segments[:] = [segment]
        self.needs_dir_sync = True
        return offset


def _end_offset_of(segment: Segment) -> Offset:
    """The offset after the segment's last batch, read from its last index entry on."""
    indexed_offset, indexed_position = segment.offset_index.last_entry()
    has_entry = segment.offset_index.entry_count > 0
    # No entry is ever made for the first batch: position 0 is a file of zeros.
    if indexed_position >= segment.size_bytes or indexed_position < (1 if has_entry else 0):
        raise IndexCorrupt(f"{segment.offset_index.path}: position {indexed_position} of {segment.size_bytes}")
    end_offset = segment.base_offset
    for position, header in segment.headers(indexed_position):
        if (
            has_entry
            and position == indexed_position
            and not segment.base_offset <= header.base_offset <= indexed_offset
        ):
            raise IndexCorrupt(f"{segment.offset_index.path}: {indexed_offset} is not at {position}")
        if header.base_offset < end_offset:
            raise CorruptBatch(f"batch at {position}: base offset {header.base_offset} after {end_offset - 1}")
        end_offset = header.next_offset
    segment.resume(indexed_position=indexed_position)
    return end_offset
