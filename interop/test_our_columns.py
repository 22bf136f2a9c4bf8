"""`ottla.columns` on Apache Kafka: tables written by our producer, transactions of others, codecs of librdkafka."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Producer as OtherProducer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla.columns
from interop.kafka_peer import KafkaPeer
from ottla import Producer


@pytest.fixture(scope="module")
def kafka(kafka_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data") as running:
        yield running


def create(kafka: KafkaPeer, name: str, *, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout=30)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_wrote_is_read(kafka, codec):
    topic = f"read-{codec}"
    create(kafka, topic, partitions=2)
    producer = OtherProducer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 5})
    for row in range(2000):
        producer.produce(topic, value=b"v%d" % row, key=b"k%d" % (row % 10), headers=[("row", b"%d" % row)])
    producer.flush(30)
    table = ottla.columns.read(topic, bootstrap_servers=kafka.bootstrap, headers=True)
    table.validate(full=True)
    rows = table.to_pylist()
    assert sorted(int(row["value"][1:]) for row in rows) == list(range(2000))
    assert all(row["headers"] == [{"key": "row", "value": row["value"][1:]}] for row in rows)


def test_open_and_aborted_transactions_are_left_out_on_demand(kafka):
    create(kafka, "transactions", partitions=1)
    config = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "columns"}
    producer = OtherProducer(config)
    producer.init_transactions(30)
    for name, ends in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("transactions", value=name)
        producer.flush(30)
        ends(30)
    producer.begin_transaction()
    producer.produce("transactions", value=b"open")
    producer.flush(30)

    def values(isolation_level: str) -> list[bytes]:
        table = ottla.columns.read("transactions", bootstrap_servers=kafka.bootstrap, isolation_level=isolation_level)
        return table.column("value").to_pylist()

    assert values("read_committed") == [b"committed"]
    assert values("read_uncommitted") == [b"aborted", b"committed", b"open"]
    producer.abort_transaction(30)


def test_a_table_is_written_and_read_back(kafka):
    create(kafka, "tables", partitions=3)
    count = 50_000
    table = pa.table(
        {
            "key": [f"k{row % 100}" for row in range(count)],
            "value": [f"v{row}" for row in range(count)],
            "timestamp": pa.array([1_700_000_000_000 + row for row in range(count)], pa.int64()),
        }
    )
    with Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": "lz4"}) as producer:
        stored = producer.send_arrow("tables", table).result(60)
    assert sum(batch.record_count for batch in stored) == count
    read = ottla.columns.read("tables", bootstrap_servers=kafka.bootstrap).sort_by("timestamp")
    assert read.column("value").cast(pa.string()).to_pylist() == table.column("value").to_pylist()
    assert read.column("key").cast(pa.string()).to_pylist() == table.column("key").to_pylist()
