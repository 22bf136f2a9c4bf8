"""The walk through a produced batch: by the kernel and by its twin in Python, which must agree about every batch."""

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode
from ottla.records.build import BatchBuilder, assemble_batch, build_batch
from ottla.records.compression import GZIP, compress
from ottla.records.errors import CorruptBatch
from ottla.records.header import HEADER_BYTES, BatchHeader, read_header, write_crc
from ottla.records.kernel import IS_COMPILED, kernel
from ottla.records.read import read_batch, read_records
from ottla.records.validate import ProduceFault, ProduceLimits, check_produced
from ottla.records.varint import encode_varint
from ottla.records.walk import Walked, check_records, walk_records_in_python
from tests.records.samples import CODECS, NOW_MS, RECORDS, builder_of, records

LIMITS = ProduceLimits()
DAMAGED_BATCHES = 20_000

WALKS = [walk_records_in_python, *([kernel.walk_records] if IS_COMPILED else [])]
Walk = Callable[[bytes, int, int, int, bool], Walked]
each_walk = pytest.mark.parametrize("walk", WALKS, ids=["python", "kernel"][: len(WALKS)])
needs_kernel = pytest.mark.skipif(not IS_COMPILED, reason="the kernel was not built")


def verdict_of(walk: Walk, data: bytes, count: int, base_ms: int) -> Walked | None:
    try:
        return walk(data, 0, count, base_ms, True)
    except CorruptBatch:
        return None


def plain(sample: object = RECORDS) -> tuple[bytes, BatchHeader]:
    batch = builder_of(sample).build()
    return bytes(batch[HEADER_BYTES:]), read_header(batch)


def record(
    *,
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    key: bytes = encode_varint(-1),
    value: bytes = encode_varint(1) + b"v",
    headers: bytes = b"\x00",
    length_more: int = 0,
) -> bytes:
    body = bytes(1) + encode_varint(timestamp_delta) + encode_varint(offset_delta) + key + value + headers
    return encode_varint(len(body) + length_more) + body


LONG_ONE = b"\x82\x80\x80\x80\x80\x00"  # 1 in six bytes: a Java reader stops at the fifth

LIES = {
    "longer than its bytes": record(length_more=1),
    "shorter than its bytes": record(length_more=-1),
    "no bytes": encode_varint(0),
    "negative length": encode_varint(-1),
    "length beyond the batch": encode_varint(2**31 - 1),
    "length of 33 bits": encode_varint(2**32) + bytes(20),
    "second offset first": record(offset_delta=1),
    "negative offset": record(offset_delta=-1),
    "key beyond the record": record(key=encode_varint(100)),
    "key of a length below null": record(key=encode_varint(-2)),
    "key length of six bytes": record(key=LONG_ONE + b"k"),
    "value beyond the record": record(value=encode_varint(2**30)),
    "value of a length below null": record(value=encode_varint(-2)),
    "number without end": bytes(1) + b"\xff" * 12,
    "headers without bytes": record(headers=encode_varint(5)),
    "fewer headers than none": record(headers=encode_varint(-1)),
    "header without a key": record(headers=encode_varint(1) + encode_varint(-1) + encode_varint(-1)),
    "header value beyond the record": record(headers=encode_varint(1) + encode_varint(0) + encode_varint(50)),
    "bytes behind it": record() + b"x",
    "a record too many": record() + record(offset_delta=1),
    "nothing": b"",
}


@each_walk
@pytest.mark.parametrize("lie", LIES)
def test_record_that_is_not_what_its_numbers_say_is_found(walk: Walk, lie: str) -> None:
    assert verdict_of(walk, record(), 1, NOW_MS) is not None
    assert verdict_of(walk, LIES[lie], 1, NOW_MS) is None


@each_walk
@pytest.mark.parametrize("count", [0, 2, 2**31, -1])
def test_other_count_than_there_are_records_is_found(walk: Walk, count: int) -> None:
    assert verdict_of(walk, record(), count, NOW_MS) is None


@each_walk
def test_walk_gives_timestamps_and_the_records_without_keys(walk: Walk) -> None:
    data, header = plain()
    times = [timestamp_ms for timestamp_ms, *_ in RECORDS]
    assert walk(data, 0, 4, header.base_timestamp_ms, True) == (min(times), max(times), [1])
    assert walk(b"ab" + data, 2, 4, header.base_timestamp_ms, False) == (min(times), max(times), None)
    assert walk(b"", 0, 0, NOW_MS, True) == (NOW_MS, -1, [])


@each_walk
def test_timestamps_wrap_around_as_in_java(walk: Walk) -> None:
    assert walk(record(timestamp_delta=2**63 - 1), 0, 1, 2, False) == (-(2**63) + 1, -1, None)


@needs_kernel
@given(sample=records)
def test_kernel_and_twin_agree_about_sound_batches(sample: object) -> None:
    data, header = plain(sample)
    for walk in WALKS:
        assert verdict_of(walk, data, header.record_count, header.base_timestamp_ms) is not None
    assert len({repr(verdict_of(walk, data, header.record_count, header.base_timestamp_ms)) for walk in WALKS}) == 1


@needs_kernel
@given(data=st.binary(max_size=80), count=st.integers(-1, 10))
def test_kernel_and_twin_agree_about_any_bytes(data: bytes, count: int) -> None:
    assert len({repr(verdict_of(walk, data, count, NOW_MS)) for walk in WALKS}) == 1


