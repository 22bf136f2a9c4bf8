"""Building and reading record batches, and what is refused."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.build import (
    BatchBuilder,
    assemble_batch,
    build_batch,
    build_end_transaction_marker,
    build_plain_batch,
)
from ottla.records.errors import CorruptBatch
from ottla.records.header import HEADER_BYTES, read_header, write_crc
from ottla.records.read import Record, iter_records, read_batch, read_end_transaction_marker, read_records
from ottla.records.varint import decode_varint, encode_varint
from tests.records.samples import CODECS, NOW_MS, RECORDS, builder_of, records


def with_valid_crc(batch: bytearray) -> bytearray:
    write_crc(batch, 0, len(batch))
    return batch


def batch_of_encoded(encoded: bytes, *, record_count: int = 1, last_offset_delta: int = 0) -> bytearray:
    return assemble_batch(
        encoded,
        record_count=record_count,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        attributes=0,
    )


@settings(max_examples=80, deadline=None)
@given(sample=records, codec=st.sampled_from(CODECS), base_offset=st.integers(0, 2**62))
def test_what_is_built_is_read_back(sample, codec, base_offset):
    batch = build_batch(sample, codec=codec, base_offset=base_offset)
    header, read = read_batch(batch)
    assert header.size_bytes == len(batch)
    assert read == [
        Record(base_offset + index, timestamp_ms, key, value, tuple(headers))
        for index, (timestamp_ms, key, value, headers) in enumerate(sample)
    ]
    assert header.max_timestamp_ms == max(timestamp_ms for timestamp_ms, _, _, _ in sample)
    assert header.base_timestamp_ms == sample[0][0]


@settings(max_examples=60, deadline=None)
@given(sample=records)
def test_size_is_exact_uncompressed(sample):
    builder = BatchBuilder()
    for timestamp_ms, key, value, headers in sample:
        builder.append(timestamp_ms, key, value, headers)
    assert builder.record_count == len(sample)
    assert len(builder.build()) == builder.size_bytes


def test_builder_can_build_again_with_another_sequence():
    builder = builder_of()
    first = builder.build(producer_id=1, producer_epoch=0, base_sequence=0)
    again = builder.build(producer_id=1, producer_epoch=1, base_sequence=5)
    assert first[HEADER_BYTES:] == again[HEADER_BYTES:]
    assert read_header(again).base_sequence == 5


def test_deltas_with_gaps_are_kept_as_in_a_cleaned_batch():
    builder = BatchBuilder(delete_horizon_ms=NOW_MS + 9)
    builder.append(NOW_MS, b"a", None, offset_delta=2)
    builder.append(NOW_MS + 1, b"b", None, offset_delta=7)
    header, read = read_batch(builder.build(base_offset=100, last_offset_delta=9))
    assert [(record.offset, record.timestamp_ms) for record in read] == [(102, NOW_MS), (107, NOW_MS + 1)]
    assert (header.last_offset, header.record_count, header.delete_horizon_ms) == (109, 2, NOW_MS + 9)
    assert header.max_timestamp_ms == NOW_MS + 1


def test_offset_deltas_only_grow():
    builder = builder_of()
    with pytest.raises(ValueError, match="offset delta 3 after 3"):
        builder.append(0, None, None, offset_delta=3)
    with pytest.raises(ValueError, match="last offset delta 2"):
        builder.build(last_offset_delta=2)


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_transaction_marker(is_commit):
    batch = build_end_transaction_marker(
        is_commit=is_commit, producer_id=5, producer_epoch=2, coordinator_epoch=8, timestamp_ms=NOW_MS, base_offset=30
    )
    header, (record,) = read_batch(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)
    assert record.key == (b"\x00\x00\x00\x01" if is_commit else b"\x00\x00\x00\x00")
    marker = read_end_transaction_marker(record)
    assert marker is not None
    assert (marker.is_commit, marker.coordinator_epoch) == (is_commit, 8)


def test_control_records_of_other_types_are_no_markers():
    assert read_end_transaction_marker(Record(0, 0, b"\x00\x00\x00\x02", b"", ())) is None
    for key, value in ((None, b""), (b"\x00", b""), (b"\x00\x00\x00\x01", None), (b"\x00\x00\x00\x01", b"\x00")):
        with pytest.raises(CorruptBatch):
            read_end_transaction_marker(Record(0, 0, key, value, ()))


def test_flipped_bit_after_the_checksum_is_found():
    batch = builder_of().build()
    for position in (21, HEADER_BYTES, len(batch) - 1):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptBatch, match="checksum"):
            read_batch(damaged)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_mutated_batches_raise_only_corrupt_batch(codec, data):
    """With the checksum made right again, so that everything behind it is reached."""
    batch = builder_of().build(codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(16, len(batch) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(HEADER_BYTES, len(batch)))
    batch = batch[:cut]
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[16] = 2
    with contextlib.suppress(CorruptBatch):
        read_batch(with_valid_crc(batch), max_bytes=1_000_000)


def test_truncated_batches_are_corrupt():
    batch = bytes(builder_of().build())
    for cut in range(0, len(batch), 41):
        with pytest.raises(CorruptBatch):
            read_batch(batch[:cut])


@pytest.mark.parametrize("count", [-1, 0, 3, 5, 2**31 - 1])
def test_record_count_must_match_exactly(count):
    batch = builder_of().build()
    batch[57:61] = (count & 0xFFFFFFFF).to_bytes(4, "big")
    with pytest.raises(CorruptBatch):
        read_batch(with_valid_crc(batch))


def body(*parts: bytes) -> bytes:
    joined = b"".join(parts)
    return encode_varint(len(joined)) + joined


ZERO = encode_varint(0)
START = b"\x00" + ZERO + ZERO  # attributes, timestamp delta, offset delta


@pytest.mark.parametrize(
    "encoded",
    [
        body(START, encode_varint(5), b"abc", ZERO, ZERO),  # key over the end of its record
        body(START, encode_varint(2**40), b"abc", ZERO, ZERO),
        body(START, encode_varint(-2), ZERO, ZERO, ZERO),
        body(START, ZERO, encode_varint(-7), ZERO),
        body(START, ZERO, ZERO, encode_varint(2**31), ZERO, ZERO),  # header count
        body(START, ZERO, ZERO, encode_varint(-1)),
        body(START, ZERO, ZERO, encode_varint(1), encode_varint(-1), ZERO),  # header without a key
        body(START, ZERO, ZERO, encode_varint(1), ZERO, encode_varint(99)),
        body(START, ZERO, ZERO, ZERO, b"trailing in the record"),
        body(START, ZERO, ZERO, ZERO) + b"trailing in the batch",
        body(b"\x00", ZERO, encode_varint(1), ZERO, ZERO, ZERO),  # offset delta over the header's last
        body(b"\x00", ZERO, encode_varint(-1), ZERO, ZERO, ZERO),
        body(b"\x00", b"\xff" * 11, ZERO, ZERO, ZERO, ZERO),  # a number without an end
        body(b"\x00", b"\xff" * 9 + b"\x7f", ZERO, ZERO, ZERO, ZERO),  # a number of 70 bits
        encode_varint(-1) + b"\x00" * 10,
        encode_varint(2**62) + b"\x00" * 10,
        b"\xff" * 7,
    ],
)
def test_lengths_that_do_not_fit_are_corrupt(encoded):
    with pytest.raises(CorruptBatch):
        read_batch(batch_of_encoded(encoded))


def test_header_keys_that_are_no_text_are_still_readable():
    encoded = body(START, ZERO, ZERO, encode_varint(1), encode_varint(1), b"\xff", encode_varint(-1))
    _, (record,) = read_batch(batch_of_encoded(encoded))
    assert record.headers == (("�", None),)


def test_records_are_read_lazily():
    batch = builder_of().build()
    header = read_header(batch)
    first = next(iter_records(header, bytes(batch[HEADER_BYTES:])))
    assert (first.key, first.value) == RECORDS[0][1:3]


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(value):
    encoded = encode_varint(value)
    assert decode_varint(encoded + b"\x00", 0) == (value, len(encoded))
    assert len(encoded) <= 10


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (8191, "fe7f"), (8192, "808001")],
)
def test_varints_are_those_of_the_specification(value, encoded):
    assert encode_varint(value).hex() == encoded


@settings(deadline=None, max_examples=200)
@given(
    records=st.lists(
        st.tuples(
            st.integers(0, 2**40),
            st.none() | st.binary(max_size=200),
            st.none() | st.binary(max_size=9000),
            st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
        ),
        min_size=1,
        max_size=5,
    ),
    damage=st.none() | st.tuples(st.integers(0, 400), st.integers(0, 255)),
)
def test_reading_all_at_once_gives_what_reading_one_by_one_does(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    damage: tuple[int, int] | None,
) -> None:
    batch = build_batch(records)
    header = read_header(batch)
    data = bytearray(batch[HEADER_BYTES:])
    if damage is not None:
        data[damage[0] % len(data)] = damage[1]
    plain = bytes(data)
    try:
        one_by_one = list(iter_records(header, plain))
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            read_records(header, plain)
    else:
        assert read_records(header, plain) == one_by_one


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=1500), st.none() | st.binary(max_size=1500)), min_size=1, max_size=10))
def test_plain_batch_is_what_the_builder_makes(sample: list[tuple[bytes, bytes | None]]) -> None:
    builder = BatchBuilder()
    for key, value in sample:
        builder.append(NOW_MS, key, value)
    assert build_plain_batch(NOW_MS, sample) == builder.build()


def test_plain_batch_of_many_records() -> None:
    sample = [(str(number).encode(), b"value") for number in range(1100)]
    builder = BatchBuilder()
    for key, value in sample:
        builder.append(NOW_MS, key, value)
    assert build_plain_batch(NOW_MS, sample) == builder.build()
