"""Arrow tables to batches: kernel and numpy make the same bytes, and reading gives the rows back."""

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.partitioning import partition_for_key
from ottla.columns import ColumnDecoder, batches_of, encode_batches
from ottla.columns.arrow_columns import columns_of
from ottla.columns.numpy_encoding import NumpyAppender
from ottla.columns.partitioning import hash_keys_by_numpy
from ottla.columns.schema import HEADERS_TYPE
from ottla.records.kernel import IS_COMPILED, kernel
from ottla.records.read import read_batch
from tests.records.samples import NOW_MS, builder_of, records

needs_kernel = pytest.mark.skipif(not IS_COMPILED, reason="the C kernel is not built here")
APPENDERS = [NumpyAppender, kernel.Appender] if IS_COMPILED else [NumpyAppender]
every_appender = pytest.mark.parametrize("appender_class", APPENDERS, ids=lambda kind: kind.__name__)


def table_of(sample):
    return pa.record_batch(
        {
            "key": pa.array([key for _, key, _, _ in sample], pa.binary()),
            "value": pa.array([value for _, _, value, _ in sample], pa.binary()),
            "timestamp": pa.array([timestamp_ms for timestamp_ms, _, _, _ in sample], pa.int64()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in headers] for _, _, _, headers in sample], HEADERS_TYPE
            ),
        }
    )


def fill(appender, columns, rows, first=0):
    return appender.append_rows(rows, first, columns.timestamps_ms, columns.key, columns.value, columns.headers)


@every_appender
@settings(max_examples=50, deadline=None)
@given(sample=records, limit_bytes=st.integers(0, 4000), skipped=st.integers(0, 3))
def test_rows_become_the_bytes_that_the_builder_makes(appender_class, sample, limit_bytes, skipped):
    # A slice has its own place in the buffers of the whole.
    columns = columns_of(table_of([(0, b"other", None, [("a", b"b")])] * skipped + sample).slice(skipped), now_ms=0)
    at = 0
    rows = np.arange(len(sample))
    while at < len(sample):
        appender = appender_class(limit_bytes)
        following = fill(appender, columns, rows, at)
        part = sample[at:following]
        assert part
        builder = builder_of(part)
        assert bytes(appender.records()) == bytes(builder.encoded_records)
        assert (appender.record_count, appender.size_bytes) == (len(part), builder.size_bytes)
        assert (appender.base_timestamp_ms, appender.max_timestamp_ms) == (
            builder.base_timestamp_ms,
            builder.max_timestamp_ms,
        )
        assert len(part) == 1 or appender.size_bytes <= limit_bytes
        if following < len(sample):
            builder.append(*sample[following])
            assert builder.size_bytes > limit_bytes
        at = following


@needs_kernel
@settings(max_examples=50, deadline=None)
@given(sample=records, order=st.randoms(), limit_bytes=st.integers(0, 4000))
def test_kernel_and_numpy_take_rows_in_any_order_and_any_number(sample, order, limit_bytes):
    columns = columns_of(table_of(sample), now_ms=0)
    rows = np.array([order.randrange(len(sample)) for _ in range(40)], np.int64)
    ours, other = kernel.Appender(limit_bytes), NumpyAppender(limit_bytes)
    assert fill(ours, columns, rows) == fill(other, columns, rows)
    assert bytes(ours.records()) == bytes(other.records())


@needs_kernel
@settings(max_examples=60, deadline=None)
@given(keys=st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=30), skipped=st.integers(0, 3))
def test_kernel_and_numpy_hash_alike_and_as_the_clients_do(keys, skipped):
    array = pa.array([b"skipped"] * skipped + keys, pa.binary()).slice(skipped)
    columns = columns_of(pa.record_batch({"key": array, "value": array}), now_ms=0)
    hashes = hash_keys_by_numpy(columns.key, len(keys)).tolist()
    assert np.frombuffer(kernel.hash_keys(columns.key, len(keys)), np.int32).tolist() == hashes
    assert [None if value < 0 else value % 7 for value in hashes] == [
        None if key is None else partition_for_key(key, 7) for key in keys
    ]


@settings(max_examples=30, deadline=None)
@given(sample=records, limit_bytes=st.integers(200, 4000), compression=st.sampled_from(["none", "lz4", "zstd"]))
def test_what_is_encoded_is_decoded_to_the_same_rows(sample, limit_bytes, compression):
    table = table_of(sample)
    decoder = ColumnDecoder(with_headers=True)
    for partition, batch in encode_batches(table, now_ms=0, limit_bytes=limit_bytes, compression=compression):
        decoder.add(batch, topic="orders", partition=partition)
    read = decoder.finish()
    assert read.column("key").equals(table.column("key"))
    assert read.column("value").equals(table.column("value"))
    assert [headers or [] for headers in read.column("headers").to_pylist()] == table.column("headers").to_pylist()
    # A table that was read can be written as it is: what the cluster gives anew is left out.
    again = [record for _, batch in encode_batches(read, now_ms=0) for record in read_batch(batch)[1]]
    assert [(record.timestamp_ms, record.key, record.value) for record in again] == [
        (timestamp_ms, key, value) for timestamp_ms, key, value, _ in sample
    ]


