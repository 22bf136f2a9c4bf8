"""Batches to Arrow: kernel, numpy and `read_batch` agree, on sound batches and on damaged ones."""

import datetime
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.columns import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS, ColumnDecoder
from ottla.columns.numpy_decoding import NumpySink
from ottla.records.build import BatchBuilder, assemble_batch
from ottla.records.errors import CorruptBatch
from ottla.records.fetched_record import wrapped_to_int64
from ottla.records.header import HEADER_BYTES, read_header
from ottla.records.kernel import IS_COMPILED, kernel
from ottla.records.read import read_batch, read_records
from ottla.records.varint import encode_varint
from tests.records.samples import CODECS, NOW_MS, RECORDS, builder_of, records

OFFSET_MAX = 2**63 - 1
ROOT = Path(__file__).parents[2]
SINKS = [NumpySink, kernel.ColumnSink] if IS_COMPILED else [NumpySink]
every_sink = pytest.mark.parametrize("sink_class", SINKS, ids=lambda kind: kind.__name__)


def append(sink, header, body, *, from_offset=0, to_offset=OFFSET_MAX):
    return sink.append(
        body,
        header.base_offset,
        header.base_timestamp_ms,
        header.max_timestamp_ms if header.is_log_append_time else None,
        header.last_offset_delta,
        header.record_count,
        from_offset,
        to_offset,
    )


def values_of(count, buffers):
    validity, offsets, data = buffers
    if count == 0:
        return []
    parts = [None if part is None else pa.py_buffer(part) for part in (validity, offsets, data)]
    array = pa.Array.from_buffers(pa.binary(), count, parts)
    array.validate(full=True)
    return array.to_pylist()


def contents(finished):
    """What a sink gave, as Python values."""
    count, offsets, timestamps_us, key, value, headers = finished
    rows = [
        np.frombuffer(offsets, np.int64).tolist(),
        np.frombuffer(timestamps_us, np.int64).tolist(),
        values_of(count, key),
        values_of(count, value),
    ]
    if headers is not None:
        list_offsets, header_count, header_keys, header_values, is_ascii = headers
        bounds = np.frombuffer(list_offsets, np.int32).tolist() if count else []
        rows += [bounds, values_of(header_count, header_keys), values_of(header_count, header_values), is_ascii]
    return rows


def clamped_us(timestamp_ms):
    return max(-(2**63), min(2**63 - 1, wrapped_to_int64(timestamp_ms) * 1000))


def expected(read):
    headers = [header for record in read for header in record.headers]
    bounds = [0]
    for record in read:
        bounds.append(bounds[-1] + len(record.headers))
    return [
        [record.offset for record in read],
        [clamped_us(record.timestamp_ms) for record in read],
        [record.key for record in read],
        [record.value for record in read],
        bounds if read else [],
        [key.encode() for key, _ in headers],
        [value for _, value in headers],
        all(key.isascii() for key, _ in headers),
    ]


batches = st.lists(st.tuples(records, st.none() | st.integers(0, 2**50)), min_size=1, max_size=4)


@every_sink
@settings(max_examples=50, deadline=None)
@given(samples=batches, bounds=st.tuples(st.integers(0, 60), st.integers(0, 90)))
def test_sink_gives_what_reading_gives(sink_class, samples, bounds):
    from_offset, to_offset = bounds
    sink = sink_class(True)
    wanted = []
    base_offset = 0
    for sample, append_time_ms in samples:
        batch = builder_of(sample).build(base_offset=base_offset, append_time_ms=append_time_ms)
        header, read = read_batch(batch)
        part = [record for record in read if from_offset <= record.offset < to_offset]
        added = append(sink, header, memoryview(batch)[HEADER_BYTES:], from_offset=from_offset, to_offset=to_offset)
        assert added == len(part)
        wanted += part
        base_offset = header.next_offset
    assert sink.count == len(wanted)
    assert sink.data_bytes == sum(
        len(data or b"")
        for record in wanted
        for data in (
            record.key,
            record.value,
            *(part for key, value in record.headers for part in (key.encode(), value)),
        )
    )
    assert contents(sink.finish()) == expected(wanted)
    assert (sink.count, sink.data_bytes) == (0, 0)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    sample=records,
    changes=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=3),
    cut=st.floats(0, 1) | st.just(1.0),
    count=st.none() | st.integers(-2, 30),
)
def test_sinks_refuse_what_reading_refuses_and_stay_as_they_were(sample, changes, cut, count):
    sound = builder_of(RECORDS).build()
    batch = builder_of(sample).build(base_offset=100)
    header = read_header(batch)
    if count is not None:
        header = header._replace(record_count=count)
    body = bytearray(batch[HEADER_BYTES:])
    for position, byte in changes:
        body[position % len(body)] = byte
    body = bytes(body[: int(len(body) * cut)])
    sound_header, wanted = read_batch(sound)
    try:
        wanted = wanted + read_records(header, body)
    except CorruptBatch:
        is_sound = False
    else:
        is_sound = True
    for sink_class in SINKS:
        sink = sink_class(True)
        append(sink, sound_header, sound[HEADER_BYTES:])
        if is_sound:
            append(sink, header, body)
        else:
            with pytest.raises(CorruptBatch, match="batch of offset 100"):
                append(sink, header, body)
        append(sink, sound_header, sound[HEADER_BYTES:])
        seen = contents(sink.finish())
        # Damaged keys of headers are replaced by whoever makes text of them.
        assert seen[:4] == expected(wanted + read_batch(sound)[1])[:4]
        assert len(seen[5]) == len(seen[6]) == sum(len(record.headers) for record in wanted + read_batch(sound)[1])


