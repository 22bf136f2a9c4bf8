"""A log against a list: whatever is done to it in whatever order, it holds what the list holds."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.errors import ErrorCode
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.log_making import NOW_MS, append, batch, flush, open_log, read_all, read_bytes


class LogAgainstList(RuleBasedStateMachine):
    log: Log

    @initialize(
        segment_bytes=st.sampled_from((400, 2000, 100_000)),
        index_interval_bytes=st.sampled_from((1, 150, 4096)),
        files_max=st.sampled_from((2, 6, 100)),
    )
    def open(self, segment_bytes: int, index_interval_bytes: int, files_max: int) -> None:
        self.disk = SimulatedDisk(1)
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes, retention_ms=100
        )
        self.files_max = files_max
        self.log = open_log(self.disk, self.config, files_max=files_max)
        self.records: dict[int, tuple[bytes, int]] = {}  # offset -> value, timestamp
        self.start_offset = self.end_offset = 0
        self.now_ms = NOW_MS
        self.epoch = 0
        self.idempotent: list[tuple[int, bytes]] = []  # offset and value, by sequence

    @rule(count=st.integers(1, 4), size=st.sampled_from((1, 40, 70)), time_ms=st.integers(-50, 50))
    def append(self, count: int, size: int, time_ms: int) -> None:
        self.now_ms += 1
        values = [(b"%d" % (self.end_offset + number) * size)[:size] for number in range(count)]
        info = append(
            self.log, *values, now_ms=self.now_ms, timestamp_ms=self.now_ms + time_ms, leader_epoch=self.epoch
        )
        assert info.first_offset == self.end_offset
        for number, value in enumerate(values):
            self.records[self.end_offset + number] = (value, self.now_ms + time_ms)
        self.end_offset += len(values)

    @rule(count=st.integers(1, 6))
    def append_as_follower(self, count: int) -> None:
        data = bytearray()
        for number in range(count):
            offset = self.end_offset + number
            data += batch(b"f%d" % offset, base_offset=offset, timestamp_ms=self.now_ms, leader_epoch=self.epoch)
            self.records[offset] = (b"f%d" % offset, self.now_ms)
        info = self.log.append_as_follower(memoryview(data), now_ms=self.now_ms)
        assert info.error_code == 0
        self.end_offset += count

    @rule()
    def append_idempotent(self) -> None:
        value = b"i%d" % self.end_offset
        sequence = len(self.idempotent)
        info = self.log.append_as_leader(self._idempotent(sequence, value), leader_epoch=self.epoch, now_ms=NOW_MS)
        assert (info.error_code, info.is_duplicate, info.first_offset) == (0, False, self.end_offset)
        self.records[self.end_offset] = (value, self.now_ms)
        self.idempotent.append((self.end_offset, value))
        self.end_offset += 1

    def _idempotent(self, sequence: int, value: bytes) -> memoryview:
        return batch(value, timestamp_ms=self.now_ms, producer_id=7, producer_epoch=0, base_sequence=sequence)

    @precondition(lambda self: self.idempotent)
    @rule()
    def retry(self) -> None:
        offset, value = self.idempotent[-1]
        records = self._idempotent(len(self.idempotent) - 1, value)
        info = self.log.append_as_leader(records, leader_epoch=self.epoch, now_ms=NOW_MS)
        assert (info.is_duplicate, info.first_offset) == (True, offset)

    @rule()
    def flush(self) -> None:
        flush(self.log)
        assert self.log.recovery_point == self.end_offset

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset))
        self.log.truncate_to(offset, now_ms=self.now_ms)
        assert self.log.log_end_offset <= offset
        self.end_offset = self.log.log_end_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        self.records = {at: record for at, record in self.records.items() if at < self.end_offset}
        self.epoch += 1
        self.idempotent = [sent for sent in self.idempotent if sent[0] < self.end_offset]

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset))
        self.log.advance_log_start_offset(offset)
        self._forget_below(offset)

    @rule(age_ms=st.integers(0, 200))
    def delete_old(self, age_ms: int) -> None:
        self.now_ms += age_ms
        for path in self.log.delete_old_segments(self.now_ms):
            self.disk.remove(path)
        self._forget_below(self.log.log_start_offset)

    def _forget_below(self, offset: int) -> None:
        self.start_offset = max(self.start_offset, offset)
        self.records = {at: record for at, record in self.records.items() if at >= offset}

    @rule(is_clean=st.booleans())
    def reload(self, is_clean: bool) -> None:
        if is_clean:
            self.log.close(now_ms=self.now_ms)
        recovery_point = self.log.recovery_point
        self.log = open_log(
            self.disk,
            self.config,
            was_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=self.start_offset,
            files_max=self.files_max,
            now_ms=self.now_ms,
        )
        assert self.log.recovery.is_clean

    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start_offset, self.end_offset)

    @invariant()
    def every_record_is_read(self) -> None:
        found = {record.offset: (record.value, record.timestamp_ms) for record in read_all(self.log, max_bytes=700)}
        assert found == self.records

    @rule(data=st.data())
    def read_below_a_high_watermark(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset))
        high_watermark = data.draw(st.integers(offset, self.end_offset))
        read_bytes(self.log, offset, max_offset=high_watermark)
        assert self.log.read(self.end_offset + 1, max_bytes=1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    @rule(distance_ms=st.integers(-60, 60))
    def find_by_time(self, distance_ms: int) -> None:
        timestamp_ms = self.now_ms + distance_ms
        expected = next((at for at in sorted(self.records) if self.records[at][1] >= timestamp_ms), None)
        found = self.log.offset_for_timestamp(timestamp_ms)
        assert (found.offset if found else None) == expected

    @rule()
    def find_largest_time(self) -> None:
        found = self.log.offset_of_max_timestamp()
        if not self.records:
            assert found is None
            return
        largest_ms = max(timestamp_ms for _, timestamp_ms in self.records.values())
        assert found is not None
        assert found.timestamp_ms == largest_ms
        assert found.offset == min(at for at, record in self.records.items() if record[1] == largest_ms)


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
