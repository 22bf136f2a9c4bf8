"""The leader's check of produced batches: the faults of docs/faults.md under "Produce" that one batch shows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode
from ottla.records.build import BatchBuilder, assemble_batch, build_end_transaction_marker
from ottla.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from ottla.records.header import BatchHeader, read_header, write_crc
from ottla.records.read import read_batch
from ottla.records.validate import ProduceFault, ProduceLimits, check_produced
from ottla.records.varint import encode_varint
from ottla.records.walk import check_records, has_wrong_maximum
from tests.records.samples import CODECS, NOW_MS, RECORDS, builder_of

LIMITS = ProduceLimits()


def check(batch, limits=LIMITS, *, produce_version=9, now_ms=NOW_MS):
    return check_produced(memoryview(batch), limits, produce_version=produce_version, now_ms=now_ms)


def with_field(position: int, value: int, length: int, **built) -> bytearray:
    """A batch with a field overwritten and the checksum made right again."""
    batch = builder_of().build(**built)
    batch[position : position + length] = (value & (1 << 8 * length) - 1).to_bytes(length, "big")
    write_crc(batch, 0, len(batch))
    return batch


def deep(batch, limits=LIMITS, *, requires_keys=False, max_bytes=1_000_000):
    """What is wrong with the records, or None."""
    walked = walk(batch, limits, requires_keys=requires_keys, max_bytes=max_bytes)
    return walked if isinstance(walked, ProduceFault) else None


def walk(batch, limits=LIMITS, *, requires_keys=False, max_bytes=1_000_000):
    """Both checks, as an append makes them."""
    header = check(batch, limits)
    if isinstance(header, ProduceFault):
        return header
    return check_records(
        memoryview(batch), header, limits, requires_keys=requires_keys, now_ms=NOW_MS, max_bytes=max_bytes
    )


@pytest.mark.parametrize("codec", CODECS)
def test_sound_batches_pass_with_their_header(codec):
    batch = builder_of().build(codec=codec, producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
    header = check(batch)
    assert isinstance(header, BatchHeader)
    assert header == read_header(batch)
    assert deep(batch) is None


def test_flipped_checksum_or_byte_is_corrupt():
    for position in (17, 30, 61, -1):
        batch = builder_of().build()
        batch[position] ^= 1
        assert check(batch).error_code == ErrorCode.CORRUPT_MESSAGE


def test_batch_over_the_limit_is_too_large_and_one_at_the_limit_passes():
    batch = builder_of().build()
    assert check(batch, ProduceLimits(max_message_bytes=len(batch) - 1)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(check(batch, ProduceLimits(max_message_bytes=len(batch))), BatchHeader)


@pytest.mark.parametrize("count", [-1, 0, 3, 5])
def test_record_count_other_than_the_offset_range_is_invalid(count):
    assert check(with_field(57, count, 4)).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("delta", [-1, 0, 2**31 - 1])
def test_offset_range_other_than_the_record_count_is_invalid(delta):
    assert check(with_field(23, delta, 4)).error_code == ErrorCode.INVALID_RECORD


def test_control_batch_from_a_client_is_invalid():
    batch = build_end_transaction_marker(
        is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    assert check(batch).error_code == ErrorCode.INVALID_RECORD


def test_base_offset_other_than_zero_is_invalid():
    assert check(builder_of().build(base_offset=1)).error_code == ErrorCode.INVALID_RECORD


def test_none_or_several_batches_are_invalid():
    batch = builder_of().build()
    assert check(b"").error_code == ErrorCode.INVALID_RECORD
    assert check(batch + batch).error_code == ErrorCode.INVALID_RECORD
    assert check(batch + b"x").error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [17, 34, 200])
def test_old_formats_are_invalid(magic, size):
    data = bytearray(size)
    data[8:12] = (size - 12).to_bytes(4, "big")
    data[16] = magic
    assert check(data).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [1, 16, 20, 60])
def test_fewer_bytes_than_a_header_are_corrupt(size):
    assert check(bytes(builder_of().build()[:size])).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_inconsistent_length_is_corrupt(length):
    assert check(with_field(8, length, 4)).error_code == ErrorCode.CORRUPT_MESSAGE


def test_truncated_batch_is_corrupt():
    batch = builder_of().build()
    assert check(batch[:-1]).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_invalid(codec):
    assert check(with_field(21, codec, 2)).error_code == ErrorCode.INVALID_RECORD


def test_zstd_needs_produce_version_7():
    batch = builder_of().build(codec=ZSTD)
    assert check(batch, produce_version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(check(batch, produce_version=7), BatchHeader)
    for codec in (GZIP, SNAPPY, LZ4):
        assert isinstance(check(builder_of().build(codec=codec), produce_version=3), BatchHeader)


def batch_at(timestamp_ms: int) -> bytearray:
    return builder_of([(timestamp_ms, b"k", b"v", [])]).build()


def test_timestamps_out_of_range_are_invalid():
    limits = ProduceLimits(timestamp_before_max_ms=1000, timestamp_after_max_ms=500)
    for timestamp_ms in (NOW_MS - 1000, NOW_MS, NOW_MS + 500, -1):
        assert isinstance(check(batch_at(timestamp_ms), limits), BatchHeader)
    for timestamp_ms in (NOW_MS - 1001, NOW_MS + 501, 0):
        assert check(batch_at(timestamp_ms), limits).error_code == ErrorCode.INVALID_TIMESTAMP
    assert check(batch_at(-5)).error_code == ErrorCode.INVALID_TIMESTAMP


def test_timestamps_do_not_matter_where_the_broker_sets_them():
    limits = ProduceLimits(is_log_append_time=True, timestamp_before_max_ms=1000, timestamp_after_max_ms=500)
    assert isinstance(check(batch_at(0), limits), BatchHeader)
    assert isinstance(check(batch_at(NOW_MS * 2), limits), BatchHeader)


def test_append_time_from_a_client_is_an_invalid_timestamp():
    batch = builder_of().build(append_time_ms=NOW_MS)
    assert check(batch).error_code == ErrorCode.INVALID_TIMESTAMP
    assert isinstance(check(batch, ProduceLimits(is_log_append_time=True)), BatchHeader)


def test_producer_needs_sequence_and_epoch():
    for fields in ({"producer_epoch": 0, "base_sequence": -1}, {"producer_epoch": -1, "base_sequence": 0}):
        assert check(builder_of().build(producer_id=1, **fields)).error_code == ErrorCode.INVALID_RECORD
    assert check(builder_of().build(is_transactional=True)).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_null_keys_are_named_where_keys_are_required(codec):
    batch = builder_of().build(codec=codec)
    fault = deep(batch, requires_keys=True)
    assert fault == ProduceFault(ErrorCode.INVALID_RECORD, fault.message, (1,))
    keyed = BatchBuilder()
    keyed.append(NOW_MS, b"", None, [("h", None)])
    assert deep(keyed.build(codec=codec), requires_keys=True) is None


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_decompression_bomb_is_invalid_at_the_cap(codec):
    batch = assemble_batch(
        compress(codec, bytes(30_000_000)),
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        attributes=codec,
    )
    limits = ProduceLimits(max_message_bytes=10_000_000)
    assert isinstance(check(batch, limits), BatchHeader)
    assert deep(batch, limits).error_code == ErrorCode.INVALID_RECORD


def body(*parts: bytes) -> bytes:
    joined = b"".join(parts)
    return encode_varint(len(joined)) + joined


ZERO = encode_varint(0)
START = b"\x00" + ZERO + ZERO


@pytest.mark.parametrize(
    "encoded",
    [
        body(START, encode_varint(5), b"abc", ZERO, ZERO),
        body(START, encode_varint(2**62), b"abc", ZERO, ZERO),
        body(START, encode_varint(-2), ZERO, ZERO, ZERO),
        body(START, ZERO, encode_varint(-7), ZERO),
        body(START, ZERO, ZERO, encode_varint(2**31), ZERO, ZERO),
        body(START, ZERO, ZERO, encode_varint(-1)),
        body(START, ZERO, ZERO, encode_varint(1), encode_varint(-1), ZERO),
        body(START, ZERO, ZERO, encode_varint(1), ZERO, encode_varint(-3)),
        body(START, ZERO, ZERO, encode_varint(1), ZERO, encode_varint(99)),
        body(START, ZERO, ZERO, ZERO, b"trailing in the record"),
        body(START, ZERO, ZERO, ZERO) + b"trailing in the batch",
        body(b"\x00", ZERO, encode_varint(1), ZERO, ZERO, ZERO),
        encode_varint(-1) + b"\x00" * 10,
        encode_varint(2**62) + b"\x00" * 10,
        b"\xff" * 7,
        b"",
    ],
)
def test_lying_lengths_are_invalid(encoded):
    batch = assemble_batch(
        encoded,
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        attributes=0,
    )
    assert isinstance(check(batch), BatchHeader)
    assert deep(batch).error_code == ErrorCode.INVALID_RECORD


def test_offsets_within_the_batch_must_follow_each_other():
    builder = BatchBuilder()
    builder.append(NOW_MS, b"a", b"b", offset_delta=1)
    batch = builder.build()
    assert deep(batch).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_bytes_get_a_verdict(codec, data):
    batch = builder_of(RECORDS).build(codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        write_crc(batch, 0, len(batch))
    batch = batch[: data.draw(st.integers(0, len(batch)) | st.just(len(batch)))]
    verdict = check(batch)
    if isinstance(verdict, BatchHeader):
        assert verdict.size_bytes == len(batch)
        fault = deep(batch, requires_keys=True)
        assert fault is None or fault.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
    else:
        assert isinstance(verdict, ProduceFault)


# Clients that leave the largest timestamp out


def without_max_timestamp(*timestamps: int, codec: int = 0, max_timestamp_ms: int = -1, size: int = 1) -> bytearray:
    """A batch whose header does not say how recent its records are, with a checksum that is right."""
    builder = BatchBuilder()
    for timestamp_ms in timestamps:
        builder.append(timestamp_ms, b"k", b"v" * size)
    batch = builder.build(codec=codec)
    batch[35:43] = max_timestamp_ms.to_bytes(8, "big", signed=True)
    write_crc(batch, 0, len(batch))
    return batch


TIMES = (NOW_MS - 50, NOW_MS - 10, NOW_MS - 30)


@pytest.mark.parametrize("max_timestamp_ms", [-1, 0, NOW_MS - 51])
def test_largest_timestamp_that_is_left_out_is_computed_and_the_checksum_with_it(max_timestamp_ms):
    batch = without_max_timestamp(*TIMES, max_timestamp_ms=max_timestamp_ms)
    header = walk(batch)
    assert header.max_timestamp_ms == NOW_MS - 10
    assert header == read_header(batch)
    assert check(batch) == header
    assert [record.timestamp_ms for record in read_batch(batch)[1]] == list(TIMES)


@pytest.mark.parametrize("codec", CODECS)
def test_a_header_that_leaves_its_largest_timestamp_out_is_found_and_put_right(codec):
    batch = without_max_timestamp(*TIMES, codec=codec)
    assert has_wrong_maximum(memoryview(batch))
    mended = walk(batch)
    assert mended.max_timestamp_ms == NOW_MS - 10
    assert check(batch) == mended == read_header(batch)
    assert not has_wrong_maximum(memoryview(batch))


def test_damage_is_found_before_a_checksum_is_made_anew():
    batch = without_max_timestamp(*TIMES)
    batch[-2] ^= 1
    assert check(batch).error_code == ErrorCode.CORRUPT_MESSAGE


def test_computed_timestamp_has_to_be_allowed():
    batch = without_max_timestamp(NOW_MS, NOW_MS + 3_600_001)
    assert walk(batch).error_code == ErrorCode.INVALID_TIMESTAMP
    assert walk(batch, LIMITS._replace(timestamp_after_max_ms=2**63 - 1)).max_timestamp_ms == NOW_MS + 3_600_001


def test_records_that_do_not_add_up_are_refused_when_they_are_walked():
    batch = without_max_timestamp(*TIMES)
    batch[61] += 2  # the first record's length
    write_crc(batch, 0, len(batch))
    assert walk(batch).error_code == ErrorCode.INVALID_RECORD


def test_records_that_are_all_older_than_their_base_keep_a_header_that_is_right():
    body = bytes(1) + encode_varint(-20) + encode_varint(0) + encode_varint(-1) + encode_varint(1) + b"v" + bytes(1)
    batch = assemble_batch(
        encode_varint(len(body)) + body,
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=NOW_MS,
        attributes=0,
        max_timestamp_ms=NOW_MS - 20,
    )
    before = bytes(batch)
    assert walk(batch).max_timestamp_ms == NOW_MS - 20
    assert bytes(batch) == before


@pytest.mark.parametrize("timestamps", [(-1, -1), (0, 0)])
def test_batch_without_any_time_is_let_through_as_it_is(timestamps):
    batch = builder_of([(NOW_MS, b"k", b"v", [])] * 2).build()  # the deltas are 0: there is no time in them either
    batch[27:43] = b"".join(each.to_bytes(8, "big", signed=True) for each in timestamps)
    write_crc(batch, 0, len(batch))
    before = bytes(batch)
    assert walk(batch).max_timestamp_ms == timestamps[1]
    assert bytes(batch) == before


def test_append_time_takes_the_place_of_whatever_the_header_says():
    limits = ProduceLimits(is_log_append_time=True)
    batch = without_max_timestamp(*TIMES, codec=GZIP)
    before = bytes(batch)
    assert walk(batch, limits) == read_header(batch)
    assert bytes(batch) == before
