"""What the bounded reader refuses, and that it gives back what was written."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ProtocolViolation
from ottla.protocol import primitives
from ottla.protocol.primitives import MAX_ELEMENTS, MAX_TAGGED_FIELDS, Reader, read_unsigned_varint

HUGE_COUNT = bytes.fromhex("ffffffff0f")


@pytest.mark.parametrize("count", ["count", "nullable_count"])
@pytest.mark.parametrize("claimed", ["7fffffff", "00000003", "fffffffe", "80000000"])
def test_array_count_over_the_bytes_left_is_refused(count, claimed):
    reader = Reader(bytes.fromhex(claimed) + bytes(11))
    with pytest.raises(ProtocolViolation, match="array of"):
        getattr(reader, count)(4)


@pytest.mark.parametrize("count", ["compact_count", "compact_nullable_count"])
def test_compact_array_count_over_the_bytes_left_is_refused_without_allocating(count):
    reader = Reader(HUGE_COUNT + bytes(1000))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolViolation, match="array of 4294967294 elements with 1000 bytes left at byte 5"):
            getattr(reader, count)(1)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_null_array_is_refused_where_null_is_not_allowed():
    with pytest.raises(ProtocolViolation):
        Reader(b"\xff\xff\xff\xff").count(1)
    with pytest.raises(ProtocolViolation):
        Reader(b"\x00").compact_count(1)
    assert Reader(b"\xff\xff\xff\xff").nullable_count(1) == -1
    assert Reader(b"\x00").compact_nullable_count(1) == -1


def test_elements_of_all_arrays_together_are_bounded():
    half = (MAX_ELEMENTS // 2 + 1).to_bytes(4, "big")
    reader = Reader(half + half + bytes(MAX_ELEMENTS * 2))
    reader.count(1)
    with pytest.raises(ProtocolViolation):
        reader.count(1)


@pytest.mark.parametrize("count", [MAX_TAGGED_FIELDS + 1, 1_000_000, 0xFFFFFFFF])
def test_too_many_tagged_fields_are_refused(count):
    reader = Reader(primitives.unsigned_varint_bytes(count) + bytes(3_000_000))
    with pytest.raises(ProtocolViolation, match="tagged fields"):
        reader.skip_tagged_fields()


def test_unknown_tagged_fields_are_skipped():
    out = bytearray()
    primitives.write_tagged_fields(out, [(0, b""), (3, b"abc"), (99_999, b"x" * 500)])
    reader = Reader(bytes(out) + b"rest")
    reader.skip_tagged_fields()
    assert reader.remaining == 4


def test_tagged_field_that_is_longer_or_shorter_than_its_value_is_refused():
    reader = Reader(b"\x05abcdefgh")
    outer_end = reader.enter_tagged_field()
    reader.int32()
    with pytest.raises(ProtocolViolation):
        reader.leave_tagged_field(outer_end)
    reader = Reader(b"\x03abcdefgh")
    reader.enter_tagged_field()
    with pytest.raises(ProtocolViolation):
        reader.int32()


@pytest.mark.parametrize("data", ["", "80", "ffffffff", "ffffffff10", "ffffffffff01", "808080808000"])
def test_varints_that_end_too_early_or_are_too_long_are_refused(data):
    with pytest.raises(ProtocolViolation):
        Reader(bytes.fromhex(data)).unsigned_varint()
    with pytest.raises((ProtocolViolation, IndexError)):
        read_unsigned_varint(memoryview(bytes.fromhex(data)), 0)


def test_long_varint_of_more_than_64_bits_is_refused():
    assert Reader(b"\xff" * 9 + b"\x01").unsigned_varlong() == 2**64 - 1
    for data in (b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00"):
        with pytest.raises(ProtocolViolation):
            Reader(data).unsigned_varlong()


@pytest.mark.parametrize("data", [b"\x03\xff\xfe", b"\x00", b"\x05abc"])
def test_bad_strings_are_refused(data):
    with pytest.raises(ProtocolViolation):
        Reader(data).compact_string()


@pytest.mark.parametrize("data", [b"\x00\x02\xff\xfe", b"\xff\xff", b"\xff\xfe", b"\x00\x04abc", b"\x00"])
def test_bad_legacy_strings_are_refused(data):
    with pytest.raises(ProtocolViolation):
        Reader(data).string()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_unsigned_varint_comes_back(value):
    data = primitives.unsigned_varint_bytes(value)
    reader = Reader(data)
    assert reader.unsigned_varint() == value
    assert reader.remaining == 0
    assert read_unsigned_varint(memoryview(data), 0) == (value, len(data))


@given(st.integers(-(2**31), 2**31 - 1))
@settings(max_examples=100, deadline=None)
def test_signed_varints_are_zigzag(value):
    data = primitives.unsigned_varint_bytes((value << 1) ^ (value >> 31))
    assert Reader(data).signed_varint() == value
    assert Reader(data).signed_varlong() == value


@given(st.one_of(st.none(), st.text(max_size=300)))
@settings(max_examples=100, deadline=None)
def test_nullable_strings_come_back(value):
    for kind in ("nullable_string", "compact_nullable_string"):
        out = bytearray()
        getattr(primitives, f"write_{kind}")(out, value)
        assert getattr(Reader(out), kind)() == value


@given(st.one_of(st.none(), st.binary(max_size=300)))
@settings(max_examples=100, deadline=None)
def test_nullable_bytes_come_back(value):
    for kind in ("nullable", "compact_nullable"):
        out = bytearray()
        getattr(primitives, f"write_{kind}_bytes")(out, value)
        assert getattr(Reader(out), f"{kind}_blob")() == value
