"""A source whose records go through a function where they are read: the same rows as by `mapInArrow`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla.spark.mapped_source import register_mapped
from ottla.testing.broker import OttlaBroker

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.ottla(scope="session", partitions=2)]

SCHEMA = StructType([StructField("topic", StringType()), StructField("total", LongType(), nullable=False)])
ARROW_SCHEMA = pa.schema([pa.field("topic", pa.string()), pa.field("total", pa.int64(), nullable=False)])


class Totals:
    """Of the numbers in the values of each Arrow batch; pickled to the workers."""

    def __init__(self, factor: int) -> None:
        self._factor = factor

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column("value").cast(pa.string()).cast(pa.int64())
            row = {"topic": batch.column("topic")[0].as_py(), "total": pc.sum(numbers).as_py() * self._factor}
            yield pa.RecordBatch.from_pylist([row], schema=ARROW_SCHEMA)


def test_records_are_mapped_where_they_are_read(
    spark: SparkSession, ottla_broker: OttlaBroker, ottla_topic: str, tmp_path: Path
) -> None:
    for partition in (0, 1):
        ottla_broker.produce(ottla_topic, [str(number) for number in range(100)], partition=partition)
    register_mapped(spark, "totals", Totals(1), SCHEMA)
    register_mapped(spark, "totals", Totals(2), SCHEMA)  # takes the other's place
    options = {"kafka.bootstrap.servers": ottla_broker.bootstrap_servers, "subscribe": ottla_topic}
    frame = spark.read.format("totals").options(**options).load()
    assert frame.schema == SCHEMA
    rows = frame.collect()
    assert {row.topic for row in rows} == {ottla_topic}
    assert sum(row.total for row in rows) == 2 * 2 * sum(range(100))

    stream = spark.readStream.format("totals").options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="50")
    query = (
        stream.load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert len(query.recentProgress) == 4
    assert sum(row.total for row in spark.read.parquet(str(tmp_path / "rows")).collect()) == 2 * 2 * sum(range(100))
