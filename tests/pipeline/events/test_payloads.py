"""Opaque Arrow payloads between workers and the driver: rows, their kinds, and what tasks counted."""

from typing import Any

import pyarrow as pa
import pytest

from ottla.pipeline.events.payloads import PayloadWriter, ReadCounters, of_kind, read_payloads

PAYLOADS = pa.schema([pa.field("payload", pa.binary(), nullable=False)])


def written(*tasks: list[pa.RecordBatch]) -> pa.Table:
    """The payloads of these tasks, of which each yields these batches."""
    return pa.Table.from_batches([payload for task in tasks for payload in PayloadWriter(iter)(task)], PAYLOADS)


def schemas_of(payloads: pa.Table) -> list[pa.Schema]:
    return [pa.ipc.open_stream(payload.as_buffer()).schema for payload in payloads.column(0)]


def counted(**rows: Any) -> ReadCounters:
    counters = ReadCounters()
    for topic, (count, high_ms) in rows.items():
        counters.add(topic, count, high_ms)
    return counters


@pytest.mark.parametrize("batch_count", [0, 1, 5])
def test_the_driver_reads_the_rows_that_a_task_wrote(batch_count: int) -> None:
    # Large enough for several payloads.
    batches = [
        pa.record_batch({"number": pa.array([number]), "text": pa.array(["x" * (3 << 20)])})
        for number in range(batch_count)
    ]
    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])
    payloads = written(batches)
    assert payloads.num_rows == -(-batch_count // 3)
    assert read_payloads(payloads, [schema]).tables[0].equals(pa.Table.from_batches(batches, schema))


def test_columns_without_values_are_not_carried() -> None:
    schema = pa.schema([("number", pa.int64()), ("text", pa.string()), ("other", pa.binary())])
    numbers = pa.record_batch([pa.array([1, 2]), pa.nulls(2, pa.string()), pa.nulls(2, pa.binary())], schema=schema)
    texts = pa.record_batch([pa.array([None, 4]), pa.array(["x", None]), pa.nulls(2, pa.binary())], schema=schema)
    payloads = written([numbers, numbers, texts])
    assert [each.names for each in schemas_of(payloads)] == [["number"], ["number", "text"]]
    assert read_payloads(payloads, [schema]).tables[0].equals(pa.Table.from_batches([numbers, numbers, texts]))


def test_rows_of_two_kinds_stay_apart_though_their_columns_are_the_same() -> None:
    plain = pa.schema([("number", pa.int64())])
    odd, even = of_kind(plain, "odd"), of_kind(plain, "even")
    batches = [
        pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], schema=odd if number % 2 else even)
        for number in (1, 3, 2, 5)
    ]
    (evens, odds), _ = read_payloads(written(batches), [even, odd])
    assert evens.column("number").to_pylist() == [2]
    assert odds.column("number").to_pylist() == [1, 3, 5]


def test_a_kind_of_which_no_task_has_rows_is_an_empty_table() -> None:
    schema = pa.schema([("number", pa.int64())])
    (table,), counters = read_payloads(written([]), [schema])
    assert table.schema == schema
    assert table.num_rows == 0
    assert counters == ReadCounters()


def test_counters_of_tasks_are_added_up_and_the_largest_event_time_stays() -> None:
    schema = pa.schema([("number", pa.int64())])
    rows = pa.record_batch([pa.array([7])], schema=schema)
    first, second = counted(a=(3, 20), b=(1, None)), counted(a=(2, 10), c=(4, 5))
    payloads = written([rows, first.as_batch()], [rows, second.as_batch()])
    (table,), counters = read_payloads(payloads, [schema])
    assert table.column("number").to_pylist() == [7, 7]
    assert counters == counted(a=(5, 20), b=(1, None), c=(4, 5))
    assert counters.rows_read == 10


def test_bad_records_are_counted_by_error_class() -> None:
    first, second = ReadCounters(), ReadCounters()
    first.add_dead("not_json", 2)
    second.add_dead("not_json", 1)
    second.add_dead("future", 4)
    _, counters = read_payloads(written([first.as_batch()], [second.as_batch()]), [])
    assert counters.dead == {"not_json": 3, "future": 4}


def test_counters_are_in_the_metadata_of_a_schema_without_columns() -> None:
    (schema,) = schemas_of(written([counted(a=(3, None)).as_batch()]))
    assert schema.names == []
    assert set(schema.metadata) == {b"counters"}
