"""The header view: fields, walks from batch to batch, patches in place."""

import google_crc32c
import pytest

from ottla.records.checksum import crc32c
from ottla.records.errors import CorruptBatch
from ottla.records.header import (
    HEADER,
    HEADER_BYTES,
    add_to_sequence,
    crc_of,
    iter_headers,
    patch_base_offset_and_epoch,
    read_header,
    set_append_time,
)
from ottla.records.read import read_batch
from tests.records.samples import NOW_MS, RECORDS, builder_of


def test_header_is_61_bytes():
    assert HEADER.size == HEADER_BYTES == 61


def test_header_gives_what_the_batch_was_built_with():
    batch = builder_of().build(
        codec=3,
        base_offset=1000,
        leader_epoch=7,
        producer_id=42,
        producer_epoch=3,
        base_sequence=11,
        is_transactional=True,
    )
    header = read_header(batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (1000, 1003, 1004)
    assert (header.leader_epoch, header.magic, header.record_count) == (7, 2, 4)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (42, 3, 11, 14)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW_MS, NOW_MS + 3_000_000)
    assert header.compression == 3
    assert header.is_transactional
    assert not header.is_control
    assert not header.is_log_append_time
    assert header.delete_horizon_ms is None


def test_batch_without_producer_has_no_last_sequence():
    header = read_header(builder_of().build())
    assert header.producer_id == -1
    assert header.last_sequence == -1


def test_sequence_wraps_from_the_largest_to_zero():
    assert add_to_sequence(2**31 - 1, 1) == 0
    assert add_to_sequence(2**31 - 2, 1) == 2**31 - 1
    header = read_header(builder_of().build(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 1


def test_patching_offset_and_epoch_leaves_the_checksum_valid():
    buffer = bytearray(b"before") + builder_of().build()
    patch_base_offset_and_epoch(memoryview(buffer), 6, base_offset=2**40, leader_epoch=9)
    header, records = read_batch(buffer, 6)
    assert (header.base_offset, header.leader_epoch) == (2**40, 9)
    assert [record.offset for record in records] == [2**40, 2**40 + 1, 2**40 + 2, 2**40 + 3]


@pytest.mark.parametrize("codec", [0, 1])
def test_append_time_is_the_time_of_every_record_and_the_checksum_is_renewed(codec):
    batch = builder_of().build(codec=codec)
    changed = set_append_time(memoryview(batch), 0, header=read_header(batch), append_time_ms=NOW_MS + 77)
    header, records = read_batch(batch)
    assert header == changed
    assert header.is_log_append_time
    assert header.compression == codec
    assert header.base_timestamp_ms == NOW_MS
    assert {record.timestamp_ms for record in records} == {NOW_MS + 77}


def test_walk_gives_each_batch_with_its_position():
    first = builder_of().build(base_offset=0)
    second = builder_of(RECORDS[:1]).build(base_offset=4)
    walked = list(iter_headers(memoryview(first + second)))
    assert [(position, header.base_offset) for position, header in walked] == [(0, 0), (len(first), 4)]


def test_walk_of_nothing_is_empty():
    assert list(iter_headers(b"")) == []


def test_walk_may_end_within_a_batch_only_where_allowed():
    batch = bytes(builder_of().build())
    for cut in range(1, len(batch), 97):
        data = batch + batch[:cut]
        assert len(list(iter_headers(data, allow_partial_tail=True))) == 1
        with pytest.raises(CorruptBatch):
            list(iter_headers(data))


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_walk_refuses_nonsense_lengths(length):
    batch = builder_of().build()
    batch[8:12] = (length & 0xFFFFFFFF).to_bytes(4, "big")
    with pytest.raises(CorruptBatch):
        list(iter_headers(batch))


def test_walk_refuses_a_short_nonsense_tail_even_where_a_partial_one_is_allowed():
    with pytest.raises(CorruptBatch):
        list(iter_headers(b"\xff" * 30, allow_partial_tail=True))


def test_walk_refuses_other_formats():
    batch = builder_of().build()
    batch[16] = 1
    with pytest.raises(CorruptBatch, match="magic 1"):
        list(iter_headers(batch))


def test_reading_a_header_outside_the_buffer_is_refused():
    batch = builder_of().build()
    for position in (-1, len(batch) - 60, len(batch), len(batch) + 1000):
        with pytest.raises(CorruptBatch):
            read_header(batch, position)


@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 65536, 65537, 65536 + 16384 + 1, 300_000])
def test_checksum_is_the_same_for_every_kind_of_buffer(size):
    data = bytes(range(256)) * (size // 256 + 1)
    data = b"??" + data[:size] + b"!!!"
    expected = google_crc32c.value(data[2 : 2 + size])
    assert crc32c(data, 2, 2 + size) == expected
    assert crc32c(bytearray(data), 2, 2 + size) == expected
    assert crc32c(memoryview(data), 2, 2 + size) == expected
    assert crc32c(memoryview(bytearray(data)), 2, 2 + size) == expected


def test_checksum_leaves_no_hold_on_the_buffer():
    buffer = bytearray(1_000_000)
    crc_of(buffer, 0, len(buffer))
    buffer += b"resized"