def test_rows_go_where_they_are_told_or_by_key_or_in_runs():
    count = 1000
    table = pa.table(
        {
            "key": pa.array([b"k%d" % row if row % 2 else None for row in range(count)]),
            "value": pa.array([b"v%d" % row for row in range(count)]),
            "partition": pa.array([row % 5 if row % 10 == 0 else None for row in range(count)], pa.int32()),
        }
    )
    seen: dict[bytes, int] = {}
    last: dict[int, int] = {}
    for partition, batch in batches_of(table, partition_count=5, now_ms=NOW_MS, limit_bytes=500):
        assert batch.size_bytes <= 500
        for record in read_batch(batch.build())[1]:
            row = int(record.value[1:])
            assert last.get(partition, -1) < row  # in order within each partition
            last[partition] = row
            seen[record.value] = partition
            assert record.timestamp_ms == NOW_MS
    assert len(seen) == count
    for row in range(count):
        if row % 10 == 0:
            assert seen[b"v%d" % row] == row % 5
        elif row % 2:
            assert seen[b"v%d" % row] == partition_for_key(b"k%d" % row, 5)
    runs = [seen[b"v%d" % row] for row in range(count) if row % 2 == 0 and row % 10]
    changes = sum(left != right for left, right in itertools.pairwise(runs))
    assert set(runs) == set(range(5))
    assert changes < len(runs) / 10


def test_keys_that_are_ignored_stay_with_their_records():
    table = pa.table({"key": ["k"] * 100, "value": ["v" * 50] * 100})
    batches = list(batches_of(table, partition_count=3, now_ms=NOW_MS, limit_bytes=500, first_run=1, ignores_keys=True))
    assert {partition for partition, _ in batches} == {0, 1, 2}
    assert all(record.key == b"k" for _, batch in batches for record in read_batch(batch.build())[1])


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.string_view(), pa.binary_view()],
    ids=str,
)
def test_values_may_be_any_kind_of_bytes_or_text(kind):
    array = pa.array(["ä", None, "ccc"], pa.string()).cast(pa.binary() if "binary" in str(kind) else pa.string())
    table = pa.table({"value": array.cast(kind)})
    ((_, batch),) = encode_batches(table, now_ms=NOW_MS)
    assert [record.value for record in read_batch(batch)[1]] == ["ä".encode(), None, b"ccc"]


def test_values_may_be_a_dictionary():
    table = pa.table({"value": pa.array(["a", "b", "a"]).dictionary_encode(), "key": pa.nulls(3)})
    ((_, batch),) = encode_batches(table, now_ms=NOW_MS)
    assert [(record.key, record.value) for record in read_batch(batch)[1]] == [(None, b"a"), (None, b"b"), (None, b"a")]


def test_headers_may_be_a_map_and_records_may_have_none():
    headers = pa.array([[("a", b"1"), ("b", None)], None, []], pa.map_(pa.string(), pa.binary()))
    table = pa.table({"value": pa.array([b"1", b"2", b"3"]), "headers": headers})
    ((_, batch),) = encode_batches(table, now_ms=NOW_MS)
    assert [record.headers for record in read_batch(batch)[1]] == [(("a", b"1"), ("b", None)), (), ()]


def test_times_may_have_any_unit_and_may_be_missing():
    time = datetime.datetime(2026, 5, 1, 12, 0, 0, 123456, datetime.UTC)
    times = pa.array([time, None], pa.timestamp("us", "UTC"))
    for unit in ("ms", "us", "ns"):
        table = pa.table({"value": pa.nulls(2), "timestamp": times.cast(pa.timestamp(unit, "UTC"), safe=False)})
        ((_, batch),) = encode_batches(table, now_ms=NOW_MS)
        assert [record.timestamp_ms for record in read_batch(batch)[1]] == [int(time.timestamp() * 1000), NOW_MS]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": [b""]}, "no column 'value'"),
        ({"value": [b""], "price": [1]}, "'price' has no place"),
        ({"value": [1]}, "'value' is int64"),
        ({"value": [b""], "timestamp": ["now"]}, "'timestamp' is string"),
        ({"value": [b""], "partition": ["0"]}, "'partition' is string"),
        ({"value": [b""], "partition": [1]}, "row 0: partition 1, the topic has 1"),
        ({"value": [b""], "partition": [-2]}, "row 0: partition -2"),
        ({"value": [b""], "headers": [b""]}, "'headers' is binary"),
        ({"value": [b""], "headers": [[{"name": "a", "value": b""}]]}, "fields name, value"),
        ({"value": [b""], "headers": [[{"key": None, "value": b""}]]}, "header without a key"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused_by_its_columns_name(columns, message):
    with pytest.raises((ValueError, TypeError), match=message):
        list(encode_batches(pa.table(columns), now_ms=NOW_MS))


def test_a_table_without_rows_makes_no_batch():
    assert list(encode_batches(pa.table({"value": pa.array([], pa.binary())}), now_ms=NOW_MS)) == []


@needs_kernel
def test_kernel_refuses_columns_that_are_shorter_than_they_say():
    rows, times = np.arange(3), np.zeros(3, np.int64)
    offsets = np.array([0, 1, 2, 3], np.int32)
    for column in [
        (offsets[:3], b"abc", None, 0, 3),
        (offsets, b"ab", None, 0, 3),
        (offsets, b"abc", b"", 0, 3),
        (offsets, b"abc", None, 1, 3),
        (offsets, b"abc", None, -1, 3),
        (offsets, b"abc", None, 0, 2),
        (offsets[::-1].copy(), b"abc", None, 0, 3),
    ]:
        appender = kernel.Appender(1000)
        with pytest.raises(ValueError, match="array"):
            appender.append_rows(rows, 0, times, None, column, None)
    for wrong in ([3], [-1]):
        with pytest.raises(ValueError, match="outside of the table"):
            kernel.Appender(1000).append_rows(np.array(wrong), 0, times, None, None, None)
    with pytest.raises(ValueError, match="row 4 of 3"):
        kernel.Appender(1000).append_rows(rows, 4, times, None, None, None)
