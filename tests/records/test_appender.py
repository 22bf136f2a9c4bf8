"""Appending records up to a size: the kernel's bytes are Python's, and those of BatchBuilder."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.partitioning import murmur2
from ottla.records.appender import FULL, BatchAppender, PythonAppender
from ottla.records.compression import ZSTD
from ottla.records.kernel import IS_COMPILED, kernel
from ottla.records.read import read_batch
from tests.records.samples import NOW_MS, RECORDS, builder_of, records

needs_kernel = pytest.mark.skipif(not IS_COMPILED, reason="the C kernel is not built here")


@settings(max_examples=60, deadline=None)
@given(sample=records, limit_bytes=st.integers(0, 3000))
def test_appenders_take_the_same_records_and_make_the_same_bytes(sample, limit_bytes):
    ours = BatchAppender(limit_bytes)
    other = PythonAppender(limit_bytes)
    for record in sample:
        assert ours.append(*record) == other.append(*record)
        assert ours.size_bytes == other.size_bytes
    assert ours.record_count == 1 or ours.size_bytes <= limit_bytes
    assert (ours.record_count, ours.limit_bytes) == (other.record_count, limit_bytes)
    assert (ours.base_timestamp_ms, ours.max_timestamp_ms) == (other.base_timestamp_ms, other.max_timestamp_ms)
    assert bytes(ours.records()) == bytes(other.records())
    assert ours.build() == other.build()
    if ours.record_count == len(sample):
        assert ours.build() == builder_of(sample).build()


def test_built_batch_carries_what_build_is_told():
    appender = BatchAppender(100_000)
    for record in RECORDS:
        assert appender.append(*record) >= 0
    for sequence in (5, 9):
        batch = appender.build(
            codec=ZSTD, producer_id=7, producer_epoch=2, base_sequence=sequence, is_transactional=True
        )
        header, read = read_batch(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, sequence)
        assert header.is_transactional
        assert [(record.key, record.value) for record in read] == [(key, value) for _, key, value, _ in RECORDS]


def test_first_record_is_taken_whatever_its_size_and_the_next_is_not():
    appender = BatchAppender(100)
    assert appender.append(NOW_MS, None, b"x" * 1000) == 0
    assert appender.append(NOW_MS, None, b"") == FULL
    assert appender.record_count == 1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_keys_and_values_may_be_any_buffer(kind):
    appender = BatchAppender(1000)
    appender.append(NOW_MS, kind(b"key"), kind(b"value"), [("h", kind(b"1"))])
    (record,) = read_batch(appender.build())[1]
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("h", b"1"),))


@pytest.mark.parametrize(
    "arguments",
    [
        (NOW_MS, "text", b""),
        (NOW_MS, b"", 5),
        ("now", b"", b""),
        (NOW_MS, b"", b"", 7),
        (NOW_MS, b"", b"", [("h",)]),
        (NOW_MS, b"", b"", [(b"h", b"1")]),
        (NOW_MS, b"", b"", [("h", "1")]),
    ],
)
def test_what_is_no_record_is_refused_and_leaves_the_batch_as_it_was(arguments):
    appender = BatchAppender(1000)
    appender.append(NOW_MS, b"k", b"v")
    before = bytes(appender.records())
    with pytest.raises((TypeError, ValueError, AttributeError, IndexError)):
        appender.append(*arguments)
    assert bytes(appender.records()) == before
    assert appender.record_count == 1


@needs_kernel
@settings(max_examples=60, deadline=None)
@given(key=st.binary(max_size=40))
def test_kernel_hashes_keys_as_the_clients_do(key):
    assert kernel.murmur2(key) == murmur2(key)
