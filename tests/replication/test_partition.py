"""The high watermark and what hangs on it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode
from ottla.records.header import iter_headers
from ottla.replication.partition import Partition
from ottla.storage.log_config import LogConfig
from tests.replication.partitions import ORDERS, HandReplicas, append, make_partition
from tests.storage.log_making import NOW_MS, batch, flush


def visible_end(partition: Partition) -> int:
    """The offset after the last record that a consumer gets."""
    end = partition.log.log_start_offset
    while True:
        read = partition.read(end, max_bytes=1 << 20, at_least_one=True)
        if read.slice is None:
            return end
        data = read.slice.file.pread(read.slice.length, read.slice.position)
        end = list(iter_headers(data))[-1][1].next_offset


def test_without_flush_messages_every_append_counts_at_once() -> None:
    partition = make_partition()
    append(partition, 3)
    assert partition.high_watermark == partition.durable_end_offset == visible_end(partition) == 3


def test_with_one_flush_message_only_what_is_fsynced_counts() -> None:
    partition = make_partition(LogConfig(flush_messages=1))
    append(partition, 3)
    assert partition.high_watermark == visible_end(partition) == 0
    flush(partition.log)
    assert partition.maybe_advance_high_watermark()
    assert partition.high_watermark == visible_end(partition) == 3
    assert not partition.maybe_advance_high_watermark()


def test_with_n_flush_messages_one_less_than_n_may_be_behind() -> None:
    partition = make_partition(LogConfig(flush_messages=4))
    for _ in range(5):
        append(partition)
    assert partition.high_watermark == visible_end(partition) == 3
    flush(partition.log)
    partition.maybe_advance_high_watermark()
    append(partition)
    assert partition.high_watermark == 6


def test_high_watermark_within_a_batch_does_not_show_the_batch() -> None:
    partition = make_partition(LogConfig(flush_messages=4))
    append(partition, 2)
    append(partition, 2)
    assert partition.high_watermark == 3
    assert visible_end(partition) == 2


@given(
    st.sampled_from([1, 2, 3, 7]),
    st.lists(st.one_of(st.integers(1, 4), st.just("flush"), st.just("restore")), max_size=30),
)
@settings(max_examples=100, deadline=None)
def test_high_watermark_never_goes_back_and_never_counts_more_than_the_flush_mode_allows(
    flush_messages: int, steps: list[int | str]
) -> None:
    partition = make_partition(LogConfig(flush_messages=flush_messages))
    before = 0
    for step in steps:
        if isinstance(step, int):
            append(partition, step)
        elif step == "flush":
            flush(partition.log)
            partition.maybe_advance_high_watermark()
        else:
            partition.maybe_advance_high_watermark()
        log = partition.log
        assert before <= partition.high_watermark <= log.log_end_offset
        assert partition.high_watermark - log.recovery_point < flush_messages
        before = partition.high_watermark


def test_smaller_durable_end_does_not_take_the_high_watermark_back() -> None:
    partition = make_partition()
    append(partition, 5)
    partition.log.set_config(LogConfig(flush_messages=1))
    assert partition.durable_end_offset == 0
    assert not partition.maybe_advance_high_watermark()
    assert partition.high_watermark == 5


@pytest.mark.parametrize(
    ("checkpointed", "restored"), [(None, 2), (0, 2), (2, 2), (4, 4), (6, 6), (7, 6), (10**12, 6), (-1, 2)]
)
def test_restored_high_watermark_lies_within_the_log(checkpointed: int | None, restored: int) -> None:
    partition = make_partition()
    for _ in range(6):
        append(partition)
    partition.log.advance_log_start_offset(2)
    partition.restore_high_watermark(checkpointed)
    assert partition.high_watermark == restored


def test_new_partition_starts_at_the_start_of_its_log() -> None:
    partition = make_partition()
    for _ in range(3):
        append(partition)
    partition.log.advance_log_start_offset(2)
    partition.log.set_config(LogConfig(flush_messages=1))  # nothing is fsynced, so that nothing more counts
    again = HandReplicas().replicas.add(ORDERS, topic_id=bytes(16), log=partition.log, state=partition.state)
    assert again.high_watermark == again.low_watermark == 2


@pytest.mark.parametrize(
    ("epoch", "error_code"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epoch_of_a_client_is_compared_with_ours(epoch: int, error_code: ErrorCode) -> None:
    assert make_partition().check_leader_epoch(epoch) == error_code


def test_refused_append_moves_nothing() -> None:
    partition = make_partition(LogConfig(max_message_bytes=80))
    info, wait = partition.append(batch(b"x" * 100), acks=1, now_ms=NOW_MS)
    assert wait is None
    assert info.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert partition.high_watermark == partition.log.log_end_offset == 0


def test_batches_are_written_under_the_leader_epoch() -> None:
    partition = make_partition()
    append(partition)
    assert partition.log.leader_epochs.epoch_of(0) == partition.state.leader_epoch == 3


@pytest.mark.parametrize(
    ("offset", "error_code", "start"),
    [
        (0, ErrorCode.NONE, 0),
        (1, ErrorCode.NONE, 1),
        (2, ErrorCode.NONE, 2),
        (3, ErrorCode.OFFSET_OUT_OF_RANGE, 0),
        (4, ErrorCode.OFFSET_OUT_OF_RANGE, 0),
        (-1, ErrorCode.OFFSET_OUT_OF_RANGE, 0),
    ],
)
def test_records_are_deleted_up_to_the_high_watermark_at_most(offset: int, error_code: ErrorCode, start: int) -> None:
    partition = make_partition(LogConfig(flush_messages=3))
    for _ in range(4):
        append(partition)
    assert partition.high_watermark == 2
    assert partition.delete_records_before(offset) == error_code
    assert partition.low_watermark == start


def test_offset_below_the_start_deletes_nothing_and_is_no_error() -> None:
    partition = make_partition()
    append(partition, 4)
    partition.delete_records_before(3)
    assert partition.delete_records_before(1) == ErrorCode.NONE
    assert partition.low_watermark == 3
