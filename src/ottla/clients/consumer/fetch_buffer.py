"""Fetched batches between the client loop, which fetches, and the user, who reads; split into records only when read.

The client loop appends; everything else runs on the user's side. A batch is checked and decoded when its turn comes, so
batches that a seek or a rebalance drops cost nothing.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.clients.consumer.errors import DeserializationFailed
from ottla.clients.consumer.subscription import PartitionState
from ottla.clients.consumer.values import ConsumerRecord
from ottla.clients.errors import ClientError
from ottla.clients.fetched_batches import UnreadableRecords, WantedBatches
from ottla.records.errors import CorruptBatch
from ottla.records.fetched_record import split_records
from ottla.records.header import read_header

# Bytes to a user's object; not called for None (no key, a tombstone).
Deserializer: TypeAlias = Callable[[bytes], Any]


class FetchedPartition:
    """One partition's part of an answer; or an error to raise when its turn comes."""

    __slots__ = (
        "_batch",
        "_next_record",
        "_next_start",
        "error",
        "seek_count",
        "size_bytes",
        "state",
        "wanted",
    )

    def __init__(
        self,
        state: PartitionState,
        wanted: WantedBatches | None,
        *,
        size_bytes: int,
        error: ClientError | None = None,
    ) -> None:
        self.state = state
        self.wanted = wanted
        self.size_bytes = size_bytes
        self.error = error
        self.seek_count = state.seek_count
        self._next_start = 0
        self._batch: list[ConsumerRecord] = []
        self._next_record = 0

    @property
    def is_current(self) -> bool:
        """Whether it still fits its partition's position."""
        state = self.state
        return state.is_assigned and state.seek_count == self.seek_count

    def take(self, count: int, *, check_crcs: bool) -> list[ConsumerRecord]:
        """Up to `count` of the next records; empty when all were taken. Moves the position."""
        wanted = self.wanted
        assert wanted is not None
        state = self.state
        while self._next_record == len(self._batch):
            if self._next_start == len(wanted.starts):
                state.position = wanted.next_offset
                return []
            self._decode_next(wanted, check_crcs=check_crcs)
        first = self._next_record
        batch = self._batch
        taken = batch[first : first + count] if first or count < len(batch) else batch
        self._next_record = end = first + len(taken)
        if end < len(batch):
            state.position = batch[end].offset
        elif self._next_start < len(wanted.starts):
            state.position = taken[-1].offset + 1
        else:
            state.position = wanted.next_offset  # also past markers and records that compaction removed
        state.position_epoch = taken[-1].leader_epoch
        return taken

    @property
    def is_read(self) -> bool:
        """Whether all records were taken."""
        wanted = self.wanted
        return wanted is not None and self._next_start == len(wanted.starts) and self._next_record == len(self._batch)

    def detach(self) -> None:
        """Copy its own bytes: a slice would keep the whole answer, with all other partitions, in memory."""
        wanted = self.wanted
        if wanted is not None and isinstance(wanted.data, memoryview):
            self.wanted = wanted._replace(data=wanted.data.tobytes())

    def put_back(self, count: int) -> None:
        """Return the last `count` records: the user did not get them."""
        self._next_record -= count
        self.state.position = self._batch[self._next_record].offset

    def _decode_next(self, wanted: WantedBatches, *, check_crcs: bool) -> None:
        topic, partition = wanted.topic_partition
        try:
            records = split_records(
                wanted.data,
                wanted.starts[self._next_start],
                topic=topic,
                partition=partition,
                from_offset=wanted.from_offset,  # a broker sends whole batches, with earlier records too
                check_crc=check_crcs,
            )
        except CorruptBatch as damage:
            what = f"{wanted.topic_partition}: at offset {self.state.position}: {damage}; seek past it to go on"
            raise UnreadableRecords(what) from damage
        self._next_start += 1
        self._batch = records
        self._next_record = 0


class FetchBuffer:
    """Owned by one consumer. Calls `on_drained` when there is room that the client loop waits for."""

    def __init__(
        self,
        *,
        check_crcs: bool,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        on_drained: Callable[[], None],
    ) -> None:
        self.ready: deque[FetchedPartition] = deque()  # the client loop only appends to it
        self.is_loop_waiting = False  # the client loop stopped fetching because the buffer is full
        self._check_crcs = check_crcs
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._is_plain = key_deserializer is None and value_deserializer is None
        self._on_drained = on_drained

    def take(self, count: int) -> list[ConsumerRecord]:
        """Up to `count` records, oldest first within each partition; raises the error of a partition.

        Records before a failure are returned first; the next call raises the failure.
        """
        taken: list[ConsumerRecord] = []
        while len(taken) < count:
            fetched = self._next()
            if fetched is None:
                break
            if fetched.error is not None:
                if taken:
                    break
                self._drained(fetched)
                raise fetched.error
            try:
                records = fetched.take(count - len(taken), check_crcs=self._check_crcs)
            except UnreadableRecords:
                if taken:
                    break
                raise
            if records and not self._is_plain and not self._deserialize(fetched, records, taken):
                break
            if fetched.is_read:
                self._drained(fetched)  # now, so that the next fetch runs while the user reads these
            if self._is_plain:
                if not taken and len(records) == count:
                    return records
                taken += records
        return taken

    def take_fetched(self) -> WantedBatches | None:
        """All undecoded batches of the next partition, for columns; moves the position behind them."""
        while (fetched := self._next()) is not None:
            if fetched.error is not None:
                self._drained(fetched)
                raise fetched.error
            wanted = fetched.wanted
            assert wanted is not None
            position = fetched.state.position
            assert position is not None
            fetched.state.position = wanted.next_offset
            if wanted.starts:
                fetched.state.position_epoch = read_header(wanted.data, wanted.starts[-1]).leader_epoch
            self._drained(fetched)
            if wanted.starts:
                return wanted._replace(from_offset=max(position, wanted.from_offset))
        return None

    def _next(self) -> FetchedPartition | None:
        """The first that may be read; those of paused partitions keep their places, outdated ones are dropped."""
        for fetched in list(self.ready):
            if not fetched.is_current:
                self._drained(fetched)
            elif not fetched.state.is_paused:
                return fetched
            else:
                fetched.detach()
        return None

    def _drained(self, fetched: FetchedPartition) -> None:
        self.ready.remove(fetched)
        fetched.state.drained_bytes += fetched.size_bytes
        if self.is_loop_waiting:
            self._on_drained()

    def _deserialize(
        self, fetched: FetchedPartition, records: list[ConsumerRecord], taken: list[ConsumerRecord]
    ) -> bool:
        """Whether all succeeded; if not, the rest was put back for the start of the next call."""
        key_of, value_of = self._key_deserializer, self._value_deserializer
        for index, record in enumerate(records):
            key, value = record.key, record.value
            part = "key"
            try:
                if key_of is not None and key is not None:
                    key = key_of(key)
                part = "value"
                if value_of is not None and value is not None:
                    value = value_of(value)
            except Exception as reason:
                fetched.put_back(len(records) - index)
                if not taken:
                    raise DeserializationFailed(fetched.state.topic_partition, record.offset, part, reason) from reason
                return False
            record.key = key
            record.value = value
            taken.append(record)
        return True
