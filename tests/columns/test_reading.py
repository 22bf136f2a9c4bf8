"""Topics as tables, read from a real broker that was sent what `encode_batches` made."""

import datetime
import subprocess
import sys

import pyarrow as pa
import pytest

import ottla.columns
from ottla import Admin, NewTopic
from ottla.clients.errors import BrokerError, ConnectionFailed
from ottla.columns import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS, encode_batches, read, read_batches
from tests.processes import BrokerProcess
from tests.raw_wire import RawClient
from tests.records.samples import NOW_MS

COUNT = 3000


def send(broker: BrokerProcess, topic: str, table: pa.Table, *, partitions: int, compression: str = "none") -> None:
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.create_topics([NewTopic(topic, partitions)])
    with RawClient(broker.port) as client:
        batches = encode_batches(
            table, partition_count=partitions, now_ms=NOW_MS, limit_bytes=5000, compression=compression
        )
        for partition, batch in batches:
            assert client.produce(topic, batch, partition=partition).error_code == 0


@pytest.fixture(scope="module")
def orders(shared_broker: BrokerProcess) -> BrokerProcess:
    table = pa.table(
        {
            "key": pa.array([b"k%d" % (row % 50) if row % 3 else None for row in range(COUNT)]),
            "value": pa.array([b"v%d" % row for row in range(COUNT)]),
            "timestamp": pa.array([NOW_MS + row for row in range(COUNT)], pa.int64()),
            "headers": pa.array(
                [[{"key": "row", "value": b"%d" % row}] if row % 7 == 0 else None for row in range(COUNT)],
                RECORD_SCHEMA_WITH_HEADERS.field("headers").type,
            ),
        }
    )
    send(shared_broker, "orders", table, partitions=3, compression="lz4")
    return shared_broker


@pytest.mark.process
def test_all_that_was_written_is_read(orders):
    table = read("orders", bootstrap_servers=orders.address, headers=True)
    assert table.schema == RECORD_SCHEMA_WITH_HEADERS
    table.validate(full=True)
    rows = sorted(table.to_pylist(), key=lambda row: row["timestamp"])
    assert [row["value"] for row in rows] == [b"v%d" % row for row in range(COUNT)]
    assert [row["key"] for row in rows[:4]] == [None, b"k1", b"k2", None]
    assert [row["headers"] for row in rows[6:9]] == [None, [{"key": "row", "value": b"7"}], None]
    for partition in range(3):
        offsets = table.filter(pa.compute.field("partition") == partition).column("offset").to_pylist()
        assert offsets == list(range(len(offsets)))


@pytest.mark.process
def test_a_part_is_read_by_offsets_times_and_partitions(orders):
    address = orders.address
    part = read("orders", bootstrap_servers=address, partitions=[1], start=5, end=25)
    assert part.column("offset").to_pylist() == list(range(5, 25))
    assert set(part.column("partition").to_pylist()) == {1}
    by_partition = read("orders", bootstrap_servers=address, start={0: 1, 1: 2, 2: 3}, end={0: 2, 1: 2, 2: 5})
    seen = sorted(zip(by_partition["partition"].to_pylist(), by_partition["offset"].to_pylist(), strict=True))
    assert seen == [(0, 1), (2, 3), (2, 4)]
    since = datetime.datetime.fromtimestamp((NOW_MS + 2900) / 1000, datetime.UTC)
    late = read("orders", bootstrap_servers=address, start=since)
    assert late.num_rows >= 100
    assert {b"v%d" % row for row in range(2900, COUNT)} <= set(late.column("value").to_pylist())
    after = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    assert read("orders", bootstrap_servers=address, start=after).num_rows == 0
    assert read("orders", bootstrap_servers=address, end=10**9, isolation_level="read_committed").num_rows == COUNT
    assert read("orders", bootstrap_servers=address, start="latest").schema == RECORD_SCHEMA


@pytest.mark.process
def test_a_stream_comes_in_bounded_pieces(orders):
    reader = read_batches("orders", bootstrap_servers=orders.address, batch_bytes=4000)
    sizes = [batch.num_rows for batch in reader]
    assert sum(sizes) == COUNT
    assert len(sizes) >= 3
    assert max(sizes) < COUNT / 2


@pytest.mark.process
def test_several_topics_make_one_table(orders):
    send(orders, "payments", pa.table({"value": ["a", "b"]}), partitions=1)
    table = read(["orders", "payments"], bootstrap_servers=orders.address)
    counts = table.group_by("topic").aggregate([([], "count_all")]).to_pydict()
    assert dict(zip(counts["topic"], counts["count_all"], strict=True)) == {"orders": COUNT, "payments": 2}


@pytest.mark.process
def test_what_cannot_be_read_is_refused_in_words(orders):
    address = orders.address
    with pytest.raises(BrokerError, match="topic nothing"):
        read("nothing", bootstrap_servers=address)
    with pytest.raises(ValueError, match="partition 9 of topic orders, which has 3"):
        read("orders", bootstrap_servers=address, partitions=[9])
    with pytest.raises(ValueError, match="start 'yesterday'"):
        read("orders", bootstrap_servers=address, start="yesterday")
    with pytest.raises(ValueError, match="no time zone"):
        read("orders", bootstrap_servers=address, start=datetime.datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="no offset for partition 1, 2"):
        read("orders", bootstrap_servers=address, end={0: 5})
    with pytest.raises(ValueError, match="isolation_level 'serializable'"):
        read("orders", bootstrap_servers=address, isolation_level="serializable")
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"):
        read("orders", bootstrap_servers="127.0.0.1:1")


def test_names_of_the_room_are_known():
    with pytest.raises(AttributeError, match="nothing"):
        _ = ottla.columns.nothing
    assert all(getattr(ottla.columns, name) is not None for name in ottla.columns.__all__)


@pytest.mark.process
def test_neither_broker_nor_plain_clients_load_numpy_or_the_kernels_columns():
    code = (
        "import sys, ottla.broker.broker, ottla.records.appender, ottla.records.fetched_record, ottla.columns\n"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