@every_sink
@pytest.mark.parametrize(
    "number", [2**62, 2**63 - 1, -(2**63), NOW_MS, -1, 9_223_372_036_854_775, 9_223_372_036_854_776]
)
def test_times_beyond_64_bits_of_microseconds_become_the_last_one(sink_class, number):
    encoded = b"\x00" + encode_varint(number) + b"\x00\x01\x01\x00"
    batch = assemble_batch(
        encode_varint(len(encoded)) + encoded,
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        attributes=0,
    )
    sink = sink_class(False)
    append(sink, read_header(batch), batch[HEADER_BYTES:])
    assert contents(sink.finish())[1] == [clamped_us(number)]


@every_sink
def test_long_lists_of_headers_are_read(sink_class):
    builder = BatchBuilder()
    headers = [(f"h{index}", None if index % 3 else b"v" * index) for index in range(40)]
    builder.append(NOW_MS, b"a", b"1", headers)
    builder.append(NOW_MS, b"b", b"2", headers[:2])
    builder.append(NOW_MS, b"c", b"3")
    batch = builder.build()
    sink = sink_class(True)
    append(sink, read_header(batch), batch[HEADER_BYTES:])
    assert contents(sink.finish()) == expected(read_batch(batch)[1])


@every_sink
def test_offsets_beyond_64_bits_are_refused(sink_class):
    batch = builder_of().build(base_offset=2**63 - 2)
    with pytest.raises(CorruptBatch, match="64 bits"):
        append(sink_class(False), read_header(batch), batch[HEADER_BYTES:])


@pytest.mark.parametrize("codec", CODECS)
def test_decoder_gives_sparks_schema(codec):
    decoder = ColumnDecoder(with_headers=True)
    batch = builder_of().build(codec=codec, base_offset=50)
    stamped = builder_of().build(codec=codec, base_offset=60, append_time_ms=NOW_MS)
    assert decoder.add(batch, topic="orders", partition=1, from_offset=51) == 3
    assert decoder.add(b"###" + stamped, 3, topic="payments", partition=2, to_offset=61) == 1
    table = decoder.finish()
    table.validate(full=True)
    assert table.schema == RECORD_SCHEMA_WITH_HEADERS
    rows = table.to_pylist()
    assert [(row["topic"], row["partition"], row["offset"], row["timestampType"]) for row in rows] == [
        ("orders", 1, 51, 0),
        ("orders", 1, 52, 0),
        ("orders", 1, 53, 0),
        ("payments", 2, 60, 1),
    ]
    assert [(row["key"], row["value"]) for row in rows[:3]] == [(key, value) for _, key, value, _ in RECORDS[1:]]
    assert rows[0]["headers"] == [{"key": key, "value": value} for key, value in RECORDS[1][3]]
    assert rows[1]["headers"] is None
    assert rows[3]["timestamp"] == datetime.datetime.fromtimestamp(NOW_MS / 1000, datetime.UTC)


def test_decoder_is_empty_after_it_finished():
    decoder = ColumnDecoder()
    assert decoder.finish().num_rows == 0
    decoder.add(builder_of().build(), topic="orders", partition=1)
    assert decoder.count == 4
    assert decoder.data_bytes > 10_000
    assert decoder.finish().schema == RECORD_SCHEMA
    assert decoder.finish().num_rows == 0
    assert ColumnDecoder(with_headers=True).finish().schema == RECORD_SCHEMA_WITH_HEADERS


def test_decoder_refuses_a_wrong_checksum_and_an_unknown_codec():
    decoder = ColumnDecoder()
    batch = builder_of().build()
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        decoder.add(batch, topic="orders", partition=1)
    batch = builder_of().build()
    batch[22] |= 7
    with pytest.raises(CorruptBatch, match="unknown codec 7"):
        decoder.add(batch, topic="orders", partition=1, check_crc=False)
    with pytest.raises(CorruptBatch):
        decoder.add(batch[:-1], topic="orders", partition=1)
    assert decoder.finish().num_rows == 0


