"""The sink: which columns make a record, and rows on their way from Spark to topics."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from ottla.spark.options import OptionError, parse_write_options
from ottla.spark.writer import RowPlan, plan_rows
from ottla.testing.broker import OttlaBroker

pytestmark = pytest.mark.ottla(scope="session", partitions=2)

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}


STRING, BINARY, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()


def schema(**columns: DataType) -> StructType:
    """Without Spark: it alone can read the text form, and such a test may run where none was started."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def headers(key: DataType, value: DataType) -> ArrayType:
    return ArrayType(schema(key=key, value=value))


def test_the_columns_of_a_record_are_taken_and_others_left() -> None:
    rows = schema(KEY=STRING, value=BINARY, partition=INT, headers=headers(STRING, BINARY), ts=LONG)
    plan = plan_rows(rows, parse_write_options(SERVERS | {"topic": "t"}))
    assert plan == RowPlan(("KEY", "value", "partition", "headers"), "t")
    by_column = plan_rows(schema(topic=STRING, value=STRING), parse_write_options(SERVERS))
    assert by_column == RowPlan(("value", "topic"), None)


@pytest.mark.parametrize(
    ("columns", "topic", "complaint"),
    [
        (schema(key=STRING), "t", "no column value among key"),
        (schema(value=STRING), None, "no topic to write to"),
        (schema(value=LONG), "t", "column value is bigint; binary or string is expected"),
        (schema(value=STRING, topic=INT), None, "column topic is int; string is expected"),
        (schema(value=STRING, partition=LONG), "t", "column partition is bigint; int is expected"),
        (schema(value=STRING, headers=ArrayType(STRING)), "t", "column headers is array<string>"),
        (schema(value=STRING, headers=headers(STRING, STRING)), "t", "column headers is array"),
    ],
)
def test_rows_that_can_be_no_records_are_refused(columns: StructType, topic: str | None, complaint: str) -> None:
    options = parse_write_options(SERVERS | ({"topic": topic} if topic else {}))
    with pytest.raises(OptionError, match=complaint):
        plan_rows(columns, options)


@pytest.mark.spark
@pytest.mark.process
def test_rows_become_records(spark: SparkSession, ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    other = ottla_broker.create_topic()
    frame = spark.sql(
        f"""
        select '{ottla_topic}' as topic, 'k' as key, 'a' as value, 1 as partition,
            array(named_struct('key', 'h', 'value', cast('1' as binary))) as headers, 7 as ignored
        union all select '{ottla_topic}', null, 'b', 0, null, 7
        union all select '{other}', 'k', null, 0, null, 7
        """
    ).coalesce(1)
    writer = frame.write.format("ottla").mode("append")
    writer.option("kafka.bootstrap.servers", ottla_broker.bootstrap_servers).save()
    second, first = ottla_broker.records(ottla_topic)
    assert (first.key, first.value, first.partition, list(first.headers)) == (b"k", b"a", 1, [("h", b"1")])
    assert (second.key, second.value, second.partition, list(second.headers)) == (None, b"b", 0, [])
    assert [(record.key, record.value) for record in ottla_broker.records(other)] == [(b"k", None)]


@pytest.mark.spark
@pytest.mark.process
def test_a_stream_is_written_and_its_checkpoint_goes_on(
    spark: SparkSession, ottla_broker: OttlaBroker, ottla_topic: str, tmp_path: Path
) -> None:
    out = ottla_broker.create_topic()
    servers = {"kafka.bootstrap.servers": ottla_broker.bootstrap_servers}
    reader = spark.readStream.format("ottla").options(**servers, subscribe=ottla_topic, startingOffsets="earliest")
    rows = reader.load().selectExpr("key", "upper(cast(value as string)) as value")
    writer = rows.writeStream.format("ottla").options(**servers, topic=out)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    ottla_broker.produce(ottla_topic, [("k", "a"), ("l", "b")])
    writer.start().awaitTermination()
    ottla_broker.produce(ottla_topic, [("m", "c")])
    writer.start().awaitTermination()
    written = {(record.key, record.value) for record in ottla_broker.records(out)}
    assert written == {(b"k", b"A"), (b"l", b"B"), (b"m", b"C")}
    assert len(ottla_broker.records(out)) == 3


@pytest.mark.spark
@pytest.mark.process
def test_what_can_not_be_written_is_said(spark: SparkSession, ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    servers = {"kafka.bootstrap.servers": ottla_broker.bootstrap_servers}
    rows = spark.createDataFrame([("v",)], StructType([StructField("value", StringType())]))
    beyond = rows.selectExpr("value", "9 as partition")
    with pytest.raises(Exception, match="partition 9"):
        beyond.write.format("ottla").mode("append").options(**servers, topic=ottla_topic).save()
    with pytest.raises(Exception, match="a log only takes appends"):
        rows.write.format("ottla").mode("overwrite").options(**servers, topic=ottla_topic).save()
    numbers = spark.createDataFrame([(1,)], StructType([StructField("value", LongType())]))
    with pytest.raises(Exception, match="column value is bigint"):
        numbers.write.format("ottla").mode("append").options(**servers, topic=ottla_topic).save()
    no_topic = spark.sql("select cast(null as string) as topic, 'v' as value")
    with pytest.raises(Exception, match="1 rows have no topic"):
        no_topic.write.format("ottla").mode("append").options(**servers).save()
