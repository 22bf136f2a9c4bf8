"""Offsets that have no row, on Apache Kafka: markers of transactions, aborted records, and what was compacted away.

A slice ends by position all the same. Without Spark: what runs in its workers.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from interop.kafka_peer import KafkaPeer
from ottla import Consumer, Producer, TopicPartition
from ottla.spark.batch_reader import plan_batch
from ottla.spark.log_view import LogView
from ottla.spark.options import ReadOptions, Use, parse_read_options
from ottla.spark.planning import LogSlice
from ottla.spark.reading import read_slices
from tests.processes import eventually


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory, kafka_tools: None) -> Iterator[KafkaPeer]:
    overrides = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.compaction.lag.ms": "0"}
    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data", overrides=overrides) as running:
        yield running


def create(peer: KafkaPeer, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(timeout=30)


def read(options: ReadOptions, piece: LogSlice) -> list[int]:
    return [offset for batch in read_slices(options, [piece]) for offset in batch.column("offset").to_pylist()]


def read_options(peer: KafkaPeer, topic: str, **client: str) -> ReadOptions:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in client.items()}
    return parse_read_options({"kafka.bootstrap.servers": peer.bootstrap, "subscribe": topic} | named, Use.BATCH)


def plan(options: ReadOptions) -> LogSlice:
    with LogView(options) as view:
        (piece,) = plan_batch(view, options)
    return piece


def test_markers_and_aborted_records_are_passed_over(peer: KafkaPeer) -> None:
    create(peer, "transactions")
    with Producer(bootstrap_servers=peer.bootstrap, transactional_id="spark") as producer:
        producer.init_transactions()
        for number in range(10):
            producer.begin_transaction()
            producer.send("transactions", b"v").result(30)  # else aborting would keep it from being sent
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        # Every other offset is a marker, and the last one is, too.
        uncommitted = read_options(peer, "transactions")
        assert (plan(uncommitted).start, plan(uncommitted).end) == (0, 20)
        assert read(uncommitted, plan(uncommitted)) == list(range(0, 20, 2))
        committed = read_options(peer, "transactions", isolation_level="read_committed")
        assert read(committed, plan(committed)) == list(range(0, 20, 4))
        # Nothing but a marker, and nothing but what was aborted.
        assert read(uncommitted, LogSlice("transactions", 0, 3, 4)) == []
        assert read(committed, LogSlice("transactions", 0, 2, 3)) == []
        # An open transaction: a committed query ends before it.
        producer.begin_transaction()
        producer.send("transactions", b"open").result(30)
        assert plan(committed).end == 20
        assert plan(uncommitted).end == 21
        producer.abort_transaction()


def test_what_was_compacted_away_is_passed_over(peer: KafkaPeer) -> None:
    create(peer, "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_bytes="1048576")
    with Producer(bootstrap_servers=peer.bootstrap) as producer:
        for number in range(5000):
            producer.send("compacted", b"%01000d" % number, key=b"same")
    place = TopicPartition("compacted", 0)

    def first_offset() -> int:
        with Consumer(bootstrap_servers=peer.bootstrap) as consumer:
            consumer.assign([place])
            consumer.seek(place, 0)
            records = consumer.poll(10_000)
            return records[0].offset if records else 0

    eventually(lambda: first_offset() > 1000, within_s=120)
    options = read_options(peer, "compacted")
    assert (plan(options).start, plan(options).end) == (0, 5000)
    offsets = read(options, plan(options))
    assert offsets == sorted(set(offsets))
    assert offsets[0] > 1000
    assert offsets[-1] == 4999
    assert read(options, LogSlice("compacted", 0, 0, 500)) == []
