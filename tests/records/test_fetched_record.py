"""Cutting batches into records: the kernel and Python give the same, and it is what `read_batch` gives."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records import fetched_record
from ottla.records.build import BatchBuilder, assemble_batch, build_batch
from ottla.records.errors import CorruptBatch
from ottla.records.fetched_record import FetchedRecord, PythonFetchedRecord, split_in_python, split_records
from ottla.records.header import HEADER_BYTES, read_header
from ottla.records.kernel import IS_COMPILED, kernel
from ottla.records.read import read_batch
from ottla.records.varint import encode_varint
from tests.records.samples import CODECS, NOW_MS, RECORDS, builder_of, records

needs_kernel = pytest.mark.skipif(not IS_COMPILED, reason="the C kernel is not built here")
FIELDS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers", "timestamp_type", "leader_epoch")


def fields_of(record):
    return tuple(getattr(record, name) for name in FIELDS)


def split_by_kernel(header, body, *, from_offset=0, to_offset=2**63 - 1):
    append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
    return kernel.split_records(
        body,
        "orders",
        3,
        header.leader_epoch,
        header.base_offset,
        header.base_timestamp_ms,
        append_time_ms,
        header.last_offset_delta,
        header.record_count,
        from_offset,
        to_offset,
    )


@settings(max_examples=60, deadline=None)
@given(sample=records, codec=st.sampled_from(CODECS), base_offset=st.integers(0, 2**40), skipped=st.integers(0, 25))
def test_split_records_gives_what_read_batch_gives_from_an_offset_on(sample, codec, base_offset, skipped):
    batch = build_batch(sample, codec=codec, base_offset=base_offset, leader_epoch=7)
    from_offset = base_offset + skipped
    split = split_records(batch, topic="orders", partition=3, from_offset=from_offset)
    _, read = read_batch(batch)
    assert [fields_of(record) for record in split] == [
        ("orders", 3, record.offset, record.timestamp_ms, record.key, record.value, record.headers, 0, 7)
        for record in read
        if record.offset >= from_offset
    ]


@needs_kernel
@settings(max_examples=60, deadline=None)
@given(sample=records, base_offset=st.integers(0, 2**40), append_time_ms=st.none() | st.integers(0, 2**50))
def test_kernel_and_python_split_alike(sample, base_offset, append_time_ms):
    builder = builder_of(sample)
    batch = builder.build(base_offset=base_offset, append_time_ms=append_time_ms)
    header = read_header(batch)
    body = bytes(batch[HEADER_BYTES:])
    in_python = split_in_python(header, body, topic="orders", partition=3, from_offset=base_offset + 1)
    by_kernel = split_by_kernel(header, body, from_offset=base_offset + 1)
    assert list(map(fields_of, by_kernel)) == list(map(fields_of, in_python))
    assert list(map(repr, by_kernel)) == list(map(repr, in_python))


def outcome_of(split, *arguments, **keywords):
    try:
        return list(map(fields_of, split(*arguments, **keywords)))
    except CorruptBatch:
        return CorruptBatch


@pytest.mark.slow
@needs_kernel
@settings(max_examples=300, deadline=None)
@given(
    sample=records, changes=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=3), cut=st.data()
)
def test_kernel_and_python_refuse_the_same_damage(sample, changes, cut):
    batch = builder_of(sample).build(base_offset=100)
    header = read_header(batch)
    body = bytearray(batch[HEADER_BYTES:])
    for position, byte in changes:
        body[position % len(body)] = byte
    body = bytes(body[: cut.draw(st.integers(0, len(body)) | st.just(len(body)))])
    in_python = outcome_of(split_in_python, header, body, topic="orders", partition=3, from_offset=0)
    assert outcome_of(split_by_kernel, header, body) == in_python


@needs_kernel
@pytest.mark.parametrize(
    "number",
    [0, 1, -1, 63, 64, -64, -65, 2**31, 2**62, 2**63 - 1, -(2**63)],
)
def test_timestamps_at_the_edges_wrap_around_alike(number):
    encoded = b"\x00" + encode_varint(number) + encode_varint(0) + encode_varint(-1) + encode_varint(-1) + b"\x00"
    batch = assemble_batch(
        encode_varint(len(encoded)) + encoded,
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        attributes=0,
    )
    header = read_header(batch)
    body = bytes(batch[HEADER_BYTES:])
    (in_python,) = split_in_python(header, body, topic="orders", partition=3, from_offset=0)
    (by_kernel,) = split_by_kernel(header, body)
    assert by_kernel.timestamp_ms == in_python.timestamp_ms
    assert -(2**63) <= by_kernel.timestamp_ms < 2**63


def test_a_wrong_checksum_is_refused_unless_told_otherwise():
    batch = builder_of().build()
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        split_records(batch, topic="orders", partition=3)
    batch = builder_of().build()
    batch[17] ^= 1
    assert len(split_records(batch, topic="orders", partition=3, check_crc=False)) == len(RECORDS)


def test_records_outlive_the_buffer_that_they_were_cut_from():
    batch = builder_of().build()
    split = split_records(batch, topic="orders", partition=3)
    batch[:] = bytes(len(batch))
    assert [record.value for record in split] == [value for _, _, value, _ in RECORDS]
    assert split[1].headers == tuple(RECORDS[1][3])


@pytest.mark.parametrize("record_class", [FetchedRecord, PythonFetchedRecord], ids=["chosen", "python"])
def test_a_record_is_made_by_hand_pickled_and_deserialized_in_place(record_class):
    record = record_class("orders", 3, 17, NOW_MS, b"k", b"v", headers=(("h", b"1"),), timestamp_type=1, leader_epoch=4)
    assert fields_of(pickle.loads(pickle.dumps(record))) == fields_of(record)
    record.key = "k"
    record.value = {"v": 1}
    record.headers = ()
    assert fields_of(record) == ("orders", 3, 17, NOW_MS, "k", {"v": 1}, (), 1, 4)
    assert record_class("t", 0, 0, 0, None, None).headers == ()


def test_header_keys_that_are_no_utf_8_are_read_with_replacements():
    encoded = b"\x00\x00\x00\x01\x01\x02" + encode_varint(2) + b"\xff\xfe" + encode_varint(-1)
    batch = assemble_batch(
        encode_varint(len(encoded)) + encoded,
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        attributes=0,
    )
    (record,) = split_records(batch, topic="orders", partition=3)
    assert record.headers == (("��", None),)


@needs_kernel
def test_kernel_refuses_arguments_that_are_not_a_batch():
    with pytest.raises(TypeError):
        kernel.split_records(b"")
    with pytest.raises(TypeError):
        kernel.split_records(bytearray(b""), "t", 0, 0, 0, 0, None, 0, 0, 0, 0)
    with pytest.raises(OverflowError):
        kernel.split_records(b"", "t", 0, 0, 2**64, 0, None, 0, 0, 0, 0)
    with pytest.raises(CorruptBatch, match="more records"):
        kernel.split_records(b"", "t", 0, 0, 0, 0, None, 0, 1, 0, 0)


def test_a_batch_with_gaps_keeps_its_offsets():
    builder = BatchBuilder()
    builder.append(NOW_MS, b"a", b"1", offset_delta=3)
    builder.append(NOW_MS, b"b", b"2", offset_delta=300)
    split = split_records(builder.build(base_offset=1000, last_offset_delta=500), topic="orders", partition=3)
    assert [record.offset for record in split] == [1003, 1300]


def test_wrapping_is_that_of_64_bits():
    assert fetched_record.wrapped_to_int64(2**63) == -(2**63)
    assert fetched_record.wrapped_to_int64(-(2**63) - 1) == 2**63 - 1
    assert fetched_record.wrapped_to_int64(5) == 5
