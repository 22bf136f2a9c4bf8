"""One Spark query through one connector, in a process of its own: `python -m bench.spark_job '{...}'` prints seconds.

The query runs once to warm the JVM up, on a part of the rows, and once to be measured.
"""

import json
import sys
import tempfile
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from interop.spark_connector import connector_jars
from ottla.spark import spark_session

OURS = "ottla"
OFFICIAL = "kafka"
_EVENT = "account_id string, event_type string, event_time long, credit int"


def options_of(job: dict[str, Any]) -> dict[str, str]:
    return {"kafka.bootstrap.servers": job["bootstrap"]}


def read(spark: SparkSession, job: dict[str, Any], *, rows: int | None = None) -> DataFrame:
    reader = spark.read.format(job["connector"]).options(**options_of(job)).option("subscribe", job["topic"])
    if rows is not None:
        share = rows // job["partitions"]
        ends = {job["topic"]: {str(partition): share for partition in range(job["partitions"])}}
        reader = reader.option("endingOffsets", json.dumps(ends))
    return reader.load()


def to_nothing(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def batch(spark: SparkSession, job: dict[str, Any], rows: int | None) -> None:
    to_nothing(read(spark, job, rows=rows))


def available_now(spark: SparkSession, job: dict[str, Any], rows: int | None) -> None:
    stream = (
        spark.readStream.format(job["connector"])
        .options(**options_of(job))
        .option("subscribe", job["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job["count"] // 4)
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            stream.load()
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def parse_json(spark: SparkSession, job: dict[str, Any], rows: int | None) -> None:
    parsed = read(spark, job, rows=rows).select(f.from_json(f.col("value").cast("string"), _EVENT).alias("event"))
    to_nothing(parsed.select("event.*").where("credit > 50"))


def sink(spark: SparkSession, job: dict[str, Any], rows: int | None) -> None:
    count = rows or job["count"]
    frame = spark.range(0, count, 1, job["partitions"]).select(
        f.col("id").cast("string").cast("binary").alias("key"),
        f.rpad(f.col("id").cast("string"), job["value_bytes"], "x").cast("binary").alias("value"),
    )
    writer = frame.write.format(job["connector"]).mode("append").options(**options_of(job))
    writer.option("topic", job["topic"]).save()


TASKS = {"batch": batch, "available-now": available_now, "json": parse_json, "sink": sink}


def main() -> None:
    job = json.loads(sys.argv[1])
    jars = connector_jars() if job["connector"] == OFFICIAL else []
    spark = spark_session("local[2]", extra_jars=jars, settings=job.get("settings"))
    run = TASKS[job["task"]]
    seconds = []
    run(spark, job, job["warm_up"])
    for _ in range(job.get("times", 1)):
        started = time.perf_counter()
        run(spark, job, None)
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
