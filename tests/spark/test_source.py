"""The data source inside Spark: batch and streaming queries, their options and their errors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla import Producer
from ottla.testing.broker import OttlaBroker

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.ottla(scope="session", partitions=2)]

# As org.apache.spark.sql.kafka010.KafkaRecordToRowConverter has it.
KAFKA_SCHEMA = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)


@pytest.fixture
def read(spark: SparkSession, ottla_broker: OttlaBroker) -> Callable[..., DataFrame]:
    def load(topic: str, **options: str) -> DataFrame:
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", ottla_broker.bootstrap_servers)
        return reader.option("subscribe", topic).options(**options).load()

    return load


@pytest.fixture
def read_stream(spark: SparkSession, ottla_broker: OttlaBroker) -> Callable[..., DataFrame]:
    def load(topic: str, **options: str) -> DataFrame:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", ottla_broker.bootstrap_servers)
        return reader.option("subscribe", topic).options(startingOffsets="earliest").options(**options).load()

    return load


def run_available(frame: DataFrame, folder: Path) -> list[dict[str, Any]]:
    """All that is there now into Parquet files; the progress of each batch."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(progress.json) for progress in query.recentProgress]


def test_rows_and_schema_are_those_of_sparks_kafka_source(
    read: Callable[..., DataFrame], ottla_broker: OttlaBroker, ottla_topic: str
) -> None:
    with Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(ottla_topic, b"a", b"k", partition=0, timestamp_ms=1_700_000_000_123, headers=[("h", b"1")])
        producer.send(ottla_topic, None, None, partition=1, timestamp_ms=1)
    assert read(ottla_topic).schema == StructType(KAFKA_SCHEMA)
    frame = read(ottla_topic, includeHeaders="true")
    assert frame.schema == StructType([*KAFKA_SCHEMA, HEADERS])
    first, second = frame.orderBy("partition").selectExpr("*", "cast(timestamp as string) as time").collect()
    assert (first.key, first.value, first.topic, first.partition, first.offset) == (b"k", b"a", ottla_topic, 0, 0)
    assert (first.time, first.timestampType) == ("2023-11-14 22:13:20.123", 0)
    assert [(header.key, header.value) for header in first.headers] == [("h", b"1")]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_a_partition_of_spark_may_be_a_slice(
    read: Callable[..., DataFrame], ottla_broker: OttlaBroker, ottla_topic: str
) -> None:
    ottla_broker.produce(ottla_topic, [f"{number}" for number in range(1000)], partition=0)
    frame = read(ottla_topic, minPartitions="4").selectExpr("spark_partition_id() as id", "offset")
    counted = frame.groupBy("id").count().collect()
    assert sorted(row["count"] for row in counted) == [250] * 4
    assert read(ottla_topic, endingOffsets=json.dumps({ottla_topic: {"0": 10, "1": 0}})).count() == 10


def test_a_task_may_read_several_slices(
    read: Callable[..., DataFrame], ottla_broker: OttlaBroker, ottla_topic: str
) -> None:
    for partition in (0, 1):
        ottla_broker.produce(ottla_topic, ["a", "b", "c"], partition=partition)
    rows = read(ottla_topic, maxPartitions="1").selectExpr("spark_partition_id() as id", "partition", "offset")
    assert sorted(tuple(row) for row in rows.collect()) == [(0, part, offset) for part in (0, 1) for offset in range(3)]


def test_nothing_to_read_is_no_rows(read: Callable[..., DataFrame], ottla_topic: str) -> None:
    assert read(ottla_topic).collect() == []


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession,
    read_stream: Callable[..., DataFrame],
    ottla_broker: OttlaBroker,
    ottla_topic: str,
    tmp_path: Path,
) -> None:
    ottla_broker.produce(ottla_topic, [f"{number}" for number in range(30)], partition=0)
    frame = read_stream(ottla_topic, maxOffsetsPerTrigger="20")
    progress = run_available(frame, tmp_path)
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [20, 10]
    assert progress[-1]["sources"][0]["endOffset"] == {ottla_topic: {"0": 30, "1": 0}}
    ottla_broker.produce(ottla_topic, [f"{number}" for number in range(30, 50)], partition=1)
    run_available(frame, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "rows")).selectExpr("cast(value as string) as value").collect()
    assert sorted(int(row.value) for row in rows) == list(range(50))


def test_a_running_stream_sees_what_comes(
    read_stream: Callable[..., DataFrame], ottla_broker: OttlaBroker, ottla_topic: str, tmp_path: Path
) -> None:
    seen: list[str] = []

    def take(frame: DataFrame, batch_id: int) -> None:
        seen.extend(row.value for row in frame.selectExpr("cast(value as string) as value").collect())

    writer = read_stream(ottla_topic).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        ottla_broker.produce(ottla_topic, ["first"], partition=0)
        ottla_broker.wait_until(lambda: "first" in seen, timeout_ms=60_000)
        ottla_broker.restart(kill=True)
        ottla_broker.produce(ottla_topic, ["second"], partition=1)
        ottla_broker.wait_until(lambda: "second" in seen, timeout_ms=60_000)
    finally:
        query.stop()
    assert seen == ["first", "second"]


def test_what_is_wrong_is_said_to_the_user(
    spark: SparkSession, read: Callable[..., DataFrame], read_stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="unknown option startingofset; did you mean startingOffsets"):
        read("x", startingOfset="earliest").collect()
    with pytest.raises(Exception, match="subscribe no-such-topic: no-such-topic doesn't exist at 127"):
        read("no-such-topic").collect()
    with pytest.raises(Exception, match="no-such-topic doesn't exist at 127"):
        run_available(read_stream("no-such-topic"), tmp_path)
    fixed = spark.read.format("ottla").schema("value string").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(Exception, match="the schema of a topic is fixed"):
        fixed.option("subscribe", "x").load().collect()
