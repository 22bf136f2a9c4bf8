"""Power is lost at any operation: what was flushed is there, and nothing that is there was never written.

The disk is simulated: un-fsynced bytes are lost, torn or zeroed, un-fsynced names are lost from some point on.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.log_making import DIRECTORY, NOW_MS, append, batch, flush, headers_of, open_log, read_all

_CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, retention_ms=200)


class _History:
    """Does random things to a log and remembers what was promised."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(seed)
        self.disk.make_dirs(DIRECTORY)
        self.disk.fsync_dir("/")
        self.disk.fsync_dir("/data")
        self.written: dict[int, set[bytes]] = {}  # every value that an offset ever had
        self.current: dict[int, bytes] = {}
        self.batch_starts: dict[int, int] = {}  # the base offset of the batch that an offset is in
        self.durable_end = 0
        self.start_offset = 0
        self.epoch = 0
        self.now_ms = NOW_MS
        self.log: Log | None = None

    def run(self, steps: int) -> None:
        self.log = log = open_log(self.disk, _CONFIG)
        flush(log)
        for _ in range(steps):
            self.now_ms += 1
            self.random.choices(
                (self.append, self.replicate, self.flush, self.roll, self.truncate, self.delete, self.expire),
                weights=(50, 20, 12, 4, 4, 2, 2),
            )[0](log)

    def _remember(self, offset: int, value: bytes, *, batch_start: int) -> None:
        self.current[offset] = value
        self.batch_starts[offset] = batch_start
        self.written.setdefault(offset, set()).add(value)

    def append(self, log: Log) -> None:
        values = [self.random.randbytes(self.random.randint(1, 300)) for _ in range(self.random.randint(1, 3))]
        for number, value in enumerate(values):
            self._remember(log.log_end_offset + number, value, batch_start=log.log_end_offset)
        append(log, *values, now_ms=self.now_ms, leader_epoch=self.epoch)

    def replicate(self, log: Log) -> None:
        data = bytearray()
        for number in range(self.random.randint(1, 8)):
            value = self.random.randbytes(self.random.randint(1, 300))
            offset = log.log_end_offset + number
            self._remember(offset, value, batch_start=offset)
            data += batch(value, base_offset=offset, leader_epoch=self.epoch, timestamp_ms=self.now_ms)
        log.append_as_follower(memoryview(data), now_ms=self.now_ms)

    def flush(self, log: Log) -> None:
        flush(log)
        self.durable_end = log.recovery_point

    def roll(self, log: Log) -> None:
        log.roll(self.now_ms)

    def truncate(self, log: Log) -> None:
        offset = self.random.randint(log.log_start_offset, log.log_end_offset)
        if offset < log.log_end_offset:
            # A batch goes as a whole, and the crash may come before the log says where it ends now.
            self.durable_end = min(self.durable_end, self.batch_starts[offset])
        removed = log.truncate_to(offset, now_ms=self.now_ms)
        self.epoch += 1
        self._remove(removed)

    def delete(self, log: Log) -> None:
        self.start_offset = self.random.randint(log.log_start_offset, log.log_end_offset)
        log.advance_log_start_offset(self.start_offset)
        self._remove(log.delete_old_segments(self.now_ms))

    def expire(self, log: Log) -> None:
        self.now_ms += 100
        removed = log.delete_old_segments(self.now_ms, high_watermark=log.recovery_point)
        self.start_offset = log.log_start_offset
        self._remove(removed)

    def _remove(self, paths: list[str]) -> None:
        if self.random.random() < 0.5:
            for path in paths:
                self.disk.remove(path)

    def check(self, log: Log) -> None:
        records = read_all(log)
        offsets = [record.offset for record in records]
        assert offsets == list(range(log.log_start_offset, log.log_end_offset)), "gaps or inversions"
        assert log.log_end_offset >= self.durable_end, "flushed records are lost"
        for record in records:
            assert record.value in self.written[record.offset], "a value that was never written there"
            if record.offset < self.durable_end:
                assert record.value == self.current[record.offset], "a flushed record has changed"
        for record in records[:: max(len(records) // 10, 1)]:
            assert read_all(log, record.offset)[0].offset == record.offset
            found = log.offset_for_timestamp(record.timestamp_ms)
            assert found is not None
            assert found.offset <= record.offset
        epochs = [header.leader_epoch for header in headers_of(log)]
        assert epochs == sorted(epochs), "the log of an older leader behind that of a newer one"
        for header in headers_of(log):
            assert log.leader_epochs.epoch_of(header.last_offset) == header.leader_epoch


def _reload(history: _History, disk: SimulatedDisk, *, recovery_point: int) -> Log:
    return open_log(
        disk,
        _CONFIG,
        was_clean=False,
        recovery_point=recovery_point,
        log_start_offset=history.start_offset,
        now_ms=history.now_ms,
    )


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 80), survives=st.integers(0, 1000), lag=st.booleans())
def test_a_crash_keeps_what_was_flushed_and_invents_nothing(seed: int, steps: int, survives: int, lag: bool) -> None:
    history = _History(seed)
    history.disk.crash_after(survives)
    try:
        history.run(steps)
    except SimulatedCrash:
        pass
    disk = history.disk.crash()
    # The checkpoint of the recovery point may be older than the recovery point.
    recovery_point = history.random.randint(0, history.durable_end) if lag else history.durable_end
    log = _reload(history, disk, recovery_point=recovery_point)
    history.check(log)
    append(log, b"goes on", now_ms=history.now_ms, leader_epoch=history.epoch + 1)
    log.close(now_ms=history.now_ms)
    end_offset = log.log_end_offset
    again = open_log(disk.crash(), _CONFIG, log_start_offset=history.start_offset, now_ms=history.now_ms)
    assert again.recovery.is_clean
    assert again.log_end_offset == end_offset
    assert read_all(again)[-1].value == b"goes on"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(20, 80), survives=st.lists(st.integers(0, 60), max_size=4))
def test_a_crash_during_recovery_is_recovered_from(seed: int, steps: int, survives: list[int]) -> None:
    history = _History(seed)
    history.run(steps)
    disk = history.disk.crash()
    for operations in survives:
        disk.crash_after(operations)
        try:
            _reload(history, disk, recovery_point=history.durable_end)
        except SimulatedCrash:
            pass
        disk = disk.crash()
    history.check(_reload(history, disk, recovery_point=history.durable_end))


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_process_loses_nothing_at_all(seed: int) -> None:
    history = _History(seed)
    history.run(60)
    assert history.log is not None
    end_offset = history.log.log_end_offset
    log = _reload(history, history.disk, recovery_point=history.durable_end)
    assert log.log_end_offset == end_offset
    assert log.recovery.is_clean
    history.check(log)
