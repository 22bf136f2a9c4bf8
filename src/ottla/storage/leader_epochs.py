"""Which leader epoch began at which offset: the history a follower truncates by, kept in `leader-epoch-checkpoint`.

Owned by one log. Changes stay in memory until `write`: the log writes the file before its recovery point moves past
the change, so what a crash takes from the file is found again in the batches that recovery reads.
"""

from bisect import bisect_right
from typing import NamedTuple

from ottla.core.disk import Disk
from ottla.core.types import NO_LEADER_EPOCH, LeaderEpoch, Offset
from ottla.storage.checkpoints import MalformedCheckpoint, encode_entries, parse_number, read_entries
from ottla.storage.segment_files import LEADER_EPOCH_FILE

UNDEFINED_EPOCH_OFFSET: Offset = -1


class EpochEnd(NamedTuple):
    """The answer to "where does this epoch end": the largest epoch not above it, and the offset after its last."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class LeaderEpochs:
    """The epochs of one log, oldest first; epochs and their start offsets both only grow."""

    __slots__ = ("_disk", "_epochs", "_path", "_start_offsets", "is_dirty", "latest_epoch")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{LEADER_EPOCH_FILE}"
        self._epochs: list[LeaderEpoch] = []
        self._start_offsets: list[Offset] = []
        self.latest_epoch: LeaderEpoch = NO_LEADER_EPOCH  # read on each append: a plain attribute
        self.is_dirty = False

    def load(self) -> None:
        """Read the file, which must exist; a malformed one raises MalformedCheckpoint and leaves the history empty."""
        path = self._path
        epochs: list[LeaderEpoch] = []
        start_offsets: list[Offset] = []
        for epoch_text, offset_text in read_entries(self._disk.read(path), path=path, fields=2):
            epoch = parse_number(epoch_text, path=path)
            start_offset = parse_number(offset_text, path=path)
            if epochs and (epoch <= epochs[-1] or start_offset < start_offsets[-1]):
                raise MalformedCheckpoint(
                    f"{path}: epoch {epoch} at {start_offset} follows epoch {epochs[-1]} at {start_offsets[-1]}"
                )
            epochs.append(epoch)
            start_offsets.append(start_offset)
        self._epochs = epochs
        self._start_offsets = start_offsets
        self.latest_epoch = epochs[-1] if epochs else NO_LEADER_EPOCH
        self.is_dirty = False

    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        """(epoch, start offset) pairs, oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def start_offset_of(self, leader_epoch: LeaderEpoch) -> Offset | None:
        """Where an epoch began; None for one that is not in the history."""
        index = bisect_right(self._epochs, leader_epoch) - 1
        return self._start_offsets[index] if index >= 0 and self._epochs[index] == leader_epoch else None

    def assign(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> None:
        """An epoch's first batch is at `start_offset`. Older or known epochs change nothing.

        Entries that start at or after `start_offset` had no batch of theirs kept, and go.
        """
        if leader_epoch <= self.latest_epoch:
            return
        while self._start_offsets and self._start_offsets[-1] >= start_offset:
            self._start_offsets.pop()
            self._epochs.pop()
        self._epochs.append(leader_epoch)
        self._start_offsets.append(start_offset)
        self.latest_epoch = leader_epoch
        self.is_dirty = True

    def epoch_of(self, offset: Offset) -> LeaderEpoch:
        """The epoch that an offset was written in; -1 when it lies before the history."""
        index = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[index] if index >= 0 else NO_LEADER_EPOCH

    def end_offset_of(self, leader_epoch: LeaderEpoch, *, log_end_offset: Offset) -> EpochEnd:
        """Where an epoch ends, by the rule of OffsetForLeaderEpoch (KIP-101, KIP-279).

        The latest epoch ends at the log end; a future epoch has no end; any other ends where the next larger begins.
        An epoch before the history ends where the history starts, so that the asker truncates to there.
        """
        if leader_epoch == NO_LEADER_EPOCH or leader_epoch > self.latest_epoch:
            return EpochEnd(NO_LEADER_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if leader_epoch == self.latest_epoch:
            return EpochEnd(leader_epoch, log_end_offset)
        higher = bisect_right(self._epochs, leader_epoch)
        if higher == 0:
            return EpochEnd(leader_epoch, self._start_offsets[0])
        return EpochEnd(self._epochs[higher - 1], self._start_offsets[higher])

    def truncate_from_end(self, end_offset: Offset) -> None:
        """The log now ends at `end_offset`: epochs that start at or after it are forgotten."""
        if not self._start_offsets or self._start_offsets[-1] < end_offset:
            return
        while self._start_offsets and self._start_offsets[-1] >= end_offset:
            self._start_offsets.pop()
            self._epochs.pop()
        self.latest_epoch = self._epochs[-1] if self._epochs else NO_LEADER_EPOCH
        self.is_dirty = True

    def truncate_from_start(self, start_offset: Offset) -> None:
        """The log now starts at `start_offset`: older epochs go, the one that holds it starts there."""
        starts = self._start_offsets
        index = bisect_right(starts, start_offset) - 1
        if index < 0 or starts[index] == start_offset == starts[0]:
            return
        del starts[:index]
        del self._epochs[:index]
        starts[0] = start_offset
        self.is_dirty = True

    def clear(self) -> None:
        """Forget everything, before a full recovery or when a replica starts from an empty log."""
        self._epochs.clear()
        self._start_offsets.clear()
        self.latest_epoch = NO_LEADER_EPOCH
        self.is_dirty = True

    def copy(self) -> "LeaderEpochs":
        """The history as it is now, to be written on another thread while this one goes on."""
        copied = LeaderEpochs.__new__(LeaderEpochs)
        copied._disk = self._disk
        copied._path = self._path
        copied._epochs = self._epochs.copy()
        copied._start_offsets = self._start_offsets.copy()
        copied.latest_epoch = self.latest_epoch
        copied.is_dirty = self.is_dirty
        return copied

    def write(self) -> None:
        """Make the history durable, if it changed since the last time."""
        if not self.is_dirty:
            return
        self.is_dirty = False
        try:
            lines = (f"{epoch} {offset}" for epoch, offset in zip(self._epochs, self._start_offsets, strict=True))
            self._disk.write_atomically(self._path, encode_entries(lines))
        except OSError:
            self.is_dirty = True
            raise
