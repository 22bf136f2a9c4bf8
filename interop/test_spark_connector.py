"""Spark's own Kafka connector on our broker, unchanged, and our source beside it: the same rows either way."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.kafka_jars import PeerMissingError
from interop.spark_connector import connector_jars
from ottla import Producer

OFFICIAL, OURS = "kafka", "ottla"


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    try:
        connector_jars()
    except PeerMissingError as missing:
        pytest.skip(str(missing))


def fill(broker: BrokerProcess, topic: str, count: int, *, first: int = 0) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(first, first + count):
            headers = [("n", b"%d" % number), ("n", None)] if number % 3 == 0 else []
            producer.send(topic, b"v%d" % number, key=b"k%d" % number if number % 2 else None, headers=headers)


def read(spark: SparkSession, connector: str, broker: BrokerProcess, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format(connector).option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", topic).option("includeHeaders", "true").options(**options).load()


def rows(frame: DataFrame) -> list[str]:
    """Comparable whatever their order."""
    return sorted(row.json for row in frame.selectExpr("to_json(struct(*)) as json").collect())


@pytest.mark.smoke
def test_batch_reads_are_the_same(spark: SparkSession, broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("spark-batch", partitions=3)
    fill(broker, topic, 3000)
    official, ours = (read(spark, connector, broker, topic) for connector in (OFFICIAL, OURS))
    assert official.schema == ours.schema
    assert rows(official) == rows(ours)
    assert official.count() == 3000
    bounds = {
        "startingOffsets": json.dumps({topic: {"0": 10, "1": -2, "2": 100}}),
        "endingOffsets": json.dumps({topic: {"0": 50, "1": 20, "2": -1}}),
        "minPartitions": "7",
    }
    assert rows(read(spark, OFFICIAL, broker, topic, **bounds)) == rows(read(spark, OURS, broker, topic, **bounds))


@pytest.mark.parametrize("connector", [OFFICIAL, OURS])
def test_a_stream_and_its_sink(
    spark: SparkSession, broker: BrokerProcess, create_topic: CreateTopic, tmp_path: Path, connector: str
) -> None:
    source = create_topic(f"spark-from-{connector}", partitions=2)
    target = create_topic(f"spark-to-{connector}", partitions=2)
    fill(broker, source, 1000)
    stream = (
        spark.readStream.format(connector)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(subscribe=source, startingOffsets="earliest", includeHeaders="true", maxOffsetsPerTrigger="300")
        .load()
    )
    writer = (
        stream.select("key", "value", "headers")
        .writeStream.format(connector)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    writer.start().awaitTermination()
    fill(broker, source, 500, first=1000)
    writer.start().awaitTermination()
    wanted = read(spark, connector, broker, source).select("key", "value", "headers")
    assert rows(read(spark, connector, broker, target).select("key", "value", "headers")) == rows(wanted)


def test_a_checkpoint_of_one_connector_names_the_offsets_of_the_other(
    spark: SparkSession, broker: BrokerProcess, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("spark-checkpoints", partitions=2)
    fill(broker, topic, 100)
    noted = []
    for connector in (OFFICIAL, OURS):
        stream = spark.readStream.format(connector).option("kafka.bootstrap.servers", broker.bootstrap)
        frame = stream.options(subscribe=topic, startingOffsets="earliest").load()
        checkpoint = tmp_path / connector
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        noted.append(json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[-1]))
    assert noted[0] == noted[1]