@needs_kernel
def test_kernel_and_twin_agree_about_damaged_batches() -> None:
    refused = 0
    for data, count in damaged_batches(Random(7)):
        kernels, twins = (verdict_of(walk, data, count, NOW_MS) for walk in (kernel.walk_records, WALKS[0]))
        assert kernels == twins, (data, count)
        if kernels is None:
            refused += 1
        else:  # then every reader can read it
            header = read_header(batch_around(data, count))
            assert len(read_records(header, data)) == count
    assert 0.5 * DAMAGED_BATCHES < refused < 0.99 * DAMAGED_BATCHES


def damaged_batches(random: Random) -> Iterator[tuple[bytes, int]]:
    for _ in range(DAMAGED_BATCHES):
        builder = BatchBuilder()
        count = random.randrange(1, 6)
        for _ in range(count):
            key = None if random.random() < 0.2 else random.randbytes(random.randrange(4))
            headers = [("h", random.randbytes(2))] if random.random() < 0.3 else []
            builder.append(NOW_MS + random.randrange(100), key, random.randbytes(random.choice((0, 1, 70))), headers)
        data = bytearray(builder.build()[HEADER_BYTES:])
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(data))
            match random.randrange(5):
                case 0:
                    data[at] ^= 1 << random.randrange(8)
                case 1:
                    data[at] = random.randrange(256)
                case 2:
                    del data[at : at + random.randrange(1, 4)]
                case 3:
                    data[at:at] = random.choice((b"\x80", b"\xff" * 9, data[at : at + 10]))
                case _:
                    count += random.choice((-1, 0, 1))
            if not data:
                break
        yield bytes(data), count


def batch_around(data: bytes, count: int, **fields: int) -> bytearray:
    """A batch with this inside and a checksum that is right."""
    settings = {"base_timestamp_ms": NOW_MS, "max_timestamp_ms": NOW_MS, "attributes": 0, **fields}
    return assemble_batch(data, record_count=count, last_offset_delta=count - 1, **settings)


def check(batch: bytearray, limits: ProduceLimits = LIMITS, **options: object) -> BatchHeader | ProduceFault:
    view = memoryview(batch)
    header = check_produced(view, limits, produce_version=9, now_ms=NOW_MS)
    assert isinstance(header, BatchHeader), header
    settings: dict[str, object] = {"requires_keys": False, "now_ms": NOW_MS, **options}
    return check_records(view, header, limits, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", CODECS)
def test_sound_batch_is_left_as_it_is(codec: int) -> None:
    batch = builder_of(RECORDS[:2]).build(codec=codec)
    before = bytes(batch)
    assert check(batch) == read_header(batch)
    assert bytes(batch) == before


@pytest.mark.parametrize("codec", CODECS)
def test_lie_inside_of_a_sound_checksum_is_an_invalid_record(codec: int) -> None:
    inside = compress(codec, record(length_more=1))
    fault = check(batch_around(inside, 1, attributes=codec))
    assert isinstance(fault, ProduceFault)
    assert fault.error_code == ErrorCode.INVALID_RECORD


def test_records_that_can_not_be_decompressed_are_invalid() -> None:
    fault = check(batch_around(b"no gzip", 1, attributes=GZIP))
    assert isinstance(fault, ProduceFault)
    assert fault.error_code == ErrorCode.INVALID_RECORD


def test_records_without_keys_are_named_where_keys_are_required() -> None:
    batch = build_batch([(NOW_MS, key, b"v", ()) for key in (b"k", None, b"", None)])
    assert isinstance(check(batch), BatchHeader)
    fault = check(batch, requires_keys=True)
    assert isinstance(fault, ProduceFault)
    assert (fault.error_code, fault.record_indexes) == (ErrorCode.INVALID_RECORD, (1, 3))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("said_ms", [NOW_MS - 5, NOW_MS + 2_000, NOW_MS])
def test_largest_timestamp_is_what_the_records_say(codec: int, said_ms: int) -> None:
    batch = build_batch([(NOW_MS + delta, b"k", b"v", ()) for delta in (-5, 30, 7)], codec=codec)
    batch[35:43] = said_ms.to_bytes(8, "big")
    write_crc(batch, 0, len(batch))
    header = check(batch)
    assert isinstance(header, BatchHeader)
    assert header.max_timestamp_ms == NOW_MS + 30
    assert header == read_header(batch)
    assert [one.timestamp_ms for one in read_batch(batch)[1]] == [NOW_MS - 5, NOW_MS + 30, NOW_MS + 7]


def test_timestamps_of_records_have_to_be_allowed_whatever_the_header_says() -> None:
    for delta, limits in (
        (3_600_001, LIMITS),
        (-1_001, LIMITS._replace(timestamp_before_max_ms=1_000)),
    ):
        inside = record() + record(offset_delta=1, timestamp_delta=delta)
        fault = check(batch_around(inside, 2), limits)
        assert isinstance(fault, ProduceFault)
        assert fault.error_code == ErrorCode.INVALID_TIMESTAMP
        assert isinstance(check(batch_around(inside, 2), limits._replace(is_log_append_time=True)), BatchHeader)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_batches_of_every_size_are_walked_in_the_same_memory(codec: int) -> None:
    for size in (10, 2_000_000, 0, 300_000, 1):
        batch = build_batch([(NOW_MS, b"k", b"v" * size, ()), (NOW_MS + size, None, b"", ())], codec=codec)
        assert check(batch) == read_header(batch)
        fault = check(batch, requires_keys=True)
        assert isinstance(fault, ProduceFault)
        assert fault.record_indexes == (1,)
