"""What a partition remembers of its idempotent producers: epoch, sequence and the last five batches of each.

Owned by one log, which asks `check` before a client's batch, calls `append` after every batch (a client's, a
replicated one, one that is replayed) and takes the snapshots. Rules as in Kafka's ProducerAppendInfo.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from ottla.core.disk import Disk
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, ProducerEpoch, ProducerId, TimestampMs
from ottla.records.header import BatchHeader
from ottla.storage.producer_snapshot import (
    CorruptSnapshot,
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
)
from ottla.storage.segment_files import SNAPSHOT_SUFFIX, segment_path

NO_SEQUENCE = -1
NO_TRANSACTION_OFFSET: Offset = -1
_SEQUENCE_MASK = 0x7FFF_FFFF  # sequences count modulo 2^31

# Batches are packed, 24 bytes each: a broker may remember millions of them, and only duplicates are ever unpacked.
_BATCH = Struct("<iiqq")  # last sequence, offset delta, last offset, timestamp
_BATCHES_KEPT_BYTES = 5 * _BATCH.size
_pack_batch = _BATCH.pack


class DuplicateBatch(NamedTuple):
    """The batch is in the log already; the producer is answered with where."""

    first_offset: Offset
    last_offset: Offset
    timestamp_ms: TimestampMs


class _Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp_ms",
        "next_sequence",
        "producer_epoch",
    )

    def __init__(self, producer_epoch: ProducerEpoch) -> None:
        self.producer_epoch = producer_epoch
        self.next_sequence = 0
        self.batches = b""
        self.last_timestamp_ms: TimestampMs = -1
        self.coordinator_epoch = -1
        self.current_txn_first_offset: Offset = NO_TRANSACTION_OFFSET


class ProducerState:
    """The producers of one partition, and its snapshot files.

    `snapshot_offsets` are those found when the folder was listed. Between `load` and the snapshots the state always
    stands for the log up to its end; the log replays what `load` or `truncate_and_reload` asks for.
    """

    __slots__ = ("_directory", "_disk", "_expiration_ms", "_producers", "_snapshot_offsets")

    def __init__(
        self, disk: Disk, directory: str, *, expiration_ms: int, snapshot_offsets: Iterable[Offset] = ()
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._expiration_ms = expiration_ms
        self._producers: dict[ProducerId, _Producer] = {}
        self._snapshot_offsets = sorted(snapshot_offsets)

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def snapshot_offsets(self) -> list[Offset]:
        """The offsets that a snapshot file exists for, ascending."""
        return list(self._snapshot_offsets)

    def check(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, base_sequence: int, last_sequence: int
    ) -> DuplicateBatch | ErrorCode | None:
        """May a client's batch be appended? None: yes. Else its duplicate, or the error to answer with.

        A producer without state may start anywhere: its records may have been deleted, or its id expired.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if producer_epoch == producer.producer_epoch:
            if base_sequence == producer.next_sequence:
                return None
            duplicate = _find_duplicate(producer.batches, base_sequence, last_sequence)
            # A retry of a batch older than the last five looks the same as a gap: the same error, as in Kafka.
            return duplicate if duplicate is not None else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer_epoch < producer.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return None if base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def append(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        last_sequence: int,
        *,
        last_offset: Offset,
        offset_delta: int,
        timestamp_ms: TimestampMs,
    ) -> None:
        """A batch is in the log. `offset_delta` is its last offset less its first, `timestamp_ms` its largest."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(producer_epoch)
        elif producer_epoch != producer.producer_epoch:
            producer.producer_epoch = producer_epoch
            producer.batches = b""
        batches = producer.batches + _pack_batch(last_sequence, offset_delta, last_offset, timestamp_ms)
        producer.batches = batches[-_BATCHES_KEPT_BYTES:]
        producer.next_sequence = (last_sequence + 1) & _SEQUENCE_MASK
        producer.last_timestamp_ms = timestamp_ms

    def append_batch(self, header: BatchHeader, last_offset: Offset) -> None:
        """A batch of a producer is in the log, and ends at `last_offset`. Markers of transactions have no sequence."""
        if not header.is_control:
            self.append(
                header.producer_id,
                header.producer_epoch,
                header.last_sequence,
                last_offset=last_offset,
                offset_delta=header.last_offset_delta,
                timestamp_ms=header.max_timestamp_ms,
            )

    def remove_expired(self, now_ms: TimestampMs) -> int:
        """Forget producers that were silent for `producer.id.expiration.ms`; returns how many."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if self._is_expired(producer.last_timestamp_ms, producer.current_txn_first_offset, now_ms)
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def set_expiration_ms(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms

    def _is_expired(
        self, last_timestamp_ms: TimestampMs, current_txn_first_offset: Offset, now_ms: TimestampMs
    ) -> bool:
        return current_txn_first_offset == NO_TRANSACTION_OFFSET and now_ms - last_timestamp_ms >= self._expiration_ms

    # Snapshots

    def take_snapshot(self, offset: Offset, *, durable: bool) -> None:
        """Save the state, which stands for the log up to `offset` (its end).

        When a segment rolls, `durable=False` saves the fsync: a file that a crash tears fails its checksum and is
        left out. A clean stop takes a durable one, since the next start trusts it without reading the log.
        """
        if offset in self._snapshot_offsets:
            return
        path = self._path(offset)
        data = encode_snapshot([_snapshot_entry(*item) for item in self._producers.items()])
        if durable:
            self._disk.write_atomically(path, data)
        else:
            file = self._disk.open_append(path)
            try:
                file.truncate(0)
                file.append(data)
            finally:
                file.close()
        self._snapshot_offsets.append(offset)
        self._snapshot_offsets.sort()

    def take_final_snapshot(self, offset: Offset) -> None:
        """The snapshot of a clean stop. A log that never had a producer needs none: `load` knows what that means."""
        if self._producers or self._snapshot_offsets:
            self.take_snapshot(offset, durable=True)

    def load(self, *, log_start_offset: Offset, log_end_offset: Offset, now_ms: TimestampMs, is_clean: bool) -> Offset:
        """Take the newest snapshot that can be read; returns the offset from which the log must be replayed.

        After a clean stop a log without any snapshot had no producers, and nothing is replayed. A snapshot that is
        corrupt is removed, and so is one beyond the log's end (the log was cut below it). One below the log's start is
        left out: batches behind it may be deleted, and its sequences would make correct producers look wrong. Without
        a snapshot all that is still there is replayed, also below the log's start.
        """
        self._producers.clear()
        offsets = self._snapshot_offsets
        is_trusted = is_clean
        while offsets:
            offset = offsets[-1]
            if offset > log_end_offset:
                self._remove_snapshot(offset)
                is_trusted = False
                continue
            if offset < log_start_offset:
                is_trusted = False
                break
            try:
                entries = decode_snapshot(self._disk.read(self._path(offset)), path=self._path(offset))
            except CorruptSnapshot:
                self._remove_snapshot(offset)
                is_trusted = False
                continue
            for entry in entries:
                if not self._is_expired(entry.timestamp_ms, entry.current_txn_first_offset, now_ms):
                    self._producers[entry.producer_id] = _producer_of(entry)
            return offset
        return log_end_offset if is_trusted else 0

    def truncate_and_reload(self, *, log_start_offset: Offset, log_end_offset: Offset, now_ms: TimestampMs) -> Offset:
        """The log was truncated to `log_end_offset`, or emptied: as `load`, and replay from the returned offset."""
        for offset in self.snapshot_offsets:
            if offset > log_end_offset or offset < log_start_offset:
                self._remove_snapshot(offset)
        return self.load(
            log_start_offset=log_start_offset, log_end_offset=log_end_offset, now_ms=now_ms, is_clean=False
        )

    def delete_snapshots_before(self, log_start_offset: Offset) -> None:
        """Segments below were deleted; the newest two snapshots stay whatever their offset."""
        for offset in self.snapshot_offsets[:-2]:
            if offset < log_start_offset:
                self._remove_snapshot(offset)

    def remove_stray_snapshots(self, segment_base_offsets: Iterable[Offset]) -> None:
        """Keep the snapshots at segment bases and the newest two; others are leftovers of earlier clean stops."""
        bases = set(segment_base_offsets)
        for offset in self.snapshot_offsets[:-2]:
            if offset not in bases:
                self._remove_snapshot(offset)

    def _remove_snapshot(self, offset: Offset) -> None:
        self._snapshot_offsets.remove(offset)
        path = self._path(offset)
        if self._disk.exists(path):
            self._disk.remove(path)

    def _path(self, offset: Offset) -> str:
        return segment_path(self._directory, offset, SNAPSHOT_SUFFIX)


def _find_duplicate(batches: bytes, base_sequence: int, last_sequence: int) -> DuplicateBatch | None:
    for batch_last_sequence, offset_delta, last_offset, timestamp_ms in _BATCH.iter_unpack(batches):
        if (
            batch_last_sequence == last_sequence
            and (batch_last_sequence - offset_delta) & _SEQUENCE_MASK == base_sequence
        ):
            return DuplicateBatch(last_offset - offset_delta, last_offset, timestamp_ms)
    return None


def _snapshot_entry(producer_id: ProducerId, producer: _Producer) -> SnapshotEntry:
    last_sequence, offset_delta, last_offset = NO_SEQUENCE, 0, -1
    if producer.batches:
        last_sequence, offset_delta, last_offset, _ = _BATCH.unpack(producer.batches[-_BATCH.size :])
    return SnapshotEntry(
        producer_id,
        producer.producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        producer.current_txn_first_offset,
    )


def _producer_of(entry: SnapshotEntry) -> _Producer:
    producer = _Producer(entry.producer_epoch)
    producer.last_timestamp_ms = entry.timestamp_ms
    producer.coordinator_epoch = entry.coordinator_epoch
    producer.current_txn_first_offset = entry.current_txn_first_offset
    if entry.last_offset >= 0:
        producer.batches = _pack_batch(entry.last_sequence, entry.offset_delta, entry.last_offset, entry.timestamp_ms)
        producer.next_sequence = (entry.last_sequence + 1) & _SEQUENCE_MASK
    return producer
