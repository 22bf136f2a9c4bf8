"""Idempotent producers: sequences, epochs, duplicates, snapshots."""

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode
from ottla.storage.producer_snapshot import CorruptSnapshot, SnapshotEntry, decode_snapshot, encode_snapshot
from ottla.storage.producer_state import DuplicateBatch, ProducerState
from ottla.testing.simulated_disk import SimulatedDisk

_MAX_SEQUENCE = 2**31 - 1
_DAY_MS = 86_400_000


class _Harness:
    """A log reduced to its offsets: appends what passes the check."""

    def __init__(self, state: ProducerState) -> None:
        self.state = state
        self.end_offset = 0

    def produce(
        self, base_sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, now_ms: int = 1000
    ) -> DuplicateBatch | ErrorCode | None:
        last_sequence = (base_sequence + count - 1) & _MAX_SEQUENCE
        verdict = self.state.check(producer_id, epoch, base_sequence, last_sequence)
        if verdict is None:
            self.end_offset += count
            self.state.append(
                producer_id,
                epoch,
                last_sequence,
                last_offset=self.end_offset - 1,
                offset_delta=count - 1,
                timestamp_ms=now_ms,
            )
        return verdict


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    disk.fsync_dir("/")
    return disk


def _state(disk: SimulatedDisk, *snapshot_offsets: int) -> ProducerState:
    return ProducerState(disk, "/d", expiration_ms=_DAY_MS, snapshot_offsets=snapshot_offsets)


@pytest.fixture
def log(disk: SimulatedDisk) -> _Harness:
    return _Harness(_state(disk))


def test_unknown_producer_may_start_anywhere(log: _Harness) -> None:
    assert log.produce(41) is None
    assert log.produce(42) is None