def test_header_keys_that_are_no_utf_8_are_read_with_replacements():
    encoded = b"\x00\x00\x00\x01\x01\x04" + encode_varint(2) + b"\xff\xfe" + b"\x01" + b"\x02a\x01"
    batch = assemble_batch(
        encode_varint(len(encoded)) + encoded,
        record_count=1,
        last_offset_delta=0,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        attributes=0,
    )
    decoder = ColumnDecoder(with_headers=True)
    decoder.add(batch, topic="orders", partition=0)
    ((row,),) = [decoder.finish().to_pylist()]
    assert [header["key"] for header in row["headers"]] == ["��", "a"]


@settings(max_examples=40, deadline=None)
@given(samples=batches, bounds=st.tuples(st.integers(0, 60), st.integers(0, 90)), broken=st.none() | st.integers(0, 3))
@pytest.mark.parametrize("sink_class", SINKS, ids=lambda kind: kind.__name__)
def test_several_batches_at_once_are_as_one_by_one(sink_class, samples, bounds, broken):
    data = bytearray()
    positions = []
    base_offset = 0
    for sample, append_time_ms in samples:
        positions.append(len(data))
        data += builder_of(sample).build(base_offset=base_offset, append_time_ms=append_time_ms)
        base_offset += len(sample)
    if broken is not None:
        data[positions[broken % len(positions)] + HEADER_BYTES] ^= 1
    where = {"topic": "orders", "partition": 2, "from_offset": bounds[0], "to_offset": bounds[1], "check_crc": False}
    at_once = ColumnDecoder(with_headers=True, sink=sink_class(True))
    singly = ColumnDecoder(with_headers=True, sink=sink_class(True))
    if broken is None:
        assert at_once.add_all(data, positions, **where) == sum(singly.add(data, start, **where) for start in positions)
    else:
        with pytest.raises(CorruptBatch) as refused:
            at_once.add_all(data, positions, **where)
        *sound, damaged = positions[: broken % len(positions) + 1]
        for start in sound:
            singly.add(data, start, **where)
        with pytest.raises(CorruptBatch) as expected_refusal:
            singly.add(data, damaged, **where)
        assert str(refused.value) == str(expected_refusal.value)
    assert at_once.finish().equals(singly.finish())


def test_rows_of_several_topics_have_their_own_names_partitions_and_kinds_of_time() -> None:
    decoder = ColumnDecoder()
    batch = builder_of(RECORDS).build()
    for topic, partition in (("a", 1), ("a", 1), ("a", 2), ("long-name", 0), ("a", 1)):
        decoder.add_all(batch, [0], topic=topic, partition=partition)
    table = decoder.finish()
    table.validate(full=True)
    each = len(RECORDS)
    assert table.column("topic").to_pylist() == ["a"] * 3 * each + ["long-name"] * each + ["a"] * each
    assert table.column("partition").to_pylist() == [1] * 2 * each + [2] * each + [0] * each + [1] * each
    assert set(table.column("timestampType").to_pylist()) == {0}


@pytest.mark.skipif(not IS_COMPILED, reason="the C kernel is not built here")
def test_reserved_memory_and_memory_of_earlier_columns_change_nothing() -> None:
    batch = builder_of(RECORDS).build()
    header = read_header(batch)
    expected = None
    kept = []
    for reserved in (None, (0, 0), (-5, -5), (len(batch), len(RECORDS)), (10_000_000, 2**40), (1, 1), (2**40, 1)):
        for _ in range(3):
            sink = kernel.ColumnSink(True)
            if reserved is not None:
                sink.reserve(*reserved)
            append(sink, header, batch[HEADER_BYTES:])
            finished = sink.finish()
            kept.append((finished, contents(finished)))
            expected = expected or contents(finished)
        kept = kept[-2:]  # the memory of the others is used again
    assert all(contents(finished) == seen == expected for finished, seen in kept)


@pytest.mark.process
def test_columns_do_not_import_pandas() -> None:
    """`pa.array` and `pa.scalar` would, where it is installed: half a second and 55 MB."""
    code = (
        "import sys\n"
        "from ottla.columns import ColumnDecoder\n"
        "from tests.records.samples import RECORDS, builder_of\n"
        "decoder = ColumnDecoder()\n"
        "decoder.add_all(builder_of(RECORDS).build(), [0], topic='t', partition=0)\n"
        "assert decoder.finish().num_rows == len(RECORDS)\n"
        "assert decoder.finish().num_rows == 0\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout.strip() == "False", done.stderr