def test_sequence_gap_is_out_of_order(log: _Harness) -> None:
    log.produce(0, 3)
    assert log.produce(4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.produce(3) is None


def test_each_of_the_last_five_batches_is_recognised(log: _Harness) -> None:
    for number in range(6):
        log.produce(number * 10, 10)
    for number in range(1, 6):
        assert log.produce(number * 10, 10) == DuplicateBatch(number * 10, number * 10 + 9, 1000)
    assert log.end_offset == 60


def test_duplicate_older_than_five_batches_is_out_of_order(log: _Harness) -> None:
    for number in range(6):
        log.produce(number)
    assert log.produce(0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_half_of_a_known_batch_is_no_duplicate(log: _Harness) -> None:
    log.produce(0, 10)
    assert log.produce(0, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.produce(5, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_wraps_within_and_between_batches(log: _Harness) -> None:
    assert log.produce(_MAX_SEQUENCE - 5, 5) is None
    assert log.produce(_MAX_SEQUENCE, 3) is None
    assert log.produce(2) is None
    assert log.produce(_MAX_SEQUENCE, 3) == DuplicateBatch(5, 7, 1000)
    other = log.produce(_MAX_SEQUENCE, producer_id=8)
    assert other is None
    assert log.produce(0, producer_id=8) is None


def test_old_epoch_is_refused(log: _Harness) -> None:
    log.produce(0, epoch=3)
    assert log.produce(1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.produce(0, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_new_epoch_starts_at_zero(log: _Harness) -> None:
    log.produce(0, 5, epoch=0)
    assert log.produce(5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.produce(0, epoch=1) is None
    assert log.produce(1, epoch=1) is None
    assert log.produce(0, 5, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_new_epoch_forgets_the_batches_of_the_old(log: _Harness) -> None:
    log.produce(0, epoch=0)
    log.produce(0, epoch=1)
    assert log.produce(0, epoch=1) == DuplicateBatch(1, 1, 1000)


def test_producers_do_not_see_each_other(log: _Harness) -> None:
    log.produce(0, producer_id=1)
    assert log.produce(5, producer_id=2) is None
    assert log.produce(1, producer_id=1) is None


def test_silent_producer_expires_and_may_start_anywhere(log: _Harness) -> None:
    log.produce(0, producer_id=1, now_ms=1000)
    log.produce(0, producer_id=2, now_ms=5000)
    assert log.state.remove_expired(1000 + _DAY_MS) == 1
    assert log.produce(9, producer_id=1) is None
    assert log.produce(9, producer_id=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_final_snapshot_makes_a_retry_after_restart_a_duplicate(disk: SimulatedDisk, log: _Harness) -> None:
    log.produce(0, 3)
    log.produce(3, 2)
    log.state.take_final_snapshot(5)
    after = _Harness(_state(disk.crash(), 5))
    assert after.state.load(log_start_offset=0, log_end_offset=5, now_ms=2000, is_clean=True) == 5
    assert after.produce(3, 2) == DuplicateBatch(3, 4, 1000)
    assert after.produce(6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert after.produce(5) is None


def test_log_without_producers_takes_no_final_snapshot_and_replays_nothing(disk: SimulatedDisk) -> None:
    state = _state(disk)
    state.take_final_snapshot(100)
    assert disk.list("/d") == []
    assert state.load(log_start_offset=0, log_end_offset=100, now_ms=0, is_clean=True) == 100
    assert state.load(log_start_offset=0, log_end_offset=100, now_ms=0, is_clean=False) == 0


def test_corrupt_snapshot_is_removed_and_an_older_one_replayed(disk: SimulatedDisk, log: _Harness) -> None:
    log.produce(0, 3)
    log.state.take_snapshot(3, durable=True)
    log.produce(3, 2)
    log.state.take_final_snapshot(5)
    path = "/d/00000000000000000005.snapshot"
    disk.corrupt(path, 20)
    after = _state(disk, 3, 5)
    assert after.load(log_start_offset=0, log_end_offset=5, now_ms=2000, is_clean=True) == 3
    assert not disk.exists(path)
    assert after.snapshot_offsets == [3]
    assert after.check(7, 0, 0, 2) == DuplicateBatch(0, 2, 1000)


def test_corrupt_only_snapshot_means_replay_from_the_start_even_after_a_clean_stop(
    disk: SimulatedDisk, log: _Harness
) -> None:
    log.produce(0, 3)
    log.state.take_final_snapshot(3)
    disk.corrupt("/d/00000000000000000003.snapshot", 3)
    after = _state(disk, 3)
    assert after.load(log_start_offset=1, log_end_offset=3, now_ms=2000, is_clean=True) == 0
    assert len(after) == 0


def test_snapshot_below_the_log_start_is_left_out(disk: SimulatedDisk, log: _Harness) -> None:
    log.produce(0, 3)
    log.state.take_snapshot(3, durable=True)
    after = _state(disk, 3)
    assert after.load(log_start_offset=5, log_end_offset=8, now_ms=2000, is_clean=False) == 0
    assert after.check(7, 0, 8, 8) is None


def test_snapshot_beyond_the_log_end_is_removed(disk: SimulatedDisk, log: _Harness) -> None:
    log.produce(0, 3)
    log.state.take_final_snapshot(3)
    after = _state(disk, 3)
    assert after.load(log_start_offset=0, log_end_offset=2, now_ms=2000, is_clean=False) == 0
    assert disk.list("/d") == []


def test_truncation_goes_back_to_the_snapshot_below(disk: SimulatedDisk, log: _Harness) -> None:
    for number in range(3):
        log.produce(number * 10, 10)
        log.state.take_snapshot(log.end_offset, durable=False)
    assert log.state.truncate_and_reload(log_start_offset=0, log_end_offset=25, now_ms=2000) == 20
    assert log.state.snapshot_offsets == [10, 20]
    assert log.state.check(7, 0, 10, 19) == DuplicateBatch(10, 19, 1000)
    assert log.state.check(7, 0, 20, 29) is None


def test_expired_producers_are_not_loaded(disk: SimulatedDisk, log: _Harness) -> None:
    log.produce(0, producer_id=1, now_ms=1000)
    log.produce(0, producer_id=2, now_ms=5000)
    log.state.take_final_snapshot(2)
    after = _state(disk, 2)
    after.load(log_start_offset=0, log_end_offset=2, now_ms=1000 + _DAY_MS, is_clean=True)
    assert len(after) == 1


def test_snapshots_at_segment_bases_and_the_newest_two_stay(disk: SimulatedDisk, log: _Harness) -> None:
    for number in range(6):
        log.produce(number)
        log.state.take_snapshot(log.end_offset, durable=False)
    log.state.remove_stray_snapshots([0, 2, 4])
    assert log.state.snapshot_offsets == [2, 4, 5, 6]
    log.state.delete_snapshots_before(5)
    assert log.state.snapshot_offsets == [5, 6]
    log.state.delete_snapshots_before(7)
    assert log.state.snapshot_offsets == [5, 6]
    assert len(disk.list("/d")) == 2


def test_torn_snapshot_of_a_roll_is_left_out_after_a_crash() -> None:
    kept = set()
    for seed in range(40):
        disk = SimulatedDisk(seed)
        disk.make_dirs("/d")
        disk.fsync_dir("/")
        log = _Harness(_state(disk))
        log.produce(0, 3)
        log.state.take_snapshot(3, durable=False)
        after_disk = disk.crash()
        offsets = [int(entry.name[:20]) for entry in after_disk.list("/d")]
        after = _state(after_disk, *offsets)
        replay_from = after.load(log_start_offset=0, log_end_offset=3, now_ms=2000, is_clean=False)
        kept.add(replay_from)
        if replay_from == 3:
            assert after.check(7, 0, 0, 2) == DuplicateBatch(0, 2, 1000)
        else:
            assert replay_from == 0
            assert after_disk.list("/d") == []
    assert kept == {0, 3}


def test_snapshot_bytes_are_kafkas_version_1() -> None:
    data = encode_snapshot([SnapshotEntry(4000, 2, 9, 99, 4, 1_700_000_000_000, -1, -1)])
    body = bytes.fromhex(
        "000000010000000000000fa00002000000090000000000000063000000040000018bcfe56800ffffffffffffffffffffffff"
    )
    assert data == b"\x00\x01" + google_crc32c.value(body).to_bytes(4, "big") + body


_ENTRIES = st.builds(
    SnapshotEntry,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(-1, _MAX_SEQUENCE),
    st.integers(-1, 2**63 - 1),
    st.integers(0, _MAX_SEQUENCE),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, _MAX_SEQUENCE),
    st.integers(-1, 2**63 - 1),
)


@settings(max_examples=100, deadline=None)
@given(entries=st.lists(_ENTRIES, max_size=5), position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_snapshot_is_noticed(entries: list[SnapshotEntry], position: int, bit: int) -> None:
    data = encode_snapshot(entries)
    assert list(decode_snapshot(data, path="s")) == entries
    damaged = bytearray(data)
    damaged[position % len(data)] ^= 1 << bit
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(damaged), path="s")


@settings(max_examples=100, deadline=None)
@given(counts=st.lists(st.integers(1, 1000), min_size=1, max_size=12), start=st.integers(0, _MAX_SEQUENCE))
def test_any_run_of_batches_is_in_order_and_its_last_five_are_duplicates(counts: list[int], start: int) -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    log = _Harness(_state(disk))
    sequence = start
    sent = []
    for count in counts:
        first_offset = log.end_offset
        assert log.produce(sequence, count) is None
        sent.append((sequence, count, first_offset))
        sequence = (sequence + count) & _MAX_SEQUENCE
    for age, (base_sequence, count, first_offset) in enumerate(reversed(sent)):
        expected = (
            DuplicateBatch(first_offset, first_offset + count - 1, 1000)
            if age < 5
            else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        assert log.produce(base_sequence, count) == expected
